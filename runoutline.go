package metamcp

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// An outline shows a value that is too long for an answer: its keys and the
// first items of its arrays, and how much of everything there is.

// outlineLevel is how much an outline shows.
type outlineLevel struct{ items, keys, text, depth int }

// outlineLevels are tried in turn, until one fits.
var outlineLevels = []outlineLevel{
	{50, 100, 500, 8}, {20, 60, 200, 6}, {10, 40, 120, 5}, {5, 40, 80, 4}, {3, 30, 60, 4}, {2, 20, 40, 3}, {1, 20, 30, 3}, {1, 12, 20, 2}, {1, 8, 20, 1},
}

// outline returns JSON of at most so many tokens, nil where the value is
// neither an array nor an object, or nothing of it fits.
func outline(value json.RawMessage, most int) json.RawMessage {
	root := &outlineNode{raw: bytes.TrimSpace(value)}
	if len(root.raw) == 0 || root.raw[0] != '[' && root.raw[0] != '{' {
		return nil
	}
	for _, level := range outlineLevels {
		w := outlineWriter{level: level, most: max(most, 0) * 4}
		w.write(root, level.depth)
		if text := w.text.String(); !w.full && index.EstimateTokens(text) <= most {
			return json.RawMessage(text)
		}
	}
	return nil
}

// outlineNode is a part of the value, taken apart where an outline looks into
// it.
type outlineNode struct {
	raw   json.RawMessage
	parts []*outlineNode // the first of them; nil: not taken apart yet
	keys  []string       // of an object, one for each part
	count int            // of all parts
}

// open takes an array or object apart.
func (n *outlineNode) open() {
	if n.parts != nil {
		return
	}
	n.parts = []*outlineNode{}
	object, most := n.raw[0] == '{', outlineLevels[0].items
	if object {
		most = outlineLevels[0].keys
	}
	part := func(key, value []byte) {
		if n.count++; n.count <= most {
			n.parts, n.keys = append(n.parts, &outlineNode{raw: value}), append(n.keys, string(key))
		}
	}
	// The value is valid, so that neither fails.
	if object {
		_ = jsonrpc.Scan(n.raw, func(key, value []byte) error {
			part(key, value)
			return nil
		})
	} else {
		_ = jsonrpc.Elements(n.raw, func(value []byte) error {
			part(nil, value)
			return nil
		})
	}
}

type outlineWriter struct {
	level outlineLevel
	most  int // bytes that may fit
	text  strings.Builder
	full  bool
}

func (w *outlineWriter) write(n *outlineNode, depth int) {
	if w.full = w.full || w.text.Len() > w.most; w.full {
		return
	}
	switch n.raw[0] {
	case '[':
		n.open()
		w.parts(n, depth, w.level.items, '[', ']')
	case '{':
		n.open()
		w.parts(n, depth, w.level.keys, '{', '}')
	case '"':
		w.string(n.raw)
	default:
		w.text.Write(n.raw)
	}
}

func (w *outlineWriter) parts(n *outlineNode, depth, shown int, opening, closing byte) {
	object := opening == '{'
	rest := counted(n.count, "item", "items")
	if object {
		rest = counted(n.count, "key", "keys")
	}
	if depth == 0 && n.count > 0 {
		w.quote("… " + rest)
		return
	}
	w.text.WriteByte(opening)
	shown = min(shown, len(n.parts))
	for i, part := range n.parts[:shown] {
		if i > 0 {
			w.text.WriteByte(',')
		}
		if object {
			w.quote(messages.Cut(n.keys[i], 100))
			w.text.WriteByte(':')
		}
		w.write(part, depth-1)
	}
	if left := n.count - shown; left > 0 {
		if shown > 0 {
			w.text.WriteByte(',')
		}
		if object {
			w.quote("…")
			w.text.WriteByte(':')
			w.quote(counted(left, "more key", "more keys"))
		} else {
			w.quote("… " + counted(left, "more item", "more items"))
		}
	}
	w.text.WriteByte(closing)
}

// string writes a string, or its beginning and how long it is.
func (w *outlineWriter) string(raw json.RawMessage) {
	var text string
	if len(raw) <= w.level.text || json.Unmarshal(raw, &text) != nil || len(text) <= w.level.text {
		w.text.Write(raw)
		return
	}
	w.quote(messages.Cut(text, w.level.text) + " (" + counted(len(text), "byte", "bytes") + ")")
}

func (w *outlineWriter) quote(text string) {
	raw, err := compact(text)
	if err == nil { // a string always encodes
		w.text.Write(raw)
	}
}
