package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/integration/jsonc"
)

// A Print tells definitions of tools apart: two have the same one where they
// say the same to a model.
type Print struct {
	Hash [sha256.Size]byte
	// parts are the beginnings of hashes of each part, in the order of partNames.
	parts [len(partNames)]uint64
}

// partNames are the parts of a definition that are told apart; the last one
// stands for all other members.
var partNames = [...]string{"name", "title", "description", "input schema", "output schema", "annotations", "other members"}

func partOf(member string) int {
	switch member {
	case "name":
		return 0
	case "title":
		return 1
	case "description":
		return 2
	case "inputSchema":
		return 3
	case "outputSchema":
		return 4
	case "annotations":
		return 5
	}
	return len(partNames) - 1
}

// changed names the parts in which two definitions differ.
func (p *Print) changed(o *Print) []string {
	var names []string
	for i, name := range partNames {
		if p.parts[i] != o.parts[i] {
			names = append(names, name)
		}
	}
	return names
}

// printVersion is hashed with every definition, so that another way to write
// them makes other hashes.
const printVersion = "metamcp tool 1\n"

// PrintOf takes the print of a definition, one valid JSON object. All of its
// members count, since mcp_discover shows all of them.
func PrintOf(definition json.RawMessage) Print {
	_, p := canonical(definition)
	return p
}

// Bounds of what is taken apart: the time that it takes grows with both.
const (
	maxCanonical = 1 << 20 // bytes
	maxDepth     = 100
)

// canonical writes a definition so that those which say the same are the same
// bytes: members by name, numbers and strings in one spelling, no white space.
// Within schemas the order of required, type and enum counts for nothing, and
// neither does which published draft of JSON Schema $schema names. Absent and null members
// of the definition are the same. What is no JSON object, larger than 1 MiB or
// nested deeper than 100 comes back as it is. It takes the print of that, too.
func canonical(definition json.RawMessage) (json.RawMessage, Print) {
	var p Print
	whole := sha256.New()
	_, _ = whole.Write([]byte(printVersion)) // a hash takes everything
	c := &canon{in: definition}
	c.space()
	if len(definition) > maxCanonical || !json.Valid(definition) || c.peek() != '{' || jsonc.TooDeep(definition, maxDepth) >= 0 {
		_, _ = whole.Write(definition)
		whole.Sum(p.Hash[:0])
		return definition, p
	}
	members := c.members(func(name string) mode {
		if name == "inputSchema" || name == "outputSchema" {
			return schema
		}
		return data
	})
	members = slices.DeleteFunc(members, func(m member) bool { return string(m.value) == "null" })
	out := join(members)
	_, _ = whole.Write(out)
	whole.Sum(p.Hash[:0])
	var parts [len(partNames)][]byte
	for _, m := range members {
		i := partOf(m.name)
		parts[i] = append(append(parts[i], m.key...), m.value...)
	}
	for i, part := range parts {
		if part != nil {
			sum := sha256.Sum256(part)
			p.parts[i] = binary.BigEndian.Uint64(sum[:])
		}
	}
	return out, p
}

// mode says what a value is: members of schemas have a meaning that those of
// other values do not have.
type mode uint8

const (
	data    mode = iota
	schema       // a JSON schema, or what holds some
	schemas      // members are named by the server and hold schemas
)

// canon reads valid JSON.
type canon struct {
	in []byte
	at int
}

type member struct {
	name  string
	key   []byte // as it is written
	value []byte
}

func (c *canon) space() {
	for c.at < len(c.in) && strings.IndexByte(" \t\r\n", c.in[c.at]) >= 0 {
		c.at++
	}
}

func (c *canon) peek() byte {
	if c.at < len(c.in) {
		return c.in[c.at]
	}
	return 0
}

// value returns the next value in its one spelling.
func (c *canon) value(m mode) []byte {
	c.space()
	switch c.peek() {
	case '{':
		members := c.members(func(name string) mode { return m.below(name) })
		if m == schema {
			members = slices.DeleteFunc(members, func(m member) bool { return m.name == "$schema" && knownDraft(m.value) })
		}
		return join(members)
	case '[':
		return c.array(m)
	case '"':
		text, _ := c.text()
		return text
	}
	from := c.at
	for c.at < len(c.in) && strings.IndexByte(",]} \t\r\n", c.in[c.at]) < 0 {
		c.at++
	}
	return number(c.in[from:c.at])
}

// below is the mode of a member's value.
func (m mode) below(name string) mode {
	if m == data {
		return data
	}
	if m == schemas {
		return schema
	}
	switch name {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		return schemas
	case "default", "const", "examples", "example":
		return data
	}
	return schema
}

// members returns the members of an object by name. Of doubled ones all are
// kept, in their order: readers differ on which one counts.
func (c *canon) members(below func(name string) mode) []member {
	var list []member
	c.at++
	for c.space(); c.peek() == '"'; c.space() {
		key, name := c.text()
		c.space()
		c.at++ // the colon
		m := below(name)
		value := c.value(m)
		if m == schema && isSet(name) {
			value = sorted(value)
		}
		list = append(list, member{name, key, value})
		if c.space(); c.peek() == ',' {
			c.at++
		}
	}
	c.at++
	slices.SortStableFunc(list, func(a, b member) int { return bytes.Compare(a.key, b.key) })
	return list
}

func (c *canon) array(m mode) []byte {
	out := []byte{'['}
	c.at++
	for c.space(); c.peek() != ']' && c.at < len(c.in); c.space() {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, c.value(m)...)
		if c.space(); c.peek() == ',' {
			c.at++
		}
	}
	c.at++
	return append(out, ']')
}

// text reads a string and returns it in its one spelling, and what it says.
// What is no Unicode stays as it was written.
func (c *canon) text() (written []byte, says string) {
	from := c.at
	for c.at++; c.at < len(c.in) && c.in[c.at] != '"'; c.at++ {
		if c.in[c.at] == '\\' {
			c.at++
		}
	}
	c.at++
	raw := c.in[from:min(c.at, len(c.in))]
	if json.Unmarshal(raw, &says) != nil || strings.ContainsRune(says, '\uFFFD') {
		return raw, string(raw)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(says) != nil {
		return raw, says
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), says
}

func join(members []member) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.key...), ':'), m.value...)
	}
	return append(out, '}')
}

// isSet says of a keyword whether its list has no order.
func isSet(keyword string) bool {
	return keyword == "required" || keyword == "type" || keyword == "enum"
}

// sorted orders a list of plain values; anything else stays as it is.
func sorted(value []byte) []byte {
	var items []json.RawMessage
	if len(value) == 0 || value[0] != '[' || json.Unmarshal(value, &items) != nil {
		return value
	}
	slices.SortStableFunc(items, func(a, b json.RawMessage) int { return bytes.Compare(a, b) })
	return slices.Concat([]byte{'['}, bytes.Join(toBytes(items), []byte{','}), []byte{']'})
}

func toBytes(items []json.RawMessage) [][]byte {
	out := make([][]byte, len(items))
	for i, item := range items {
		out[i] = item
	}
	return out
}

// knownDraft says whether a $schema names a published draft of JSON Schema: what
// a server's library writes there changes with the library and says nothing to a
// model.
func knownDraft(value []byte) bool {
	switch strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(strings.Trim(string(value), `"`), "https://"), "http://"), "#") {
	case "json-schema.org/draft-04/schema", "json-schema.org/draft-06/schema", "json-schema.org/draft-07/schema",
		"json-schema.org/draft/2019-09/schema", "json-schema.org/draft/2020-12/schema", "json-schema.org/schema":
		return true
	}
	return false
}

// number writes a number as its digits and the power of ten of the last one,
// since 1, 1.0 and 1e0 are the same. Literals, and numbers with an exponent
// beyond reason, stay as they are.
func number(text []byte) []byte {
	if len(text) == 0 || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return text
	}
	mantissa, power, _ := strings.Cut(strings.ToLower(string(text)), "e")
	exponent := 0
	if power != "" {
		n, err := strconv.ParseInt(power, 10, 32)
		if err != nil {
			return text
		}
		exponent = int(n)
	}
	sign := ""
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	if short == "" {
		return []byte("0")
	}
	const readable = 20
	if exponent >= 0 && exponent <= readable {
		return []byte(sign + short + strings.Repeat("0", exponent))
	}
	return []byte(sign + short + "e" + strconv.Itoa(exponent))
}
