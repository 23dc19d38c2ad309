package rank

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/kljensen/snowball/english"
)

// A term is what words are reduced to before they are compared. It never
// changes. Equal terms have equal hashes, in this process.
type term struct {
	text string // the stem
	hash uint64 // of text
	word string // what it was the stem of
	stop bool   // says nothing about what is sought
}

// The stems of the words met last. Each word has one place, which the next
// word of the same place takes, so the cache is bounded and needs no lock.
var (
	stems [1 << 14]atomic.Pointer[term]
	seed  = maphash.MakeSeed()
)

// lookUp returns the term of a word in lower case.
func lookUp(word []byte) *term {
	place := &stems[maphash.Bytes(seed, word)%uint64(len(stems))]
	if t := place.Load(); t != nil && t.word == string(word) {
		return t
	}
	t := newTerm(string(word))
	place.Store(t)
	return t
}

func newTerm(word string) *term {
	t := &term{word: word, text: stem(word)}
	t.stop = stopWords[word]
	t.hash = maphash.String(seed, t.text)
	return t
}

// stem returns the stem of an English word, by the Snowball English stemmer
// (Porter 2001, "Porter2"); words with a digit or of another script stay as
// they are.
func stem(word string) string {
	for i := 0; i < len(word); i++ {
		if word[i] < 'a' || word[i] > 'z' {
			return word
		}
	}
	if len(word) > 32 {
		return word
	}
	return english.Stem(word, true)
}
