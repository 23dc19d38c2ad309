package scrub

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The filter finds every place where the key of a word stands and beside it the word's
// bytes, as far as it looks at these, wherever that is and whatever stands around it,
// and no other.
func TestFilterFindsEveryPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) // the same texts with every run
	words := []struct {
		text string
		rare int
	}{{"aBc", 0}, {"dabba", 0}, {"b-d", 0}, {"cbdac", 1}, {"acca", 1}}
	// beside is the part of the word that the filter looks at, and where its key is there.
	beside := func(text string, rare int) (string, int) {
		from := max(0, rare-1)
		return text[from:min(len(text), rare+keyLength+2)], rare - from
	}
	for range 2000 {
		f := &filter{}
		for _, w := range words {
			f.add([]byte(w.text), w.rare, ofKnown)
		}
		b := make([]byte, rng.IntN(60))
		for i := range b {
			b[i] = byte('a' + rng.IntN(4))
		}
		for range rng.IntN(4) {
			word := words[rng.IntN(len(words))].text
			if rng.IntN(2) == 0 {
				word = strings.ToUpper(word)
			}
			if len(b) >= len(word) {
				copy(b[rng.IntN(len(b)-len(word)+1):], word)
			}
		}
		fits := func(i int) bool {
			return slices.ContainsFunc(words, func(w struct {
				text string
				rare int
			},
			) bool {
				want, rare := beside(w.text, w.rare)
				from := i - rare
				if from < 0 { // the text begins within the word: the filter does not ask
					want, from = want[-from:], 0
				}
				got := string(b[from:min(len(b), from+len(want))])
				return len(b)-i >= keyLength && strings.EqualFold(got, want[:len(got)])
			})
		}
		var want, got []int
		for i := range b {
			if fits(i) {
				want = append(want, i)
			}
		}
		for i := f.next(b, 0); i >= 0; i = f.next(b, i+1) {
			got = append(got, i)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in %q it finds %v, want %v", b, got, want)
		}
	}
}
