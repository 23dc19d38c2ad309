package index

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/metamcp/metamcp/messages"
)

// maxToolName is the longest tool name, in bytes, that is taken from a child.
const maxToolName = 256

// MaxTools is how many tools are taken of one server. Each costs a few KB here, however
// short its definition is.
const MaxTools = 20_000

// maxDescription bounds, in bytes, the description of a tool beside its
// definition, which has it whole.
const maxDescription = 64 << 10

// ParseTools reads the tools of one page of a tools/list result, {"tools":[…]}.
// They come in the child's order; their byte slices alias page, which must not be
// written to afterwards.
//
// One odd definition never fails the page: a tool with a usable name is kept
// whatever its schema is; anything without one (no object, no name, a name
// over 256 bytes, blank, with control characters or invalid UTF-8) and the second
// and further tools of the same name are counted in skipped. Of a page with more than
// [MaxTools] definitions the first ones are read, and of the others nothing is said.
//
// err is set only where the page as a whole is no tool listing. Safe for any
// goroutine.
func ParseTools(server string, page json.RawMessage) (tools []*messages.Tool, skipped int, err error) {
	if !json.Valid(page) {
		return nil, 0, fmt.Errorf("tools/list of %q: the result is not valid JSON", server)
	}
	list, isObject := toolsOf(page)
	switch {
	case !isObject:
		return nil, 0, fmt.Errorf("tools/list of %q: the result is not an object", server)
	case list == nil:
		return nil, 0, fmt.Errorf("tools/list of %q: the result has no member \"tools\"", server)
	case bytes.Equal(list, []byte("null")):
		return nil, 0, nil // some children write an empty list so
	}
	seen := map[string]struct{}{}
	listed := 0
	isArray := elements(list, func(raw []byte) {
		if listed++; listed > MaxTools {
			return
		}
		t := parseTool(server, raw)
		if t == nil {
			skipped++
			return
		}
		if _, double := seen[t.Name]; double {
			skipped++
			return
		}
		seen[t.Name] = struct{}{}
		tools = append(tools, t)
	})
	if !isArray {
		return nil, 0, fmt.Errorf("tools/list of %q: \"tools\" is not an array", server)
	}
	return tools, skipped, nil
}

// CountTools returns how many definitions a page of a tools/list result has, usable or
// not. The page is valid JSON.
func CountTools(page json.RawMessage) (n int) {
	EachTool(page, func([]byte) { n++ })
	return n
}

// EachTool hands f every definition of a page of a tools/list result, usable or not, as it
// is in the page. The page is valid JSON.
func EachTool(page json.RawMessage, f func(raw []byte)) {
	list, _ := toolsOf(page)
	elements(list, f)
}

// toolsOf is the list in a page; nil: it has none.
func toolsOf(page []byte) (list []byte, isObject bool) {
	isObject = members(page, func(key, value []byte) {
		if name, _ := text(key); name == "tools" {
			list = value
		}
	})
	return list, isObject
}

// parseTool reads one definition, or returns nil where it has no usable name.
// raw is valid JSON. Of a repeated member the last one counts, as it does in
// the decoders that children and clients use.
func parseTool(server string, raw []byte) *messages.Tool {
	t := &messages.Definition{Raw: raw}
	isObject := members(raw, func(key, value []byte) {
		name, _ := text(key)
		switch name {
		case "name":
			t.Name, _ = text(value)
		case "title":
			t.Title, _ = text(value)
		case "description":
			t.Description, _ = text(value)
			if len(t.Description) > maxDescription {
				t.Description = strings.Clone(shorten(t.Description, maxDescription))
			}
		case "inputSchema":
			t.InputSchema = unlessNull(value)
		case "outputSchema":
			t.OutputSchema = unlessNull(value)
		case "annotations":
			t.Annotations = unlessNull(value)
		}
	})
	if !isObject || !usableName(t.Name) {
		return nil
	}
	members(t.Annotations, func(key, value []byte) {
		name, _ := text(key)
		switch name {
		case "title":
			if t.Title == "" {
				t.Title, _ = text(value)
			}
		case "readOnlyHint":
			t.ReadOnly = string(value) == "true"
		case "idempotentHint":
			t.Idempotent = string(value) == "true"
		}
	})
	return &messages.Tool{Server: server, Definition: t}
}

func unlessNull(value []byte) json.RawMessage {
	if string(value) == "null" {
		return nil
	}
	return value
}

func usableName(name string) bool {
	if strings.TrimSpace(name) == "" || len(name) > maxToolName || !utf8.ValidString(name) {
		return false
	}
	before := ' '
	for _, r := range name {
		// What turns or breaks the lines of those who read it is no name, nor
		// what two tools could differ in without anybody seeing it.
		if unicode.IsControl(r) || messages.Hidden(r, before) {
			return false
		}
		before = r
	}
	return true
}
