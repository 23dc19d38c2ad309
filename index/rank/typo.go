package rank

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/spelling"
)

// Limits of the search for what a misspelt word was meant to be.
const (
	minTypo      = 5 // letters
	maxTypo      = 24
	maxTrigram   = 2000 // terms under one trigram that are looked at
	maxNear      = 3    // terms taken for one word
	maxCompared  = 32   // terms whose spelling is compared in full
	oneMistake   = 0.8  // weight of a term one mistake away
	twoMistakes  = 0.6
	longForTypos = 8 // letters of a word that may have two mistakes
)

// A nearTerm is a term that a misspelt word may have been meant to be.
type nearTerm struct {
	id     int
	weight float64
}

// nearby returns the terms whose spelling is nearest to that of a word, or
// of its stem: at most one mistake away (a letter wrong, missing, too many, or
// two swapped), or two in a long word. Candidates come from an index of letter
// trigrams, as in Zobel & Dart 1995, "Finding approximate matches in large
// lexicons"; the distance is Damerau's, restricted (optimal string alignment).
func (ix *Index) nearby(word, stem string) []nearTerm {
	if n := utf8.RuneCountInString(word); n < minTypo || n > maxTypo || hasDigit(word) {
		return nil
	}
	ix.near.Do(ix.indexTrigrams)
	shared := ix.tallies.Get().(*tally)
	defer ix.tallies.Put(shared)
	for g := range trigrams(stem) {
		list := ix.trigrams[g]
		for _, id := range list[:min(len(list), maxTrigram)] {
			if shared.count[id] == 0 {
				shared.ids = append(shared.ids, id)
			}
			shared.count[id]++
		}
	}
	type candidate struct {
		id     uint32
		shared uint8
	}
	var candidates []candidate
	for _, id := range shared.ids {
		if n := shared.count[id]; n >= 2 || len(stem) <= 5 {
			candidates = append(candidates, candidate{id, n})
		}
		shared.count[id] = 0
	}
	shared.ids = shared.ids[:0]
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.shared, a.shared), cmp.Compare(a.id, b.id))
	})
	candidates = candidates[:min(len(candidates), maxCompared)]
	allowed := 1
	if len(word) >= longForTypos {
		allowed = 2
	}
	var near []nearTerm
	for _, c := range candidates {
		text := ix.words[c.id]
		d := spelling.DistanceOfRunes([]rune(word), []rune(text))
		if len(stem) >= minTypo {
			d = min(d, spelling.DistanceOfRunes([]rune(stem), []rune(text)))
		}
		switch {
		case d > allowed:
		case d <= 1:
			near = append(near, nearTerm{int(c.id), oneMistake})
		default:
			near = append(near, nearTerm{int(c.id), twoMistakes})
		}
	}
	slices.SortStableFunc(near, func(a, b nearTerm) int { return cmp.Compare(b.weight, a.weight) })
	for i := range near {
		if i == maxNear || near[i].weight < near[0].weight {
			return near[:i]
		}
	}
	return near
}

// A tally counts the trigrams that terms share with a word.
type tally struct {
	count []uint8 // by term; all zero between uses
	ids   []uint32
}

// indexTrigrams lists the terms under their trigrams.
func (ix *Index) indexTrigrams() {
	ix.trigrams = map[uint32][]uint32{}
	ix.tallies.New = func() any { return &tally{count: make([]uint8, len(ix.words))} }
	for id, w := range ix.words {
		if n := len(w); n < minTypo-1 || n > maxTypo || hasDigit(w) {
			continue
		}
		for g := range trigrams(w) {
			ix.trigrams[g] = append(ix.trigrams[g], uint32(id))
		}
	}
}

// trigrams yields the trigrams of bytes of a word, with a zero byte before and
// behind it, each once.
func trigrams(word string) func(yield func(uint32) bool) {
	return func(yield func(uint32) bool) {
		var seen [maxTypo*utf8.UTFMax + 2]uint32
		n := 0
		at := func(i int) uint32 {
			if i < 0 || i >= len(word) {
				return 0
			}
			return uint32(word[i])
		}
		for i := -1; i+2 <= len(word) && n < len(seen); i++ {
			g := at(i)<<16 | at(i+1)<<8 | at(i+2)
			if slices.Contains(seen[:n], g) {
				continue
			}
			seen[n] = g
			n++
			if !yield(g) {
				return
			}
		}
	}
}
