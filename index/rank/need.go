package rank

import "sync"

const (
	maxQueryTokens = 256
	maxQueryTerms  = 96 // distinct, what is added to the words included
	maxTypos       = 4  // words of a query looked up in the index for typos

	// pairWeight is what the joined form of two neighbours counts.
	pairWeight = 0.5
	// longQuery is the number of words from which on a query is taken to
	// have several needs, whether it has several sentences or not.
	longQuery = 12
)

var lexers = sync.Pool{New: func() any { return new(lexer) }}

// A need is one text of a query after analysis.
type need struct {
	terms []needTerm
	words int     // that are no stop words
	mass  float64 // sum of weight*idf over the terms
	asked float64 // the same, of words that no document has as well

	typos []typo // of the whole query
}

// A typo is an unknown word of the query and what it may have been meant to be.
type typo struct {
	hash uint64
	near []nearTerm
}

type needTerm struct {
	id     int
	weight float64
}

// analyze reads one text of a query into n. What it knows of typos stays, and
// has to be cleared before another query.
func (n *need) analyze(ix *Index, text string) {
	*n = need{terms: n.terms[:0], typos: n.typos}
	l := lexers.Get().(*lexer)
	defer lexers.Put(l)
	l.tokens, l.max = l.tokens[:0], maxQueryTokens
	l.read(text)
	words := l.tokens[:0]
	for _, t := range l.tokens {
		if !t.stop {
			words = append(words, t)
		}
	}
	for i, t := range words {
		if !t.joined {
			n.words++
		}
		w := 1.0
		if weakWords()[t.text] {
			w = weakness
		}
		// "key vault" meets keyvault.
		together := false
		if i > 0 && !t.joined && !words[i-1].joined {
			last := words[i-1]
			pw := pairWeight
			if weakWords()[t.text] || weakWords()[last.text] {
				pw *= weakness
			}
			together = n.add(ix.terms.get(joinedHash(l, last.word, t.word)), pw)
		}
		id := ix.terms.get(t.hash)
		switch {
		case n.add(id, w), t.joined, together:
		case n.split(ix, l, t.word, w): // keyvault meets "key vault"
		case n.addKin(ix, things()[t.hash], w*standIn):
			n.asked += w * (1 - standIn) * ix.most
		default:
			found := false
			for _, c := range n.nearby(ix, t.term) {
				found = n.add(c.id, w*c.weight) || found
			}
			// A word that nobody uses, or at best a misspelt one.
			if n.asked += w * ix.most; found {
				n.asked -= w * ix.most
			}
		}
		n.addKin(ix, verbs()[t.hash], w*kinship)
		n.addKin(ix, things()[t.hash], w*kinship)
	}
	for _, t := range n.terms {
		n.mass += t.weight * ix.idf[t.id]
	}
	n.asked += n.mass
}

// addKin adds those of the terms that exist, and tells whether any does.
func (n *need) addKin(ix *Index, kin []uint64, weight float64) (found bool) {
	for _, h := range kin {
		found = n.add(ix.terms.get(h), weight) || found
	}
	return found
}

// nearby returns what an unknown word may have been meant to be.
func (n *need) nearby(ix *Index, t *term) []nearTerm {
	for _, known := range n.typos {
		if known.hash == t.hash {
			return known.near
		}
	}
	if len(n.typos) == maxTypos {
		return nil
	}
	n.typos = append(n.typos, typo{t.hash, ix.nearby(t.word, t.text)})
	return n.typos[len(n.typos)-1].near
}

// add adds a term that exists, and tells whether it does. Of several weights
// for one term the greatest counts.
func (n *need) add(id int, weight float64) bool {
	if id < 0 {
		return false
	}
	for i := range n.terms {
		if n.terms[i].id == id {
			n.terms[i].weight = max(n.terms[i].weight, weight)
			return true
		}
	}
	if len(n.terms) < maxQueryTerms {
		n.terms = append(n.terms, needTerm{id, weight})
	}
	return true
}

// split adds the two terms that an unknown word is made of. Where there are
// several ways, those with the rarer terms are likelier.
func (n *need) split(ix *Index, l *lexer, word string, weight float64) bool {
	best, a, b := 0.0, -1, -1
	for i := 2; i+2 <= len(word); i++ {
		if (i < 3 || len(word)-i < 3) && !hasDigit(word) || word[i]&0xC0 == 0x80 {
			continue
		}
		x, y := ix.terms.get(wordHash(l, word[:i])), ix.terms.get(wordHash(l, word[i:]))
		if x < 0 || y < 0 {
			continue
		}
		if rare := min(ix.idf[x], ix.idf[y]); rare > best {
			best, a, b = rare, x, y
		}
	}
	if a < 0 {
		return false
	}
	n.add(a, weight)
	n.add(b, weight)
	return true
}

func hasDigit(s string) bool {
	for i := 0; i < len(s); i++ {
		if '0' <= s[i] && s[i] <= '9' {
			return true
		}
	}
	return false
}

// wordHash returns the hash of a word's term.
func wordHash(l *lexer, word string) uint64 { return joinedHash(l, word, "") }

// joinedHash returns the hash of the term of two words in one.
func joinedHash(l *lexer, a, b string) uint64 {
	l.whole = append(append(l.whole[:0], a...), b...)
	return lookUp(l.whole).hash
}
