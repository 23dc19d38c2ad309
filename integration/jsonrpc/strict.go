package jsonrpc

import "strings"

// NewStrictShape makes a shape of the fields that are wanted of params, for messages
// that another reader reads as well. The message itself, its params and each [Field] that is strict must have no
// name twice, and none that differs from one that is known there in nothing but
// case (as Unicode folds it: ſ is an s, and the Kelvin sign a k): whoever ignores
// case would see another message. known are the names that any reader knows in
// params, beside those of fields.
func NewStrictShape(known []string, fields ...Field) ParamsShape {
	all := messageFields(fields...)
	params := &all[len(all)-1]
	params.Strict, params.Known = true, known
	sh := newShape(all, 0)
	sh.strict = true
	return ParamsShape{sh}
}

// oddity is the first member that two readers would read differently.
type oddity struct {
	key  span   // its name, between the quotes; end 0: there is none
	like string // the name that it looks like; "": it stands there twice
	id   bool   // this or a later one leaves open which id the message has
}

// names are those of one object that no shape captures.
type names struct {
	few  []string
	many map[string]struct{} // once there are more than a few
}

// manyNames is how many names are compared one by one.
const manyNames = 16

// add says whether the name was there before.
func (n *names) add(name string) (again bool) {
	if n.many != nil {
		_, again = n.many[name]
		n.many[name] = struct{}{}
		return again
	}
	for _, other := range n.few {
		if other == name {
			return true
		}
	}
	if n.few = append(n.few, name); len(n.few) > manyNames {
		n.many = make(map[string]struct{}, 2*len(n.few))
		for _, other := range n.few {
			n.many[other] = struct{}{}
		}
	}
	return false
}

// judge notes a member of a strict object that two readers would read
// differently. m is what the shape has for it, before its value is read, and other
// holds the names that it has nothing for.
func (s *scanner) judge(sh *shape, m *member, key span, other **names) {
	if m != nil {
		if s.out[m.slot].end != 0 {
			s.note(key, "", m.slot == slotID)
		}
		return
	}
	if s.odd.key.end != 0 && !sh.hasID() {
		return
	}
	name := string(unescape(nil, key.of(s.b)))
	if like := sh.like(name); like != "" && like != name {
		s.note(key, like, like == "id" && sh.hasID())
		return
	}
	if s.odd.key.end != 0 {
		return
	}
	if *other == nil {
		*other = &names{}
	}
	if (*other).add(name) {
		s.note(key, "", false)
	}
}

// note keeps the first oddity of a message, and whether any concerns its id.
func (s *scanner) note(key span, like string, id bool) {
	if s.odd.key.end == 0 {
		s.odd.key, s.odd.like = key, like
	}
	s.odd.id = s.odd.id || id
}

// hasID says whether a shape is that of the message, which has the id.
func (sh *shape) hasID() bool {
	for i := range sh.members {
		if sh.members[i].slot == slotID {
			return true
		}
	}
	return false
}

// like returns the known name that a reader without an eye for case takes name
// for, "" where there is none.
func (sh *shape) like(name string) string {
	for i := range sh.members {
		if strings.EqualFold(name, sh.members[i].name) {
			return sh.members[i].name
		}
	}
	for _, known := range sh.known {
		if strings.EqualFold(name, known) {
			return known
		}
	}
	return ""
}

// error is what the sender of the member is told.
func (o *oddity) error(b []byte) error {
	const longest = 100
	name := string(unescape(nil, o.key.of(b)))
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	quoted := string(AppendQuote(nil, name))
	if o.like == "" {
		return &MessageError{What: "the member " + quoted + " stands there twice, and readers differ on which one counts; send it once"}
	}
	return &MessageError{What: "the member " + quoted + ` looks like "` + o.like + `", for which some readers take it; names are written in exactly that case`}
}
