package rank

import (
	"hash/maphash"
	"sync"
	"unicode/utf8"
)

// The fields of a tool.
const (
	fieldName = iota
	fieldTitle
	fieldDescription
	fieldParamName
	fieldParamText
	fieldServer
	fieldTags // and the server's own text
	fields
)

// Terms is a tool after analysis, all that [Build] needs of it. It never
// changes, and is safe for concurrent use.
type Terms struct {
	// hashes are those of the distinct terms in order of appearance; text
	// has their texts one after the other, and ends where each ends in it.
	hashes []uint64
	ends   []uint16
	text   string
	// counts has, for each term, one number for each field that it is in:
	// the field, how often, and whether it is the term's last.
	counts []uint16
	length [fields]uint16 // in terms

	pairs []uint64 // joined forms of neighbours in name and title

	server string
	name   string    // of the tool, as it is
	names  [2]uint64 // keys of the tool's name, and of server and tool
	groups []uint64  // keys of the server's name and the tags
	plain  bool      // the name could be a word of a sentence
}

const (
	countBits = 12
	countMax  = 1<<countBits - 1
	countLast = 1 << 15
)

// analysis is the scratch space of Analyze.
type analysis struct {
	lexer  lexer
	terms  []*term
	counts [][fields]uint16
	slots  [4096]uint16 // 1 + index in terms, by hash
	used   []uint16     // slots to empty
	key    []byte
	joined []byte
}

var analyses = sync.Pool{New: func() any { return new(analysis) }}

// Analyze reads a tool once, for any number of indexes. Its time and the size
// of what it returns are bounded whatever the tool says. It is safe for
// concurrent use.
func Analyze(d Doc) *Terms {
	a := analyses.Get().(*analysis)
	defer analyses.Put(a)
	for _, s := range a.used {
		a.slots[s] = 0
	}
	a.terms, a.counts, a.used = a.terms[:0], a.counts[:0], a.used[:0]

	t := &Terms{server: d.Server}
	a.field(t, fieldName, cut(d.Tool, maxName), maxNameTokens)
	a.pairs(t)
	a.field(t, fieldTitle, cut(d.Title, maxName), maxNameTokens)
	a.pairs(t)
	a.field(t, fieldDescription, cut(d.Description, maxText), maxTextTokens)
	left := maxParamTokens
	for i, p := range d.Params {
		if i == maxParams || left <= 0 {
			break
		}
		left -= a.field(t, fieldParamName, cut(p.Name, maxName), maxNameTokens)
		left -= a.field(t, fieldParamText, cut(p.Description, maxParamText), left)
	}
	a.field(t, fieldServer, cut(d.Server, maxName), maxNameTokens)
	for i, tag := range d.Tags {
		if i == maxTags {
			break
		}
		a.field(t, fieldTags, cut(tag, maxName), maxNameTokens)
	}
	a.field(t, fieldTags, cut(d.ServerText, maxServerText), maxTextTokens)

	a.keys(t, d)
	a.pack(t)
	return t
}

// field adds the terms of one text to those of the tool, and returns how many
// it has read.
func (a *analysis) field(t *Terms, field int, text string, limit int) int {
	l := &a.lexer
	l.tokens, l.max = l.tokens[:0], limit
	l.read(text)
	for _, tok := range l.tokens {
		if tok.stop {
			continue
		}
		i := a.find(tok.term)
		if i < 0 {
			continue
		}
		if c := &a.counts[i][field]; *c < countMax {
			*c++
		}
		if !tok.joined {
			t.length[field]++
		}
	}
	return len(l.tokens)
}

// find returns the index of a term, which may be new; -1 if there are too many.
func (a *analysis) find(tm *term) int {
	at := uint16(tm.hash>>20) % uint16(len(a.slots))
	for a.slots[at] != 0 {
		if i := a.slots[at] - 1; a.terms[i].hash == tm.hash {
			return int(i)
		}
		at = (at + 1) % uint16(len(a.slots))
	}
	if len(a.terms) == maxDocTerms {
		return -1
	}
	a.terms = append(a.terms, tm)
	a.counts = append(a.counts, [fields]uint16{})
	a.slots[at] = uint16(len(a.terms))
	a.used = append(a.used, at)
	return len(a.terms) - 1
}

// pairs notes the joined forms of the neighbours among the tokens just read.
func (a *analysis) pairs(t *Terms) {
	tokens := a.lexer.tokens
	for i := 1; i < len(tokens); i++ {
		x, y := tokens[i-1], tokens[i]
		if x.joined || y.joined || len(x.word)+len(y.word) > maxWord {
			continue
		}
		a.joined = append(append(a.joined[:0], x.word...), y.word...)
		t.pairs = append(t.pairs, lookUp(a.joined).hash)
	}
}

// pack copies the terms out of the scratch space.
func (a *analysis) pack(t *Terms) {
	size, n := 0, 0
	for i, tm := range a.terms {
		size += len(tm.text)
		for _, c := range a.counts[i] {
			if c > 0 {
				n++
			}
		}
	}
	text := make([]byte, 0, size)
	t.hashes = make([]uint64, 0, len(a.terms))
	t.ends = make([]uint16, 0, len(a.terms))
	t.counts = make([]uint16, 0, n)
	for i, tm := range a.terms {
		if len(text)+len(tm.text) > 1<<16-1 {
			break
		}
		text = append(text, tm.text...)
		t.hashes = append(t.hashes, tm.hash)
		t.ends = append(t.ends, uint16(len(text)))
		for f, c := range a.counts[i] {
			if c > 0 {
				t.counts = append(t.counts, uint16(f)<<countBits|c)
			}
		}
		t.counts[len(t.counts)-1] |= countLast
	}
	t.text = string(text)
}

// word returns the text of term i.
func (t *Terms) word(i int) string {
	if i == 0 {
		return t.text[:t.ends[0]]
	}
	return t.text[t.ends[i-1]:t.ends[i]]
}

// keys sets the keys of all that the tool may be called.
func (a *analysis) keys(t *Terms, d Doc) {
	name, server := cut(d.Tool, maxName), cut(d.Server, maxName)
	a.key = appendKey(a.key[:0], name)
	t.name, t.names[0] = name, keyHash(a.key)
	t.plain = plainWord(name)
	a.key = appendKey(appendKey(a.key[:0], server), name)
	t.names[1] = keyHash(a.key)
	a.key = appendKey(a.key[:0], server)
	if len(a.key) > 0 {
		t.groups = append(t.groups, keyHash(a.key))
	}
	for i, tag := range d.Tags {
		if i == maxTags {
			break
		}
		if a.key = appendKey(a.key[:0], cut(tag, maxName)); len(a.key) > 0 {
			t.groups = append(t.groups, keyHash(a.key))
		}
	}
}

// keyHash returns the hash of a key; 0 for an empty one.
func keyHash(key []byte) uint64 {
	if len(key) == 0 {
		return 0
	}
	return maphash.Bytes(seed, key) | 1
}

// appendKey appends the letters and digits of a name in lower case: names
// with equal keys differ in case and separators alone.
func appendKey(key []byte, name string) []byte {
	for i := 0; i < len(name); {
		if c := name[i]; c < utf8.RuneSelf {
			if class[c] == upper {
				c |= 0x20
			}
			if class[c] != 0 {
				key = append(key, c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(name[i:])
		if r != utf8.RuneError && (classOf(r) != 0 || paired(r)) {
			key = utf8.AppendRune(key, lowerRune(r))
		}
		i += n
	}
	return key
}

// plainWord tells whether a name could as well be a word of a sentence: it
// has no separator, no digit and no hump.
func plainWord(name string) bool {
	var last uint8
	for _, r := range name {
		c := classOf(r)
		if c == 0 && !paired(r) || c == digit || c == upper && last == lower {
			return false
		}
		last = c
	}
	return true
}
