package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/integration/jsonc"
)

const (
	// maxFile is the largest file that is read; Claude Code keeps its history
	// beside its servers.
	maxFile = 64 << 20
	// maxDepth bounds nesting, since the parser recurses.
	maxDepth = 500
)

var bom = []byte("\xef\xbb\xbf")

// document is a JSON text with comments. What it says of places counts in text,
// which has no byte order mark and one line feed more at its end, since the
// parser wants one behind a comment.
type document struct {
	text []byte
	bom  bool
	root hujson.Value
	none bool // there was nothing but white space
	style
}

// parseJSON never shows what stands in the text: it may be secret.
func parseJSON(raw []byte) (*document, error) {
	if len(raw) > maxFile {
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	d := &document{text: bytes.TrimPrefix(raw, bom)}
	d.bom = len(d.text) < len(raw)
	if bytes.HasPrefix(d.text, []byte{0xff, 0xfe}) || bytes.HasPrefix(d.text, []byte{0xfe, 0xff}) {
		return nil, errors.New("it is UTF-16; save it as UTF-8")
	}
	if len(bytes.TrimSpace(d.text)) == 0 {
		d.none, d.text = true, []byte("{}")
	}
	d.text = append(d.text[:len(d.text):len(d.text)], '\n')
	if at := jsonc.TooDeep(d.text, maxDepth); at >= 0 {
		return nil, fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	var err error
	if d.root, err = hujson.Parse(d.text); err != nil {
		return nil, d.withoutValues(err)
	}
	if d.root.Value.Kind() != '{' {
		return nil, fmt.Errorf("it is not an object: found %s", jsonc.Kind(&d.root))
	}
	d.style = d.look()
	return d, nil
}

// withoutValues is an error of the parser that says where, and not what is
// there: that could be a secret.
func (d *document) withoutValues(err error) error {
	var line, column int
	if n, _ := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); n < 2 {
		return errors.New("it is not JSON")
	}
	if last := bytes.Count(bytes.TrimRight(d.text, " \t\r\n"), []byte("\n")) + 1; line > last {
		return fmt.Errorf("it is not JSON: it ends too early, in line %d", last)
	}
	return fmt.Errorf("it is not JSON: line %d, column %d", line, column)
}

// look finds out how the file is written.
func (d *document) look() style {
	s := style{newline: "\n", unit: "  "}
	if i := bytes.IndexByte(d.text[:len(d.text)-1], '\n'); i > 0 && d.text[i-1] == '\r' {
		s.newline = "\r\n"
	}
	root := members(&d.root)
	if len(root) == 0 {
		return s
	}
	first := root[0].Name.StartOffset
	if unit := d.indent(first); unit != "" && d.startsLine(first) {
		s.unit = unit
	}
	return s
}

// indent is the white space at the beginning of the line of an offset.
func (d *document) indent(offset int) string {
	line := d.text[bytes.LastIndexByte(d.text[:offset], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// startsLine reports whether only white space stands before offset in its line.
func (d *document) startsLine(offset int) bool {
	line := d.text[bytes.LastIndexByte(d.text[:offset], '\n')+1 : offset]
	return len(bytes.TrimLeft(line, " \t")) == 0
}

// raw is the text as it is written to the file.
func (d *document) raw(text []byte) []byte {
	text = bytes.TrimSuffix(text, []byte("\n"))
	if d.none {
		text = append(text, '\n')
	}
	if d.bom {
		text = append(bom[:len(bom):len(bom)], text...)
	}
	return text
}

func members(v *hujson.Value) []hujson.ObjectMember {
	if obj, ok := v.Value.(*hujson.Object); ok {
		return obj.Members
	}
	return nil
}

// find returns the member of that name, of several the last one, as parsers
// take it; nil: none.
func find(v *hujson.Value, name string) *hujson.ObjectMember {
	list := members(v)
	for i := len(list) - 1; i >= 0; i-- {
		if nameOf(&list[i]) == name {
			return &list[i]
		}
	}
	return nil
}

func nameOf(m *hujson.ObjectMember) string {
	lit, _ := m.Name.Value.(hujson.Literal)
	return lit.String()
}

// at returns the object at a path, and how much of the path is there.
func (d *document) at(path []string) (*hujson.Value, int, error) {
	v := &d.root
	for i, key := range path {
		m := find(v, key)
		if m == nil {
			return v, i, nil
		}
		switch m.Value.Value.Kind() {
		case '{':
			v = &m.Value
		case 'n':
			return v, i, nil // as good as absent
		default:
			return nil, 0, fmt.Errorf("%q is not an object: found %s", strings.Join(path[:i+1], "."), jsonc.Kind(&m.Value))
		}
	}
	return v, len(path), nil
}

// multiline reports whether the members of an object stand in lines of their
// own, or would.
func (d *document) multiline(v *hujson.Value) bool {
	list := members(v)
	if len(list) > 0 {
		return bytes.IndexByte(d.text[v.StartOffset:list[0].Name.StartOffset], '\n') >= 0
	}
	root := members(&d.root)
	return len(root) == 0 || bytes.IndexByte(d.text[d.root.StartOffset:d.root.EndOffset], '\n') >= 0
}

// decodeJSON decodes a part of a document.
func decodeJSON(v *hujson.Value, to any) error {
	c := v.Clone()
	c.Standardize()
	dec := json.NewDecoder(bytes.NewReader(c.Pack()))
	dec.UseNumber()
	return dec.Decode(to)
}
