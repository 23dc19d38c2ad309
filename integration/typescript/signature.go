package typescript

import (
	"encoding/json"
	"strings"
)

const (
	// maxLength is the longest signature in bytes.
	maxLength = 2_000
	// maxHeader is the longest first sentence.
	maxHeader = 160
	// maxNames is how long the names of server and tool may be together.
	maxNames = 400
	// maxDepth is how many objects within each other are told of at most.
	maxDepth = 12
	// maxShown is how many members of an object or a union are told of where
	// there is room for them.
	maxShown = 60
	// maxWords is how many bytes of a description go into a comment.
	maxWords = 100
)

// Tool is what a signature tells of. Output is nil for a tool that says nothing
// of its result, Input for one that says nothing of its arguments.
type Tool struct {
	Server, Name, Description string
	Input, Output             json.RawMessage
}

// Signature writes how code calls a tool: aliases of the types that need a name,
// one per line, a comment with the first sentence of the description, and the
// call with the types of its argument and of its result. It has at most 2,000
// bytes. It is empty where a schema is no JSON or is nested too deep, and where
// the names are too long for anybody to type.
//
// The types of one tool do not depend on other tools, so two signatures may use
// one alias for different types.
func Signature(t Tool) string {
	parts, ok := sign(t)
	if !ok {
		return ""
	}
	return parts.aliases + parts.comment + parts.path + parts.params
}

// parts are a signature in its parts; path and params make a call together.
type parts struct {
	aliases, comment, path, params string
}

func (p parts) size() int { return len(p.aliases) + len(p.comment) + len(p.path) + len(p.params) }

func sign(t Tool) (parts, bool) {
	if len(t.Server)+len(t.Name) > maxNames {
		return parts{}, false
	}
	b := &builder{left: maxNodes}
	in, inOK := b.schema(t.Input, "Args")
	out, outOK := b.schema(t.Output, "Result")
	if !inOK || !outOK {
		return parts{}, false
	}
	b.run()
	cutCircles(all(in, out))
	pickNamed(in, out)

	var comment string
	if says := short(t.Description, maxHeader); says != "" {
		comment = "/** " + says + " */\n"
	}
	path, params := address(t.Server, t.Name)
	write := func(d detail) (parts, *printer) {
		p := &printer{detail: d, names: map[*def]string{}, taken: map[string]bool{"Promise": true, "Record": true}}
		takes, gives := p.print(in, 0), p.print(out, 0)
		if takes.text == unknown.text {
			takes.text = anything
		}
		name := "args"
		if optional(in) {
			name += "?"
		}
		whole := parts{comment: comment, path: path, params: params + name + ": " + takes.whole() + "): Promise<" + gives.whole() + ">"}
		whole.aliases = p.aliases()
		return whole, p
	}
	if whole, ok := fitting(write); ok {
		return whole, true
	}
	whole := parts{comment: comment, path: path, params: params + "args: " + anything + "): Promise<unknown>"}
	return whole, whole.size() <= maxLength
}

// schema begins the node of a tool's schema; ok is false where it cannot be
// read.
func (b *builder) schema(raw json.RawMessage, hint string) (n *node, ok bool) {
	if len(raw) == 0 || len(raw) > maxSchema {
		return &node{}, true
	}
	v, err := parse(raw)
	if err != nil {
		return nil, false
	}
	return b.document(v, hint), true
}

// optional reports whether a call may come without arguments.
func optional(n *node) bool {
	if n.kind == kindRef {
		n = &n.def.body
	}
	if n.kind == kindUnknown {
		return true
	}
	if n.kind != kindObject || n.more > 0 {
		return false
	}
	for _, p := range n.props {
		if p.required {
			return false
		}
	}
	return true
}

// taken are the names of tools that an object in JavaScript has a meaning of its
// own for; such a tool is called by its name as a string.
var taken = map[string]bool{
	"call": true, "then": true, "catch": true, "finally": true, "constructor": true, "prototype": true, "toString": true,
	"toLocaleString": true, "valueOf": true, "toJSON": true, "hasOwnProperty": true, "isPrototypeOf": true,
	"propertyIsEnumerable": true, "__proto__": true, "__defineGetter__": true, "__defineSetter__": true,
	"__lookupGetter__": true, "__lookupSetter__": true,
}

// address is how a tool is reached in code: a path up to the function, and the
// beginning of its parameters.
func address(server, tool string) (path, params string) {
	path = "servers" + member(server)
	if taken[tool] {
		return path + ".call", "(tool: " + quote(tool) + ", "
	}
	return path + member(tool), "("
}

func member(name string) string {
	if isName(name) {
		return "." + name
	}
	return "[" + quote(name) + "]"
}

// aliases writes the types that got a name, and those that they need.
func (p *printer) aliases() string {
	var b strings.Builder
	for i := 0; i < len(p.listed); i++ {
		d := p.listed[i]
		body := p.print(&d.body, p.depths[i])
		b.WriteString("type " + p.names[d] + " = " + body.text + ";")
		if body.note != "" {
			b.WriteString(" " + body.note)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// fitting returns the signature with the most detail that fits, if any does.
// Types matter more than comments, which the schema has as well: depth is given
// up only where the types alone do not fit, then members, and comments get the
// rest.
func fitting(write func(detail) (parts, *printer)) (parts, bool) {
	deepest := 0
	fits := func(d detail) (parts, bool) {
		whole, p := write(d)
		deepest = max(deepest, p.deepest)
		return whole, whole.size() <= maxLength && p.spent <= maxSpent
	}
	d := detail{depth: maxDepth, most: maxShown}
	best, ok := fits(d)
	for d.depth = min(deepest+1, maxDepth); !ok && d.depth > 1; {
		d.depth--
		best, ok = fits(d)
	}
	for !ok && d.most > 1 {
		d.most /= 2
		best, ok = fits(d)
	}
	if !ok {
		return parts{}, false
	}
	for d.comments = d.depth; d.comments > 0; d.comments-- {
		for _, d.words = range []int{maxWords, maxWords / 2} {
			if more, ok := fits(d); ok {
				return more, true
			}
		}
	}
	return best, true
}
