package clients

import (
	"bytes"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

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
