package rank

import (
	"math"
	"sync"
)

// Parameters of the keyword score.
const (
	// saturation is BM25's k1: how soon more of the same word adds no more.
	saturation = 1.5
	// lengthNorm is BM25's b, for all fields but the server's, whose length
	// says nothing about the tool.
	lengthNorm = 0.4
)

// fieldWeight says how much an occurrence in a field counts.
var fieldWeight = [fields]float64{
	fieldName: 3, fieldTitle: 2, fieldDescription: 1, fieldParamName: 0.5, fieldParamText: 0.5,
	fieldServer: 1, fieldTags: 1,
}

// A posting says that a document has a term.
type posting struct {
	doc    uint32 // the highest bit: the term is in the tool's name
	impact float32
}

const inName = 1 << 31

// An Index finds tools among a fixed list of them. It never changes, and is
// safe for concurrent searches.
type Index struct {
	docs  []*Terms
	terms *table
	words []string  // text of each term
	idf   []float64 // of each term
	most  float64   // idf of a term that no document has
	// Postings of term i are postings[starts[i]:starts[i+1]], by document.
	starts   []uint32
	postings []posting
	// inverse of the sum of the idf of each name's terms; 0 for none
	name []float32

	named *chains // documents by keys of their names
	group *chains // documents by keys of server and tags

	near     sync.Once // the index for typos is made when it is first needed
	trigrams map[uint32][]uint32
	tallies  sync.Pool

	boards sync.Pool
}

// Build makes an index of tools; document i is docs[i]. nil is a document
// that is never found. The result depends on nothing but the arguments.
func Build(docs []*Terms) *Index {
	ix := &Index{docs: docs}
	total, pairs := 0, 0
	var length [fields]float64
	for _, d := range docs {
		if d == nil {
			continue
		}
		total += len(d.hashes)
		pairs += len(d.pairs)
		for f, n := range d.length {
			length[f] += float64(n)
		}
	}
	ix.terms = newTable(total / 8)
	ids := make([]uint32, 0, total)
	// own counts the documents that have a term in a text of their own. What a
	// server says of itself, and a tag, stands on all tools of the server: a word
	// is no less telling for being there too.
	var df, own []uint32
	for _, d := range docs {
		if d == nil {
			continue
		}
		counts := d.counts
		for i, h := range d.hashes {
			id, fresh := ix.terms.add(h)
			if fresh {
				ix.words = append(ix.words, d.word(i))
				df, own = append(df, 0), append(own, 0)
			}
			df[id]++
			for mine, last := false, false; !last; counts = counts[1:] {
				last = counts[0]&countLast != 0
				if counts[0]&^countLast>>countBits != fieldTags && !mine {
					mine = true
					own[id]++
				}
			}
			ids = append(ids, uint32(id))
		}
	}

	// A name such as key_vault also has the term keyvault where another tool
	// writes it in one word.
	type extra struct{ doc, id uint32 }
	var extras []extra
	for at, d := range docs {
		if d == nil {
			continue
		}
		for i, h := range d.pairs {
			id := ix.terms.get(h)
			if id < 0 || contains(d.hashes, h) || contains(d.pairs[:i], h) {
				continue
			}
			extras = append(extras, extra{uint32(at), uint32(id)})
			df[id]++
			own[id]++
		}
	}

	n := float64(len(docs))
	ix.idf = make([]float64, len(df))
	ix.starts = make([]uint32, len(df)+1)
	for i, f := range df {
		telling := own[i]
		if telling == 0 {
			telling = f
		}
		ix.idf[i] = idf(n, float64(telling))
		ix.starts[i+1] = ix.starts[i] + f
	}
	ix.most = idf(n, 0)
	next := append([]uint32(nil), ix.starts...)
	ix.postings = make([]posting, len(ids)+len(extras))
	ix.name = make([]float32, len(docs))

	var average [fields]float64
	for f := range average {
		average[f] = max(1, length[f]) / max(1, n)
	}
	var scale [fields]float64
	for at, d := range docs {
		if d == nil {
			continue
		}
		for f := range scale {
			b := lengthNorm
			if f == fieldServer {
				b = 0
			}
			scale[f] = fieldWeight[f] / (1 - b + b*float64(d.length[f])/average[f])
		}
		sum, counts := 0.0, d.counts
		for _, id := range ids[:len(d.hashes)] {
			tf, p := 0.0, posting{doc: uint32(at)}
			for {
				c := counts[0]
				counts = counts[1:]
				f := c &^ countLast >> countBits
				if f == fieldName {
					p.doc |= inName
					sum += ix.idf[id]
				}
				tf += scale[f] * float64(c&countMax)
				if c&countLast != 0 {
					break
				}
			}
			p.impact = impact(ix.idf[id], tf)
			ix.postings[next[id]] = p
			next[id]++
		}
		ids = ids[len(d.hashes):]
		for len(extras) > 0 && extras[0].doc == uint32(at) {
			id := extras[0].id
			ix.postings[next[id]] = posting{uint32(at), impact(ix.idf[id], scale[fieldName])}
			next[id]++
			extras = extras[1:]
		}
		if sum > 0 {
			ix.name[at] = float32(1 / sum)
		}
	}
	ix.named, ix.group = newChains(2*len(docs)), newChains(len(docs))
	for at, d := range docs {
		if d == nil {
			continue
		}
		for _, k := range d.names {
			ix.named.add(k, uint32(at))
		}
		for _, k := range d.groups {
			ix.group.add(k, uint32(at))
		}
	}
	ix.boards.New = func() any { return newBoard(len(docs)) }
	return ix
}

// idf is the inverse document frequency of BM25 as Lucene has it, which is
// never negative (Robertson & Zaragoza 2009, equation 3.4, plus 1 in the logarithm).
func idf(docs, having float64) float64 {
	return math.Log1p((docs - having + 0.5) / (having + 0.5))
}

// impact is what a term adds to a document's score: BM25F with one weight and
// one length normalisation per field before the saturation (Robertson & Zaragoza
// 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", 3.6).
// Divided by k1 + 1 it is at most the idf.
func impact(idf, tf float64) float32 {
	return float32(idf * tf / (saturation + tf))
}

// list returns the postings of a term.
func (ix *Index) list(id int) []posting {
	return ix.postings[ix.starts[id]:ix.starts[id+1]]
}

// Len returns how many documents there are.
func (ix *Index) Len() int { return len(ix.docs) }

func contains(list []uint64, x uint64) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// chains lists documents under keys, in order.
type chains struct {
	keys        *table
	first, last []int32 // of each key, index in doc and next
	doc         []uint32
	next        []int32
}

func newChains(expected int) *chains { return &chains{keys: newTable(expected)} }

// add appends doc to the list of key; 0 is no key.
func (c *chains) add(key uint64, doc uint32) {
	if key == 0 {
		return
	}
	id, fresh := c.keys.add(key)
	at := int32(len(c.doc))
	c.doc, c.next = append(c.doc, doc), append(c.next, -1)
	if fresh {
		c.first, c.last = append(c.first, at), append(c.last, at)
		return
	}
	c.next[c.last[id]] = at
	c.last[id] = at
}

// each calls hit with every document under key.
func (c *chains) each(key uint64, hit func(doc uint32)) {
	if key == 0 {
		return
	}
	id := c.keys.get(key)
	if id < 0 {
		return
	}
	for at := c.first[id]; at >= 0; at = c.next[at] {
		hit(c.doc[at])
	}
}
