package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/jsonc"
	"github.com/tailscale/hujson"
)

const (
	// maxFile is the largest file that is read; Claude Code keeps its history
	// beside its servers.
	maxFile = 64 << 20
	// maxOwn is the largest configuration of ours: a host reads no larger one.
	maxOwn = 16 << 20
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

// edit is a part of the text that is replaced.
type edit struct {
	from, to int
	text     string
}

// setJSON gives the entry name below path these members: a new entry, or, of
// one that is there, these members and no others. Everything else in the file
// stays byte by byte as it is.
func setJSON(raw []byte, path []string, name string, want object) ([]byte, error) {
	full := slices.Concat(path, []string{name})
	before, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	out := raw
	if _, depth, err := before.at(full); err != nil {
		return nil, err
	} else if depth < len(full) {
		if out, err = setMember(raw, full[:len(full)-1], name, want); err != nil {
			return nil, err
		}
	} else {
		for _, m := range want {
			if out, err = setMember(out, full, m.name, m.value); err != nil {
				return nil, err
			}
		}
	}
	return out, before.verify(out, func(root *hujson.Value) error { return setTree(root, full, want) })
}

// setMember writes one member of the object at path, which is made where it is
// not there.
func setMember(raw []byte, path []string, name string, value any) ([]byte, error) {
	d, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	v, depth, err := d.at(path)
	if err != nil {
		return nil, err
	}
	for i := len(path) - 1; i >= depth; i-- {
		value = object{{name, value}}
		name = path[i]
	}
	if m := find(v, name); m != nil {
		if sameJSON(&m.Value, value) {
			return raw, nil
		}
		s := d.style
		if !d.multiline(v) {
			s.newline = ""
		}
		return d.apply([]edit{{m.Value.StartOffset, m.Value.EndOffset, s.render(value, d.indent(m.Name.StartOffset))}}), nil
	}
	return d.apply(d.insert(v, object{{name, value}})), nil
}

// addJSON adds entries of new names below path.
func addJSON(raw []byte, path []string, entries object) ([]byte, error) {
	d, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	v, depth, err := d.at(path)
	if err != nil {
		return nil, err
	}
	if depth < len(path) {
		return setJSON(raw, path[:len(path)-1], path[len(path)-1], entries)
	}
	out := d.apply(d.insert(v, entries))
	return out, d.verify(out, func(root *hujson.Value) error {
		v, _, err := (&document{root: *root}).at(path)
		if err != nil {
			return err
		}
		added, err := hujson.Parse([]byte(style{}.render(entries, "")))
		if obj, ok := v.Value.(*hujson.Object); ok {
			obj.Members = append(obj.Members, members(&added)...)
		}
		return err
	})
}

// sameJSON reports whether a value says what is to be written.
func sameJSON(v *hujson.Value, value any) bool {
	other, err := hujson.Parse([]byte(style{}.render(value, "")))
	return err == nil && sameValue(v, &other)
}

// sameValue compares two values without white space and comments. Members must
// have the same order.
func sameValue(a, b *hujson.Value) bool {
	switch one := a.Value.(type) {
	case *hujson.Object:
		two, ok := b.Value.(*hujson.Object)
		return ok && slices.EqualFunc(one.Members, two.Members, func(x, y hujson.ObjectMember) bool {
			return sameValue(&x.Name, &y.Name) && sameValue(&x.Value, &y.Value)
		})
	case *hujson.Array:
		two, ok := b.Value.(*hujson.Array)
		return ok && slices.EqualFunc(one.Elements, two.Elements, func(x, y hujson.Value) bool { return sameValue(&x, &y) })
	case hujson.Literal:
		two, ok := b.Value.(hujson.Literal)
		return ok && (bytes.Equal(one, two) || one.Kind() == '"' && two.Kind() == '"' && one.String() == two.String())
	}
	return false
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

// insert adds members behind the last one.
func (d *document) insert(v *hujson.Value, added object) []edit {
	list := members(v)
	end := v.EndOffset - 1 // the closing bracket
	last := v.StartOffset + 1
	comma, behind := "", ""
	if len(list) > 0 {
		last = list[len(list)-1].Value.EndOffset
		comma = ","
		if list[len(list)-1].Value.AfterExtra != nil {
			comma, behind = "", "," // there is one already, and so it stays the style
		}
	}
	// Behind the last comment, but before the white space that follows it.
	tail := d.text[last:end]
	to := last + len(bytes.TrimRight(tail, " \t\r\n"))
	s, indent := d.style, ""
	switch {
	case !d.multiline(v) && to == last:
		s.newline = ""
	case len(list) > 0 && d.startsLine(list[0].Name.StartOffset):
		indent = d.indent(list[0].Name.StartOffset)
	default:
		indent = d.indent(v.StartOffset) + d.unit
	}
	between := s.newline + indent
	if s.newline == "" {
		between = " "
	}
	var text strings.Builder
	for i, m := range added {
		if i > 0 {
			text.WriteByte(',')
		}
		if i > 0 || s.newline != "" || len(list) > 0 {
			text.WriteString(between)
		}
		text.WriteString(literal(m.name) + ": " + s.render(m.value, indent))
	}
	text.WriteString(behind)
	if s.newline != "" && bytes.IndexByte(d.text[to:end], '\n') < 0 {
		text.WriteString(s.newline + d.indent(v.StartOffset))
	}
	if to == last {
		return []edit{{last, last, comma + text.String()}}
	}
	return []edit{{last, last, comma}, {to, to, text.String()}}
}

// apply makes the edits, which must be in order and apart.
func (d *document) apply(edits []edit) []byte {
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, d.text[at:e.from]...), e.text...)
		at = e.to
	}
	return d.raw(append(out, d.text[at:]...))
}

// removeJSON takes entries below path out. Comments around them stay.
func removeJSON(raw []byte, path []string, names []string) ([]byte, error) {
	before, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	out := raw
	for _, name := range names {
		for {
			d, err := parseJSON(out)
			if err != nil {
				return nil, err
			}
			v, depth, err := d.at(path)
			if err != nil {
				return nil, err
			}
			if depth < len(path) || find(v, name) == nil {
				break
			}
			out = d.apply(d.removal(v, name))
		}
	}
	return out, before.verify(out, func(root *hujson.Value) error {
		v, depth, err := (&document{root: *root}).at(path)
		if err != nil || depth < len(path) {
			return err
		}
		if obj, ok := v.Value.(*hujson.Object); ok {
			obj.Members = slices.DeleteFunc(obj.Members, func(m hujson.ObjectMember) bool { return slices.Contains(names, nameOf(&m)) })
		}
		return nil
	})
}

// removal takes the last member of that name out.
func (d *document) removal(v *hujson.Value, name string) []edit {
	list := members(v)
	i := len(list) - 1
	for nameOf(&list[i]) != name {
		i--
	}
	// comma is where the comma behind a member is; the text between holds only
	// white space and comments, which the parser has measured.
	comma := func(m *hujson.ObjectMember) int { return m.Value.EndOffset + len(m.Value.AfterExtra) }
	from, to := list[i].Name.StartOffset, list[i].Value.EndOffset
	var edits []edit
	hasComma := i < len(list)-1 || list[i].Value.AfterExtra != nil
	if !hasComma && i > 0 {
		at := comma(&list[i-1])
		if len(bytes.Trim(d.text[at+1:from], " \t")) == 0 {
			return []edit{{at, to, ""}} // it stands behind the other in one line
		}
		edits = append(edits, edit{at, at + 1, ""})
	}
	behind := edit{to, to, ""}
	if hasComma {
		if at := comma(&list[i]); at == to {
			to++
		} else {
			behind = edit{at, at + 1, ""}
		}
	}
	// A line that is empty then goes as a whole.
	lineFrom := bytes.LastIndexByte(d.text[:from], '\n') + 1
	rest := d.text[to:]
	blank := len(rest) - len(bytes.TrimLeft(rest, " \t\r"))
	switch {
	case behind.from != behind.to:
	case d.startsLine(from) && blank < len(rest) && rest[blank] == '\n' && (len(edits) == 0 || edits[0].to <= lineFrom):
		from, to = lineFrom, to+blank+1
	case d.startsLine(from):
		to += len(rest) - len(bytes.TrimLeft(rest, " \t")) // what follows takes its place
	case i < len(list)-1 && bytes.HasPrefix(rest, []byte(" ")):
		to++
	}
	edits = append(edits, edit{from, to, ""})
	if behind.from != behind.to {
		edits = append(edits, behind)
	}
	return edits
}

// verify makes sure that out says what the file said before and what change
// does to it, and nothing else.
func (d *document) verify(out []byte, change func(root *hujson.Value) error) error {
	after, err := parseJSON(out)
	if err != nil {
		return fmt.Errorf("it cannot be changed safely: %w", err)
	}
	want := d.root.Clone()
	if err := change(&want); err != nil {
		return err
	}
	if !sameValue(&want, &after.root) {
		return errors.New("it cannot be changed safely; change it by hand")
	}
	return nil
}

// setTree is setJSON on the tree.
func setTree(root *hujson.Value, path []string, want object) error {
	v, depth, err := (&document{root: *root}).at(path)
	if err != nil {
		return err
	}
	if depth == len(path) {
		for _, m := range want {
			if err := setOne(v, m.name, m.value); err != nil {
				return err
			}
		}
		return nil
	}
	var value any = want
	for i := len(path) - 1; i > depth; i-- {
		value = object{{path[i], value}}
	}
	return setOne(v, path[depth], value)
}

func setOne(v *hujson.Value, name string, value any) error {
	parsed, err := hujson.Parse([]byte(style{}.render(value, "")))
	if err != nil {
		return err
	}
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return errors.New("not an object")
	}
	if m := find(v, name); m != nil {
		m.Value = parsed
		return nil
	}
	obj.Members = append(obj.Members, hujson.ObjectMember{Name: hujson.Value{Value: hujson.String(name)}, Value: parsed})
	return nil
}

// decodeJSON decodes a part of a document.
func decodeJSON(v *hujson.Value, to any) error {
	c := v.Clone()
	c.Standardize()
	dec := json.NewDecoder(bytes.NewReader(c.Pack()))
	dec.UseNumber()
	return dec.Decode(to)
}
