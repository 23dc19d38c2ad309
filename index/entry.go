package index

import (
	"bytes"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// maxSearchText bounds, in bytes, what of one description keyword search sees.
const maxSearchText = 8 << 10

// maxHaystack bounds all descriptions of one server, so that offsets fit in 32
// bits whatever the server lists; what is beyond is found by name alone.
const maxHaystack = 1 << 29

// An Entry is one tool in the catalog. It never changes.
type Entry struct {
	Tool *messages.Tool
	// Enabled says whether the tool may be found, listed and called.
	Enabled bool
	// Tags are the server's and those of tool rules.
	Tags []string
	// Review is what is to be said of the definition; nil: nothing. It may
	// have closed the tool.
	Review *messages.ToolReview
	// Validator judges arguments for the tool.
	Validator *Validator

	lowerName string
	passage   *passage
}

// A ServerEntry is one server's tools in the catalog. It never changes.
type ServerEntry struct {
	Toolset *messages.Toolset
	// Entries are in the child's order; of several tools with one name only
	// the first is here.
	Entries []*Entry

	labels Labels
	byName map[string]*Entry
	// Lower-case names and descriptions of all entries, each ended by a zero
	// byte: one scan finds a word in all of them.
	names, descriptions haystack
}

// Review is what was found when the listing was compared with what had been
// accepted of the server; nil where nobody compared.
func (s *ServerEntry) Review() *messages.Review { return s.labels.Review }

// holds reports whether any of its tools is held back.
func (s *ServerEntry) holds() bool {
	if s.labels.Review == nil {
		return false
	}
	for _, r := range s.labels.Review.Tools {
		if r.Held {
			return true
		}
	}
	return false
}

// Tool returns the entry with exactly this name, or nil.
func (s *ServerEntry) Tool(name string) *Entry { return s.byName[name] }

// newServerEntry builds the entry of a toolset; old, which may be nil, lends
// what did not change.
func newServerEntry(ts *messages.Toolset, labels Labels, rules *Rules, old *ServerEntry) *ServerEntry {
	s := &ServerEntry{
		Toolset: ts,
		labels:  labels,
		Entries: make([]*Entry, 0, len(ts.Tools)),
		byName:  make(map[string]*Entry, len(ts.Tools)),
	}
	about := shorten(labels.Description, maxSearchText)
	var names, descriptions haystackBuilder
	for _, t := range ts.Tools {
		if t == nil || s.byName[t.Name] != nil {
			continue
		}
		e := &Entry{Tool: t}
		e.Enabled, e.Tags = rules.Decide(ts.Server, t.Name, labels.Tags)
		if e.Review = labels.Review.Of(t.Name); e.Review != nil && e.Review.Held || labels.Disabled {
			e.Enabled = false
		}
		e.passage = &passage{tool: t, about: about, tags: e.Tags}
		if old != nil {
			if before := old.byName[t.Name]; before != nil && bytes.Equal(before.Tool.InputSchema, t.InputSchema) &&
				(before.Tool.InputSchema == nil) == (t.InputSchema == nil) {
				e.Validator, e.lowerName = before.Validator, before.lowerName
				if before.passage.says(e.passage) {
					e.passage = before.passage
				}
			}
		}
		if e.Validator == nil {
			e.Validator, e.lowerName = NewValidator(t.InputSchema), strings.ToLower(t.Name)
		}
		s.Entries = append(s.Entries, e)
		s.byName[t.Name] = e
		names.add(e.lowerName)
		descriptions.add(strings.ToLower(shorten(t.Description, maxSearchText)))
	}
	s.names, s.descriptions = names.done(), descriptions.done()
	return s
}

// A haystack is many texts in one string.
type haystack struct {
	text string
	ends []int32 // of each text, zero byte excluded
}

// at returns one text.
func (h haystack) at(i int) string {
	from := int32(0)
	if i > 0 {
		from = h.ends[i-1] + 1
	}
	return h.text[from:h.ends[i]]
}

// each calls hit with the index of every text that contains word, once each,
// in order.
func (h haystack) each(word string, hit func(i int)) {
	from, i := 0, 0
	for {
		n := strings.Index(h.text[from:], word)
		if n < 0 {
			return
		}
		at := from + n
		if int(h.ends[i]) <= at {
			ahead, _ := slices.BinarySearch(h.ends[i:], int32(at)+1)
			i += ahead
		}
		hit(i)
		from = int(h.ends[i])
	}
}

type haystackBuilder struct {
	b    strings.Builder
	ends []int32
}

func (b *haystackBuilder) add(s string) {
	if b.b.Len()+len(s) > maxHaystack {
		s = ""
	}
	b.b.WriteString(strings.ReplaceAll(s, "\x00", " "))
	b.ends = append(b.ends, int32(b.b.Len()))
	b.b.WriteByte(0)
}

func (b *haystackBuilder) done() haystack { return haystack{b.b.String(), b.ends} }
