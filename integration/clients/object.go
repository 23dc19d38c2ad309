package clients

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// member is one member of an object that is to be written.
type member struct {
	name  string
	value any // string, bool, number, []string or object
}

// object is members in the order in which they are written.
type object []member

func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// stringsOf makes an object of a map, sorted by name.
func stringsOf(pairs map[string]string) object {
	var o object
	for name, value := range pairs {
		o = append(o, member{name, value})
	}
	slices.SortFunc(o, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return o
}

// MarshalJSON keeps the order.
func (o object) MarshalJSON() ([]byte, error) { return []byte(style{}.render(o, "")), nil }

// style is how a file is written.
type style struct {
	newline string // "": all in one line
	unit    string // one step of indentation
}

// render writes a value; indent is that of the line in which it begins.
// Arrays stay in one line, as people write arguments.
func (s style) render(value any, indent string) string {
	switch v := value.(type) {
	case object:
		if len(v) == 0 {
			return "{}"
		}
		inner, end, comma := "", "", ", "
		if s.newline != "" {
			inner, end, comma = s.newline+indent+s.unit, s.newline+indent, ","
		}
		var b strings.Builder
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteString(comma)
			}
			b.WriteString(inner + literal(m.name) + ": " + s.render(m.value, indent+s.unit))
		}
		b.WriteString(end + "}")
		return b.String()
	case []string:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = literal(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	default:
		return literal(v)
	}
}

// literal is a value as JSON, with <, > and & as they are.
func literal(value any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(value) != nil {
		return "null" // values here always marshal
	}
	return strings.TrimSuffix(b.String(), "\n")
}
