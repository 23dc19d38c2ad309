package builtin

import (
	"errors"
	"sort"
	"strings"
)

// wordDim is the size of word vectors.
const wordDim = 128

// A wordTable has a vector for each of some 48,000 words, mostly of
// computing. It knows what the encoder, whose vocabulary is small and
// general, sees only as a row of syllables. It is safe for concurrent use.
type wordTable struct {
	// text has all words in byte order, each with a line feed after it; word
	// i begins at from[i].
	text    string
	from    []uint32
	vectors []int8
	scale   []float32
}

func newWordTable(f *modelFile) (*wordTable, error) {
	text, err := f.raw("word.text")
	if err != nil {
		return nil, err
	}
	t := &wordTable{text: text, from: make([]uint32, 0, strings.Count(text, "\n"))}
	for at, previous := 0, ""; at < len(text); {
		end := strings.IndexByte(text[at:], '\n')
		if end < 0 || text[at:at+end] <= previous {
			return nil, errors.New("its words are not in order")
		}
		previous = text[at : at+end]
		t.from = append(t.from, uint32(at))
		at += end + 1
	}
	if t.vectors, err = f.int8s("word", len(t.from)*wordDim); err != nil {
		return nil, err
	}
	t.scale, err = f.float32s("word.scale", len(t.from))
	return t, err
}

// find returns the number of a word in lower case.
func (t *wordTable) find(word string) (int, bool) {
	i := sort.Search(len(t.from), func(i int) bool { return t.at(i) >= word })
	return i, i < len(t.from) && t.at(i) == word
}

func (t *wordTable) at(i int) string {
	end := len(t.text)
	if i+1 < len(t.from) {
		end = int(t.from[i+1])
	}
	return t.text[t.from[i] : end-1]
}

// encode sets out, which has wordDim numbers, to the sum of the vectors of
// the text's words, brought to length 1; or to zeros if it knows none of them.
// How much a word counts is in the length of its vector.
func (t *wordTable) encode(text string, out []float32) {
	clear(out)
	for _, word := range words(text) {
		i, ok := t.find(word)
		if !ok {
			continue
		}
		scale := t.scale[i]
		for j, v := range t.vectors[i*wordDim:][:wordDim] {
			out[j] += float32(v) * scale
		}
	}
	normalize(out)
}

// words returns the words of a text in lower case: runs of ASCII letters or
// of digits, cut also where camel case changes, so "HTTPServer2" is http,
// server and 2.
func words(text string) []string {
	var out []string
	start := -1
	for i := range len(text) {
		c := class(text[i])
		if start >= 0 && boundary(text, i) {
			out = append(out, strings.ToLower(text[start:i]))
			start = -1
		}
		if start < 0 && c != other {
			start = i
		}
	}
	if start >= 0 {
		out = append(out, strings.ToLower(text[start:]))
	}
	return out
}

// boundary reports whether the word that byte i-1 belongs to ends before
// byte i.
func boundary(text string, i int) bool {
	before, here := class(text[i-1]), class(text[i])
	switch {
	case here == other, (before == digit) != (here == digit):
		return true
	case here != upper:
		return false
	case before == lower:
		return true
	default:
		return i+1 < len(text) && class(text[i+1]) == lower
	}
}

type byteClass uint8

const (
	other byteClass = iota
	lower
	upper
	digit
)

func class(c byte) byteClass {
	switch {
	case 'a' <= c && c <= 'z':
		return lower
	case 'A' <= c && c <= 'Z':
		return upper
	case '0' <= c && c <= '9':
		return digit
	}
	return other
}
