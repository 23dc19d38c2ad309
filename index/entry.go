package index

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"

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

	passage *passage
}

// A ServerEntry is one server's tools in the catalog. It never changes.
type ServerEntry struct {
	Toolset *messages.Toolset
	// Entries are in the child's order; of several tools with one name only
	// the first is here.
	Entries []*Entry

	labels Labels
	byName []*Entry // sorted by name

	// texts are made when a ranking that reads them searches first.
	reading sync.Once
	texts   texts
}

// texts are lower-case names and descriptions of all entries, each ended by a zero
// byte: one scan finds a word in all of them.
type texts struct{ names, descriptions haystack }

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
func (s *ServerEntry) Tool(name string) *Entry {
	if s == nil {
		return nil
	}
	at, found := slices.BinarySearchFunc(s.byName, name, func(e *Entry, name string) int {
		return strings.Compare(e.Tool.Name, name)
	})
	if !found {
		return nil
	}
	return s.byName[at]
}

// ByIdentifier returns the tool that a program means by an identifier: that whose name
// is the identifier once all is _ that none can hold. nil: there is no such tool, or
// more than one.
func (s *ServerEntry) ByIdentifier(identifier string) (found *Entry) {
	if s == nil {
		return nil
	}
	for _, e := range s.Entries {
		if e.Enabled && e.Tool.Name != identifier && asIdentifier(e.Tool.Name) == identifier {
			if found != nil {
				return nil
			}
			found = e
		}
	}
	return found
}

// asIdentifier is the function of that name in integration/sandbox/worker/bridge.js,
// where a character is one of UTF-16.
func asIdentifier(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r == '$' || r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z':
			b.WriteRune(r)
		case utf16.RuneLen(r) == 2:
			b.WriteString("__")
		default:
			b.WriteByte('_')
		}
	}
	return b.String()
}

// newServerEntry builds the entry of a toolset; old and like, which may be nil, lend
// what is the same: the server's own entry, and one of a server that lists the same.
func newServerEntry(ts *messages.Toolset, labels Labels, rules *Rules, old, like *ServerEntry) *ServerEntry {
	s := &ServerEntry{Toolset: ts, labels: labels, Entries: make([]*Entry, 0, len(ts.Tools))}
	about := shorten(labels.Description, maxSearchText)
	common := &around{about, labels.Tags}
	seen := make(map[string]bool, len(ts.Tools))
	for _, t := range ts.Tools {
		if t == nil || seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		e := &Entry{Tool: t}
		e.Enabled, e.Tags = rules.Decide(ts.Server, t.Name, labels.Tags)
		if e.Review = labels.Review.Of(t.Name); e.Review != nil && e.Review.Held || labels.Disabled {
			e.Enabled = false
		}
		e.passage = &passage{tool: t, around: common}
		if !slices.Equal(e.Tags, common.tags) {
			e.passage.around = &around{about, e.Tags}
		}
		before, twin := old.Tool(t.Name), like.Tool(t.Name)
		if e.judgedAs(before) && before.passage.says(e.passage) {
			e.passage = before.passage
		} else {
			e.passage.means(before, twin)
		}
		if e.Validator == nil && !e.judgedAs(twin) {
			e.Validator = NewValidator(t.InputSchema)
		}
		s.Entries = append(s.Entries, e)
	}
	s.byName = slices.Clone(s.Entries)
	slices.SortFunc(s.byName, func(a, b *Entry) int { return strings.Compare(a.Tool.Name, b.Tool.Name) })
	return s
}

// judgedAs takes the validator of a tool with the same name, if its schema is the
// same too, and reports whether it did.
func (e *Entry) judgedAs(before *Entry) bool {
	if before == nil || !bytes.Equal(before.Tool.InputSchema, e.Tool.InputSchema) ||
		(before.Tool.InputSchema == nil) != (e.Tool.InputSchema == nil) {
		return false
	}
	e.Validator = before.Validator
	return true
}

// read returns the texts of all entries.
func (s *ServerEntry) read() *texts {
	s.reading.Do(func() {
		var names, descriptions haystackBuilder
		for _, e := range s.Entries {
			names.add(e.passage.lowerName)
			descriptions.add(strings.ToLower(shorten(e.Tool.Description, maxSearchText)))
		}
		s.texts = texts{names.done(), descriptions.done()}
	})
	return &s.texts
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
