package scrub

import (
	"bytes"
	"encoding/json"
	"maps"
	"sync"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// Counts says how many secrets of which kind were taken out: KIND of the
// marker → how many.
type Counts = map[string]int

// mostKinds bounds the kinds of one Counts; what is beyond counts as "other".
const mostKinds = 32

// JSON is Bytes for a JSON text: a secret is found in whatever way a string
// writes it, with escapes that nobody else would use for it too, and a string
// under a name such as "password" is one. raw stays as it is; what is returned
// is JSON where raw is.
func (s *Set) JSON(raw json.RawMessage) json.RawMessage {
	if s == nil {
		return raw
	}
	out, _ := s.walk(raw, false)
	// Names and numbers, and what is no JSON.
	if spans := s.findPlain(out); len(spans) > 0 {
		return s.without(out, spans)
	}
	return out
}

// Result is JSON for the result of a tool or for what else a server sends to
// its caller. Only strings that are values change, and of them only the secret:
// names, numbers, all other bytes, and images, sounds and blobs stay. Where
// nothing is found raw itself is returned, and nothing is allocated.
func (s *Set) Result(raw json.RawMessage) (json.RawMessage, Counts) {
	if s == nil || len(raw) == 0 {
		return raw, nil
	}
	return s.walk(raw, true)
}

// Add adds the counts of more to those of c, which may be nil, and returns
// them.
func Add(c, more Counts) Counts {
	if len(more) == 0 {
		return c
	}
	if c == nil {
		return maps.Clone(more)
	}
	for kind, n := range more {
		count(c, kind, n)
	}
	return c
}

func count(c Counts, kind string, n int) {
	if _, known := c[kind]; !known && len(c) >= mostKinds {
		kind = "other"
	}
	c[kind] += n
}

// walker goes through one JSON text.
type walker struct {
	s      *Set
	raw    []byte
	result bool // of a tool: what is binary stays unseen, what may be no secret stays
	stack  []level
	text   []byte // of a string with escapes
	spans  []span

	out    []byte // nil: nothing was taken out yet
	copied int    // so much of raw is in out
	counts Counts
}

// level is an object or array that is open.
type level struct {
	object bool
	wants  bool   // a name comes next
	key    []byte // as it is written
	about  about
}

// about is what the members of a content block say of its data.
type about uint8

const (
	aboutMedia about = 1 << iota // an image or a sound
	aboutType                    // has a mimeType
	aboutURI                     // is the content of a resource
)

func aboutOf(key, value []byte) about {
	switch string(key) {
	case "type":
		if v := string(value); v == "image" || v == "audio" {
			return aboutMedia
		}
	case "mimeType":
		return aboutType
	case "uri":
		return aboutURI
	}
	return 0
}

var walkers = sync.Pool{New: func() any { return new(walker) }}

func (s *Set) walk(raw []byte, result bool) ([]byte, Counts) {
	w := walkers.Get().(*walker)
	w.s, w.raw, w.result = s, raw, result
	w.run()
	out, counts := w.out, w.counts
	if out == nil {
		out = raw
	} else {
		out = append(out, raw[w.copied:]...)
	}
	const keep, keepLevels = 4 << 20, 1 << 10
	if cap(w.text) > keep {
		w.text = nil
	}
	if cap(w.stack) > keepLevels {
		w.stack = nil
	}
	clear(w.stack[:cap(w.stack)]) // levels that were left name parts of raw
	*w = walker{stack: w.stack[:0], text: w.text[:0], spans: w.spans[:0]}
	walkers.Put(w)
	return out, counts
}

func (w *walker) run() {
	raw := w.raw
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			end := literalEnd(raw, i)
			if end < 0 {
				return
			}
			if top := w.top(); top != nil && top.wants {
				top.key, top.wants = raw[i+1:end-1], false
				if !w.result {
					w.name(i+1, end-1)
				}
			} else {
				w.value(i+1, end-1)
			}
			i = end - 1
		case '{', '[':
			w.stack = append(w.stack, level{object: raw[i] == '{', wants: raw[i] == '{'})
		case '}', ']':
			if n := len(w.stack); n > 0 {
				w.stack = w.stack[:n-1]
			}
		case ',':
			if top := w.top(); top != nil {
				top.wants = top.object
			}
		}
	}
}

func (w *walker) top() *level {
	if len(w.stack) == 0 {
		return nil
	}
	return &w.stack[len(w.stack)-1]
}

// value looks at the string between two quotes.
func (w *walker) value(lo, hi int) {
	if hi-lo < keyLength {
		return
	}
	inner := w.raw[lo:hi]
	kind := ""
	if top := w.top(); top != nil && top.object {
		top.about |= aboutOf(top.key, inner)
		if w.result && w.isBinary(top, inner, hi+1) {
			return
		}
		kind = strongName(top.key)
	}
	text, escaped := inner, bytes.IndexByte(inner, '\\') >= 0
	if escaped {
		w.text = jsonrpc.AppendUnescaped(w.text[:0], inner)
		text = w.text
	}
	w.spans = w.s.appendFound(w.spans[:0], text, w.result)
	if kind != "" && isSecretValue(text) {
		w.spans = append(w.spans, span{0, len(text), marker(kind)})
	}
	if len(w.spans) > 0 {
		w.replace(lo, hi, text, escaped)
	}
}

// name looks at the name of a member that is written with escapes; what stands
// as it is, is found in the whole text later.
func (w *walker) name(lo, hi int) {
	inner := w.raw[lo:hi]
	if bytes.IndexByte(inner, '\\') < 0 {
		return
	}
	w.text = jsonrpc.AppendUnescaped(w.text[:0], inner)
	if w.spans = append(w.spans[:0], w.s.findPlain(w.text)...); len(w.spans) > 0 {
		w.replace(lo, hi, w.text, true)
	}
}

// isBinary says whether a member of an object is the base64 of an image, a
// sound or a file, as MCP sends them; next is where what follows it begins.
func (w *walker) isBinary(top *level, value []byte, next int) bool {
	var is func(about) bool
	switch string(top.key) {
	case "data":
		is = func(a about) bool { return a&(aboutMedia|aboutType) == aboutMedia|aboutType }
	case "blob":
		is = func(a about) bool { return a&aboutURI != 0 }
	default:
		return false
	}
	return isBase64(value) && (is(top.about) || is(top.about|w.ahead(next)))
}

// ahead is what the next few members of the same object say of it.
func (w *walker) ahead(i int) (a about) {
	const members = 8
	raw := w.raw
	skip := func(c byte) bool {
		for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
			i++
		}
		if i < len(raw) && raw[i] == c {
			i++
			return true
		}
		return false
	}
	literal := func() []byte {
		end := literalEnd(raw, i-1)
		if end < 0 {
			i = len(raw)
			return nil
		}
		from := i
		i = end
		return raw[from : end-1]
	}
	for range members {
		if !skip(',') || !skip('"') {
			return a
		}
		key := literal()
		if !skip(':') || !skip('"') {
			return a
		}
		a |= aboutOf(key, literal())
	}
	return a
}

// isBase64 takes the slash with and without the backslash that JSON allows.
func isBase64(b []byte) bool {
	for i, c := range b {
		slash := c == '\\' && i+1 < len(b) && b[i+1] == '/'
		if !isAlnum(c) && c != '+' && c != '/' && c != '=' && !slash {
			return false
		}
	}
	return true
}

// replace writes a string without what was found in it.
func (w *walker) replace(lo, hi int, text []byte, escaped bool) {
	merged := merge(w.spans)
	w.out = append(w.out, w.raw[w.copied:lo]...)
	begin := len(w.out)
	inner := w.raw[lo:hi]
	at, decoded := 0, 0 // in inner, and the same place in text
	for _, sp := range merged {
		start := sp.start
		if escaped {
			start, decoded = rawPlace(inner, at, decoded, sp.start)
		}
		w.out = append(append(w.out, inner[at:start]...), sp.marker...)
		at = sp.end
		if escaped {
			at, decoded = rawPlace(inner, start, decoded, sp.end)
		}
		if w.counts == nil {
			w.counts = Counts{}
		}
		count(w.counts, kindOf(sp.marker), 1)
	}
	w.out = append(w.out, inner[at:]...)
	// A marker beside the rest could spell a secret again.
	if w.s.known.n > 0 && len(w.s.findKnown(w.out[begin:], w.result)) > 0 {
		quoted := jsonrpc.AppendQuote(nil, string(w.s.without(text, w.spans)))
		w.out = append(w.out[:begin], quoted[1:len(quoted)-1]...)
	}
	w.copied = hi
}

// rawPlace returns where in the inside of a string the byte is written that is
// at want in what the string stands for; at and decoded are a place before it.
func rawPlace(inner []byte, at, decoded, want int) (int, int) {
	for decoded < want && at < len(inner) {
		if inner[at] != '\\' {
			at++
			decoded++
			continue
		}
		n, r := escapeAt(inner[at:])
		at += max(n, 1)
		decoded += max(utf8.RuneLen(r), 1)
	}
	return at, decoded
}

// kindOf is what a marker names.
func kindOf(marker string) string {
	const before, after = "[REDACTED:", "]"
	if len(marker) <= len(before)+len(after) {
		return "secret"
	}
	return marker[len(before) : len(marker)-len(after)]
}

// literalEnd returns where the string that begins at start ends; -1: nowhere.
func literalEnd(b []byte, start int) int {
	for i := start + 1; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		// Quotes behind an odd number of backslashes are a part of the string.
		end := i + n
		slashes := 0
		for j := end - 1; j > start && b[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		i = end + 1
	}
	return -1
}
