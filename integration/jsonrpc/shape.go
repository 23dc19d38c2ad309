package jsonrpc

// A shape names the members of an object that a scanner is to capture on its
// way through, at any depth. It is immutable and may be shared.
type shape struct {
	members []member
	slots   int
	strict  bool     // members that another reader would mix up are noted
	known   []string // of a strict one: what other readers know beside the members
	other   int      // slot of the first name that is no member's; 0: it is not wanted
}

type member struct {
	name  string
	inner *shape
	slot  int // index of the value in the captures
	end   int // slots from slot to end belong to this member and what is in it
}

// Field is one member of a shape: its name (unescaped) and, where members of
// its own are wanted, their fields.
type Field struct {
	Name   string
	Fields []Field
	// Strict refuses an object in which a name stands twice, or one that differs
	// from a name of Fields or Known in nothing but case: a reader that ignores
	// case, such as encoding/json, would see another message. It holds where the
	// whole shape is strict, and Fields is not empty.
	Strict bool
	// Known are names that other readers of a strict object know.
	Known []string
	// Other captures, behind what is captured of Fields, the first name in the
	// object that is none of theirs, with its quotes. It holds where Fields is not
	// empty.
	Other bool
}

// newShape makes a shape. The captures are numbered from slot in the order in
// which the fields are written, each field before the fields inside it, and these
// before the name that is none of theirs.
func newShape(fields []Field, slot int) *shape {
	sh := &shape{members: make([]member, 0, len(fields))}
	for _, f := range fields {
		m := member{name: f.Name, slot: slot}
		slot++
		if len(f.Fields) > 0 {
			m.inner = newShape(f.Fields, slot)
			m.inner.strict, m.inner.known = f.Strict, f.Known
			slot = m.inner.slots
			if f.Other {
				m.inner.other = slot
				slot++
			}
		}
		m.end = slot
		sh.members = append(sh.members, m)
	}
	sh.slots = slot
	return sh
}

// find returns the member that key, the raw text between two quotes, names.
func (sh *shape) find(key []byte) *member {
	for i := range sh.members {
		if string(key) == sh.members[i].name {
			return &sh.members[i]
		}
	}
	if !hasEscape(key) {
		return nil
	}
	plain := string(unescape(nil, key))
	for i := range sh.members {
		if plain == sh.members[i].name {
			return &sh.members[i]
		}
	}
	return nil
}
