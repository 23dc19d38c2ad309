package typescript

import (
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"
)

const (
	// maxNodes bounds the types that are made of a tool's schemas.
	maxNodes = 4_000
	// maxMembers bounds the properties of one object and the members of one
	// union that are looked at.
	maxMembers = 300
	// maxLiteral is the longest value, in bytes, that is written as a type.
	maxLiteral = 80
	// maxKey is the longest name of a property that is written.
	maxKey = 120
)

// builder makes nodes of schemas. It goes breadth first, so that what its
// bounds leave out is what lies deepest.
type builder struct {
	queue []todo
	left  int // nodes that may still be made
}

type todo struct {
	schema any
	into   *node
	scope  *scope
}

// scope is one schema document, in which references are looked up.
type scope struct {
	root any
	defs map[*object]*def
}

// document returns the node of a whole schema.
func (b *builder) document(root any, hint string) *node {
	s := &scope{root: root, defs: map[*object]*def{}}
	if o, ok := root.(*object); ok {
		return &node{kind: kindRef, def: b.define(s, o, hint)}
	}
	return b.node(s, root)
}

// run fills the nodes that were begun.
func (b *builder) run() {
	for len(b.queue) > 0 {
		t := b.queue[0]
		b.queue = b.queue[1:]
		b.fill(t)
	}
}

// node begins a node for a schema; beyond the bounds it stays unknown.
func (b *builder) node(s *scope, schema any) *node {
	n := &node{}
	if b.left > 0 {
		b.left--
		b.queue = append(b.queue, todo{schema, n, s})
	}
	return n
}

func (b *builder) define(s *scope, o *object, hint string) *def {
	d := s.defs[o]
	if d == nil {
		d = &def{hint: hint}
		s.defs[o] = d
		if b.left > 0 {
			b.left--
			b.queue = append(b.queue, todo{o, &d.body, s})
		}
	}
	return d
}

func (b *builder) fill(t todo) {
	s, ok := t.schema.(*object)
	if !ok {
		if t.schema == false {
			t.into.kind, t.into.text = kindText, "never"
		}
		return
	}
	var parts []*node
	if ref, ok := s.get("$ref").(string); ok {
		parts = append(parts, b.reference(t.scope, ref))
	}
	if n := b.base(t.scope, s); n != nil {
		parts = append(parts, n)
	}
	for _, sub := range first(s.list("allOf"), maxMembers) {
		parts = append(parts, b.node(t.scope, sub))
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list := s.list(key); len(list) > 0 {
			parts = append(parts, b.union(t.scope, list))
		}
	}
	n := t.into
	switch len(parts) {
	case 0:
	case 1:
		// It may not be filled yet, so it is not copied.
		*n = node{kind: kindIntersection, items: parts}
		if parts[0].kind != kindUnknown {
			*n = *parts[0]
		}
	default:
		*n = node{kind: kindIntersection, items: parts}
	}
	if s.get("nullable") == true && n.kind != kindUnknown {
		within := *n
		*n = node{kind: kindUnion, items: []*node{&within, text("null")}}
	}
	n.says, n.facts = s.text("description"), facts(s)
}

func text(s string) *node { return &node{kind: kindText, text: s} }

func first[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// reference returns the node of a reference within the document, and unknown
// for any other: nothing is fetched.
func (b *builder) reference(s *scope, ref string) *node {
	const most = 400
	fragment, local := strings.CutPrefix(ref, "#")
	if !local || len(ref) > most {
		return &node{}
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return &node{}
	}
	at, hint := s.root, ""
	if fragment != "" {
		path, isPointer := strings.CutPrefix(fragment, "/")
		if !isPointer {
			return &node{}
		}
		for step := range strings.SplitSeq(path, "/") {
			hint = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
			switch v := at.(type) {
			case *object:
				at = v.get(hint)
			case []any:
				i, err := strconv.Atoi(hint)
				if err != nil || i < 0 || i >= len(v) {
					return &node{}
				}
				at = v[i]
			default:
				return &node{}
			}
		}
	}
	switch v := at.(type) {
	case *object:
		return &node{kind: kindRef, def: b.define(s, v, hint)}
	case bool:
		return b.node(s, v)
	}
	return &node{}
}

func (b *builder) union(s *scope, list []any) *node {
	n := &node{kind: kindUnion, more: max(len(list)-maxMembers, 0)}
	for _, sub := range first(list, maxMembers) {
		n.items = append(n.items, b.node(s, sub))
	}
	return n
}

// base is what a schema says by itself, without references and combinations;
// nil: nothing.
func (b *builder) base(s *scope, o *object) *node {
	if v, ok := o.values["const"]; ok {
		return literal(v)
	}
	if list := o.list("enum"); len(list) > 0 {
		return b.enum(list)
	}
	var names []string
	switch v := o.get("type").(type) {
	case string:
		names = []string{v}
	case []any:
		const types = 7 // there are no more
		for _, name := range first(v, types) {
			if name, ok := name.(string); ok {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		names = implied(o)
	}
	if len(names) == 0 {
		return nil
	}
	n := &node{kind: kindUnion}
	for _, name := range names {
		n.items = append(n.items, b.typed(s, o, name))
	}
	if len(n.items) == 1 {
		return n.items[0]
	}
	return n
}

// implied is the type of a schema that does not say it, by what it says
// instead.
func implied(o *object) []string {
	_, open := o.get("additionalProperties").(*object)
	switch {
	case o.object("properties") != nil, o.object("patternProperties") != nil, open:
		return []string{"object"}
	case o.get("items") != nil, o.get("prefixItems") != nil:
		return []string{"array"}
	}
	return nil
}

func (b *builder) typed(s *scope, o *object, name string) *node {
	switch name {
	case "string", "number", "boolean", "null":
		return text(name)
	case "integer":
		return text("number")
	case "object":
		return b.object(s, o)
	case "array":
		return b.array(s, o)
	}
	return &node{}
}

func literal(v any) *node {
	switch v := v.(type) {
	case nil:
		return text("null")
	case bool:
		return text(strconv.FormatBool(v))
	case string:
		if len(v) <= maxLiteral {
			return text(quote(v))
		}
		return text("string")
	case json.Number:
		f, err := v.Float64()
		if err == nil && !math.IsInf(f, 0) && len(v) <= maxLiteral {
			return text(v.String())
		}
		return text("number")
	case []any:
		return text("unknown[]")
	}
	return text("object")
}

func (b *builder) enum(list []any) *node {
	if b.left < min(len(list), maxMembers) {
		return &node{}
	}
	n := &node{kind: kindUnion, more: max(len(list)-maxMembers, 0)}
	for _, v := range first(list, maxMembers) {
		n.items = append(n.items, literal(v))
	}
	b.left -= len(n.items)
	return n
}

func (b *builder) object(s *scope, o *object) *node {
	n := &node{kind: kindObject}
	known := o.object("properties")
	required := map[string]bool{}
	for _, name := range o.list("required") {
		if name, ok := name.(string); ok {
			required[name] = true
		}
	}
	var names []string
	if known != nil {
		names = known.keys
	}
	for _, name := range o.list("required") {
		if name, ok := name.(string); ok && (known == nil || !has(known, name)) && required[name] {
			names = append(names[:len(names):len(names)], name)
			required[name] = false // once
		}
	}
	for _, name := range names {
		if len(n.props) == maxMembers || len(name) > maxKey {
			n.more++
			continue
		}
		p := prop{name: name, of: &node{}, required: true}
		if known != nil && has(known, name) {
			p.of, p.required = b.node(s, known.get(name)), required[name]
		}
		n.props = append(n.props, p)
	}
	b.further(s, o, n)
	return n
}

func has(o *object, key string) bool {
	_, ok := o.values[key]
	return ok
}

// further sets what else an object may hold.
func (b *builder) further(s *scope, o *object, n *node) {
	patterns := o.object("patternProperties")
	further, said := o.values["additionalProperties"]
	rest, typed := further.(*object)
	switch {
	case len(n.props) > 0:
		// An index signature holds for named members, too, so that it can
		// promise nothing beside them.
		if typed || further == true || patterns != nil && len(patterns.keys) > 0 {
			n.index = &node{}
		}
	case patterns != nil && len(patterns.keys) == 1 && !typed && further != true:
		n.index = b.node(s, patterns.get(patterns.keys[0]))
	case patterns != nil && len(patterns.keys) > 0, further == true:
		n.index = &node{}
	case typed:
		n.index = b.node(s, rest)
	case !said && o.object("properties") == nil:
		n.index = &node{} // nothing is said of it, so anything may be in it
	}
}

func (b *builder) array(s *scope, o *object) *node {
	list, rest := o.list("prefixItems"), o.get("items")
	if list == nil {
		// Before draft 2020-12.
		if list = o.list("items"); list != nil {
			rest = o.get("additionalItems")
		}
	}
	if len(list) == 0 || len(list) > maxMembers {
		if o.list("items") != nil {
			rest = nil
		}
		return &node{kind: kindArray, items: []*node{b.node(s, rest)}}
	}
	n := &node{kind: kindTuple, least: len(list)}
	if least, err := strconv.Atoi(o.number("minItems")); err == nil {
		n.least = min(max(least, 0), len(list))
	}
	for _, sub := range list {
		n.items = append(n.items, b.node(s, sub))
	}
	if rest != nil && rest != false {
		n.index = b.node(s, rest)
	}
	return n
}
