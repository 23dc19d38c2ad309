package pins

import "sync"

// maxWords is how many words there can be in all rules.
const maxWords = 512

// wordBits is a set of words by their numbers.
type wordBits [maxWords / 64]uint64

func (b *wordBits) add(n int) { b[n/64] |= 1 << (n % 64) }

func (b *wordBits) meets(o *wordBits) bool {
	for i := range b {
		if b[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// words finds which of many words are in a text in one pass: where the first
// three bytes of some begin, these are compared.
type words struct {
	list  []string
	masks [][]wordBits // of each rule's groups
	table [1 << tableBits][]uint16
}

const (
	wordStart = 3 // bytes; no word is shorter
	tableBits = 12
)

func slot(a, b, c byte) uint32 {
	const spread = 2654435761 // Knuth's
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * spread >> (32 - tableBits)
}

// signWords are the words of all rules, made with the first text.
var signWords = sync.OnceValue(func() *words { return newWords(signRules) })

func newWords(rules []signRule) *words {
	w := &words{masks: make([][]wordBits, len(rules))}
	numbers := map[string]int{}
	for i := range rules {
		for _, group := range rules[i].words {
			var mask wordBits
			for _, word := range group {
				n, known := numbers[word]
				if !known {
					n = len(w.list)
					numbers[word] = n
					w.list = append(w.list, word)
					at := slot(word[0], word[1], word[2])
					w.table[at] = append(w.table[at], uint16(n))
				}
				mask.add(n)
			}
			w.masks[i] = append(w.masks[i], mask)
		}
	}
	return w
}

// mayMatch says of a rule whether there is a word of each group.
func (w *words) mayMatch(rule int, found *wordBits) bool {
	for i := range w.masks[rule] {
		if !w.masks[rule][i].meets(found) {
			return false
		}
	}
	return true
}

// in returns the words that a text has.
func (w *words) in(text string) (found wordBits) {
	for i := 0; i+wordStart <= len(text); i++ {
		for _, n := range w.table[slot(text[i], text[i+1], text[i+2])] {
			word := w.list[n]
			if len(text)-i >= len(word) && text[i:i+len(word)] == word {
				found.add(int(n))
			}
		}
	}
	return found
}
