package scrub

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// table is what is known to be secret, by its first three bytes, the longest first.
// It is in parts, so that a copy that learns a little more shares most of them: tokens
// are renewed all the time, and a host may know the secrets of thousands of servers.
type table struct {
	parts [tableParts]map[uint32][]secret
	n     int // secrets
}

const tableParts = 1 << 10

// secret is a known value, and what is written in its place.
type secret struct {
	value []byte
	found
	marker string
}

func (t *table) at(key uint32) []secret { return t.parts[tablePart(key)][key] }

func tablePart(key uint32) uint32 { return filterPlace(key) % tableParts }

// all are the secrets.
func (t *table) all(yield func(*secret) bool) {
	for _, part := range &t.parts {
		for _, same := range part {
			for i := range same {
				if !yield(&same[i]) {
					return
				}
			}
		}
	}
}

// learn adds secrets by how they are written. Copies of the table stay as they are.
func (t *table) learn(written map[string]found) {
	more := map[uint32][]secret{}
	for w, f := range written {
		key := keyOf([]byte(w))
		more[key] = append(more[key], secret{[]byte(w), f, marker(f.name)})
	}
	own := map[uint32]bool{} // parts that no copy has
	for key, list := range more {
		i := tablePart(key)
		if !own[i] {
			own[i] = true
			if t.parts[i] = maps.Clone(t.parts[i]); t.parts[i] == nil {
				t.parts[i] = map[uint32][]secret{}
			}
		}
		before := t.parts[i][key]
		list = joined(before, list)
		t.parts[i][key] = list
		t.n += len(list) - len(before)
	}
}

// joined are the secrets of two lists. One that begins with another comes before it,
// since it must go as a whole.
func joined(a, b []secret) []secret {
	list := slices.Concat(a, b)
	slices.SortFunc(list, func(x, y secret) int {
		return cmp.Or(len(y.value)-len(x.value), bytes.Compare(x.value, y.value))
	})
	out := list[:0]
	for _, s := range list {
		if n := len(out); n > 0 && bytes.Equal(out[n-1].value, s.value) {
			s.found = s.and(out[n-1].found)
			s.marker = marker(s.name)
			out[n-1] = s
			continue
		}
		out = append(out, s)
	}
	return slices.Clip(out)
}
