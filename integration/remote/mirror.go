package remote

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

const (
	methodTools = "tools/list"
	methodCall  = "tools/call"
	annotation  = "x-mcp-header"
	mirrorStart = "Mcp-Param-"
)

// The bounds of what servers want in headers. maxMirrors is how many arguments there may
// be of all their tools, and maxMirrorSchema how long a schema may be with one, in bytes.
const (
	maxMirrors      = 10_000
	maxMirrorSchema = 1 << 20
)

// mirror is an argument of a tool that a modern server wants in a header too, so
// that what stands between can route by it (revision 2026-07-28, Streamable HTTP,
// "Custom Headers from Tool Parameters").
type mirror struct {
	path []string // of properties, from the arguments down
	name string   // of the header, behind Mcp-Param-
}

// mirrors finds the annotations of an input schema. The error says why the tool
// is to be left out, which the revision asks for where one of them is not as it
// should be.
func mirrors(schema json.RawMessage) ([]mirror, error) {
	if !bytes.Contains(schema, []byte(annotation)) {
		return nil, nil
	}
	if len(schema) > maxMirrorSchema {
		return nil, fmt.Errorf("its schema is larger than %d MiB", maxMirrorSchema>>20)
	}
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	w := mirrorWalk{seen: map[string]bool{}}
	if err := w.schema(root, nil, true, 0); err != nil {
		return nil, err
	}
	return w.found, nil
}

type mirrorWalk struct {
	found []mirror
	seen  map[string]bool // lower case
}

// schema looks at one schema. plain says that only properties led to it.
func (w *mirrorWalk) schema(node any, path []string, plain bool, depth int) error {
	const deepest = 64
	if depth > deepest {
		return fmt.Errorf("its schema is more than %d levels deep", deepest)
	}
	if list, ok := node.([]any); ok {
		for _, one := range list {
			if err := w.schema(one, nil, false, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	s, ok := node.(map[string]any)
	if !ok {
		return nil
	}
	if mark, ok := s[annotation]; ok {
		if err := w.take(mark, s, path, plain); err != nil {
			return err
		}
	}
	for key, value := range s {
		var err error
		switch key {
		case "default", "const", "enum", "examples", annotation: // values, not schemas
		case "properties":
			properties, _ := value.(map[string]any)
			for name, property := range properties {
				if err := w.schema(property, append(path[:len(path):len(path)], name), plain, depth+1); err != nil {
					return err
				}
			}
		case "patternProperties", "$defs", "definitions", "dependentSchemas": // schemas by name
			byName, _ := value.(map[string]any)
			for _, one := range byName {
				if err := w.schema(one, nil, false, depth+1); err != nil {
					return err
				}
			}
		default:
			err = w.schema(value, nil, false, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *mirrorWalk) take(mark any, s map[string]any, path []string, plain bool) error {
	name, ok := mark.(string)
	switch {
	case !ok || !isToken(name):
		return fmt.Errorf("%s is %.60q, which is no name for a header", annotation, fmt.Sprint(mark))
	case !plain || len(path) == 0:
		return fmt.Errorf("%s %q stands where no argument is named by properties alone", annotation, name)
	case w.seen[strings.ToLower(name)]:
		return fmt.Errorf("%s %q is there twice", annotation, name)
	}
	// The revision leaves out numbers; the conformance suite has them.
	switch s["type"] {
	case "string", "integer", "boolean", "number":
	default:
		return fmt.Errorf("%s %q is on an argument that is no string, integer or boolean", annotation, name)
	}
	w.seen[strings.ToLower(name)] = true
	w.found = append(w.found, mirror{path, name})
	return nil
}

// isToken says whether text may be the name of a header field (RFC 9110, 5.1).
func isToken(text string) bool {
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return text != ""
}

// setMirrors sets the headers of a call.
func setMirrors(h http.Header, list []mirror, params json.RawMessage) {
	var p struct {
		Arguments any `json:"arguments"`
	}
	d := json.NewDecoder(bytes.NewReader(params))
	d.UseNumber()
	if d.Decode(&p) != nil {
		return
	}
	for _, m := range list {
		value := p.Arguments
		for _, name := range m.path {
			object, _ := value.(map[string]any)
			value = object[name]
		}
		switch v := value.(type) {
		case string:
			h.Set(mirrorStart+m.name, headerValue(v))
		case bool, json.Number:
			h.Set(mirrorStart+m.name, fmt.Sprint(v))
		}
	}
}

// headerValue writes a text as that revision has it: what a header cannot hold
// as it is, in Base64 with a mark around it.
func headerValue(text string) string {
	plain := strings.Trim(text, " \t") == text && !strings.HasPrefix(text, "=?base64?")
	for _, c := range []byte(text) {
		plain = plain && (c >= ' ' && c < 0x7f || c == '\t')
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

// mismatched says whether a server refused the headers of a call, so that its tools
// have to be listed again: what of their arguments goes there has changed. Once
// in a while is enough. k.mu is held.
func (k *Link) mismatched(x *exchange, f *messages.Frame) bool {
	const enough = time.Minute
	var e struct {
		Code int64 `json:"code"`
	}
	if !k.modern || x.method != methodCall || json.Unmarshal(f.Error, &e) != nil || e.Code != mcp.HEADER_MISMATCH || time.Since(k.mismatch) < enough {
		return false
	}
	k.mismatch = time.Now()
	return true
}

// learnTools keeps what a page of tools/list says of headers, and returns the
// page without the tools whose annotations are wrong. k.mu is held.
func (k *Link) learnTools(x *exchange, result json.RawMessage) json.RawMessage {
	var asked struct {
		Cursor *string `json:"cursor"`
	}
	if json.Unmarshal(x.params, &asked) != nil || asked.Cursor == nil {
		k.mirrors, k.mirrored = nil, 0 // the first page
	}
	if !bytes.Contains(result, []byte(annotation)) {
		return result
	}
	start, end, ok := jsonrpc.Index(result, "tools")
	if !ok {
		return result
	}
	kept := append(append(make([]byte, 0, len(result)), result[:start]...), '[')
	listed, left := 0, 0
	var first, why string
	if jsonrpc.Elements(result[start:end], func(tool []byte) error {
		listed++
		if name, err := k.learnTool(tool); err != nil {
			if left++; left == 1 {
				first, why = name, err.Error()
			}
			return nil
		}
		if listed-left > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, tool...)
		return nil
	}) != nil || left == 0 {
		return result
	}
	const longestShown = 200
	k.l.o.Log.Warn("tools are left out: their headers are wrong", "server", k.spec.Name, "tools", left, "first", messages.Cut(first, longestShown), "why", messages.Cut(why, longestShown))
	return append(append(kept, ']'), result[end:]...)
}

// learnTool is learnTools for one of them. The error says why it is to be left out.
// k.mu is held.
func (k *Link) learnTool(raw []byte) (name string, _ error) {
	if !bytes.Contains(raw, []byte(annotation)) {
		return "", nil
	}
	var tool struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"inputSchema"`
	}
	if known := json.Unmarshal(raw, &tool) == nil; !known {
		return "", nil
	}
	list, err := mirrors(tool.Schema)
	more := len(list) - len(k.mirrors[tool.Name])
	switch {
	case err != nil:
		return tool.Name, err
	case len(list) == 0:
	case k.mirrored+more > maxMirrors:
		return tool.Name, fmt.Errorf("the tools have more than %d arguments that are to be in headers", maxMirrors)
	default:
		if k.mirrors == nil {
			k.mirrors = map[string][]mirror{}
		}
		k.mirrors[tool.Name] = list
		k.mirrored += more
	}
	return tool.Name, nil
}
