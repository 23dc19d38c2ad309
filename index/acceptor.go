package index

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kinds is a set of JSON types.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindInteger
	kindNumber // includes integers
	kindString
	kindArray
	kindObject
	kindAny = kindNull | kindBoolean | kindInteger | kindNumber | kindString | kindArray | kindObject
)

// Bounds of a schema that the acceptor takes on. Beyond them the judge works
// alone, which is only slower.
const (
	maxPlainDepth = 24
	maxPlainNodes = 2048
	maxPlainProps = 64 // one bit each in the set of seen members
)

// plain is a schema that consists of simple keywords only, compiled for one
// scan over raw bytes. Each constraint applies to values of its own type.
type plain struct {
	kinds kinds

	enum           []string // of strings, sorted; nil: any
	minLen, maxLen int      // in code points

	min, max int64 // inclusive; only where bounded
	bounded  bool

	items              *plain // nil: any
	minItems, maxItems int

	props    []plainProp
	required uint64 // bits of props
	closed   bool   // no members but props
}

type plainProp struct {
	name   string
	schema *plain
}

// compilePlain returns the acceptor of a schema, or nil where the schema uses
// anything that an acceptor does not know with certainty.
func compilePlain(schema json.RawMessage) *plain {
	nodes := 0
	return plainNode(schema, 0, &nodes)
}

func plainNode(schema []byte, depth int, nodes *int) *plain {
	if *nodes++; depth > maxPlainDepth || *nodes > maxPlainNodes {
		return nil
	}
	p := &plain{kinds: kindAny, maxLen: math.MaxInt, maxItems: math.MaxInt, min: math.MinInt64, max: math.MaxInt64}
	if string(schema) == "true" {
		return p
	}
	ok, seen := true, map[string][]byte{}
	isObject := members(schema, func(key, value []byte) {
		name, _ := text(key)
		if _, double := seen[name]; double {
			ok = false
		}
		seen[name] = value
	})
	if !isObject || !ok {
		return nil
	}
	for name, value := range seen {
		if !p.keyword(name, value, depth, nodes) {
			return nil
		}
	}
	// An enum narrows the types whatever the order of the keywords was; the
	// order in which a map is walked must not matter for required either.
	if enum, has := seen["enum"]; has && !p.setEnum(enum) {
		return nil
	}
	if required, has := seen["required"]; has && !p.setRequired(required) {
		return nil
	}
	if alternatives := seen["anyOf"]; alternatives != nil {
		return plainUnion(seen, alternatives, depth, nodes)
	}
	if alternatives := seen["oneOf"]; alternatives != nil {
		return plainUnion(seen, alternatives, depth, nodes)
	}
	return p
}

// keyword takes in one keyword, or says that it is not a plain one.
func (p *plain) keyword(name string, value []byte, depth int, nodes *int) bool {
	ok := true
	switch name {
	case "title", "description", "default", "examples", "$schema", "$comment",
		"deprecated", "readOnly", "writeOnly", "format":
	case "enum", "required", "anyOf", "oneOf":
		// Seen to by the caller, once everything else is known.
	case "type":
		var set kinds
		if set, ok = typeSet(value); ok {
			p.kinds &= set
		}
	case "minLength":
		p.minLen, ok = count(value)
	case "maxLength":
		p.maxLen, ok = count(value)
	case "minItems":
		p.minItems, ok = count(value)
	case "maxItems":
		p.maxItems, ok = count(value)
	case "minimum", "exclusiveMinimum":
		ok = p.setMin(value, name != "minimum")
	case "maximum", "exclusiveMaximum":
		ok = p.setMax(value, name != "maximum")
	case "items":
		p.items = plainNode(value, depth+1, nodes)
		ok = p.items != nil
	case "additionalProperties":
		p.closed = string(value) == "false"
		ok = p.closed || string(value) == "true" || string(value) == "{}"
	case "properties":
		ok = p.setProperties(value, depth, nodes)
	default:
		ok = false
	}
	return ok
}

func (p *plain) setMin(value []byte, exclusive bool) bool {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n == math.MaxInt64 {
		return false
	}
	if exclusive {
		n++ // only integers are ever compared
	}
	p.min, p.bounded = max(p.min, n), true
	return true
}

func (p *plain) setMax(value []byte, exclusive bool) bool {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n == math.MinInt64 {
		return false
	}
	if exclusive {
		n--
	}
	p.max, p.bounded = min(p.max, n), true
	return true
}

func (p *plain) setProperties(value []byte, depth int, nodes *int) bool {
	ok := true
	isObject := members(value, func(key, sub []byte) {
		name, isText := text(key)
		// Broken UTF-8 in the arguments decodes to U+FFFD, so raw bytes
		// cannot tell such a name.
		if !isText || strings.ContainsRune(name, '\uFFFD') || p.prop(name) >= 0 || len(p.props) == maxPlainProps {
			ok = false
			return
		}
		node := plainNode(sub, depth+1, nodes)
		ok = ok && node != nil
		p.props = append(p.props, plainProp{name, node})
	})
	return isObject && ok
}

func (p *plain) setRequired(value []byte) bool {
	ok := true
	isArray := elements(value, func(item []byte) {
		name, isText := text(item)
		if !isText || strings.ContainsRune(name, '\uFFFD') {
			ok = false
			return
		}
		i := p.prop(name)
		if i < 0 {
			if len(p.props) == maxPlainProps || p.closed {
				ok = false
				return
			}
			i = len(p.props)
			p.props = append(p.props, plainProp{name, nil})
		}
		p.required |= 1 << i
	})
	return isArray && ok
}

// setEnum takes an enum of strings and nulls.
func (p *plain) setEnum(value []byte) bool {
	ok, null := true, false
	names := []string{}
	isArray := elements(value, func(item []byte) {
		if string(item) == "null" {
			null = true
			return
		}
		name, isText := text(item)
		ok = ok && isText && len(names) < 256
		names = append(names, name)
	})
	set := kindString
	if null {
		set |= kindNull
	}
	p.kinds &= set
	slices.Sort(names) // for large arrays of them
	p.enum = names
	return isArray && ok
}

func (p *plain) prop(name string) int {
	return slices.IndexFunc(p.props, func(q plainProp) bool { return q.name == name })
}

// plainUnion merges alternatives that no value can match two of, because
// their types differ: then "any of" and "one of" mean the same, and each
// type's constraints are those of its own alternative.
func plainUnion(siblings map[string][]byte, alternatives []byte, depth int, nodes *int) *plain {
	for name := range siblings {
		switch name {
		case "anyOf", "oneOf", "title", "description", "default", "examples", "$comment", "deprecated", "$schema":
		default:
			return nil
		}
	}
	if siblings["anyOf"] != nil && siblings["oneOf"] != nil {
		return nil
	}
	union := &plain{maxLen: math.MaxInt, maxItems: math.MaxInt}
	ok := true
	isArray := elements(alternatives, func(item []byte) {
		a := plainNode(item, depth+1, nodes)
		if a == nil || a.kinds == kindAny || wide(a.kinds)&wide(union.kinds) != 0 {
			ok = false
			return
		}
		union.kinds |= a.kinds
		if a.kinds&kindString != 0 {
			union.enum, union.minLen, union.maxLen = a.enum, a.minLen, a.maxLen
		}
		if a.kinds&(kindInteger|kindNumber) != 0 {
			union.min, union.max, union.bounded = a.min, a.max, a.bounded
		}
		if a.kinds&kindArray != 0 {
			union.items, union.minItems, union.maxItems = a.items, a.minItems, a.maxItems
		}
		if a.kinds&kindObject != 0 {
			union.props, union.required, union.closed = a.props, a.required, a.closed
		}
	})
	if !isArray || !ok || union.kinds == 0 {
		return nil
	}
	return union
}

// wide makes integers and numbers overlap.
func wide(k kinds) kinds {
	if k&(kindInteger|kindNumber) != 0 {
		k |= kindInteger | kindNumber
	}
	return k
}

func typeSet(value []byte) (kinds, bool) {
	if name, ok := text(value); ok {
		k := kindOf(name)
		return k, k != 0
	}
	var set kinds
	ok := true
	isArray := elements(value, func(item []byte) {
		name, _ := text(item)
		k := kindOf(name)
		ok = ok && k != 0
		set |= k
	})
	return set, isArray && ok && set != 0
}

func kindOf(name string) kinds {
	switch name {
	case "null":
		return kindNull
	case "boolean":
		return kindBoolean
	case "integer":
		return kindInteger
	case "number":
		return kindInteger | kindNumber
	case "string":
		return kindString
	case "array":
		return kindArray
	case "object":
		return kindObject
	}
	return 0
}

// count reads a keyword's whole number, at most nine digits.
func count(value []byte) (int, bool) {
	n, err := strconv.ParseUint(string(value), 10, 32)
	return int(min(n, math.MaxInt32)), err == nil
}
