package rank

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/index/vector"
)

const (
	defaultLimit = 20
	// coverBonus is what a document with all of a query's words has more than
	// one that is as good by a single word.
	coverBonus = 0.5
	// nameBonus is what a document has more whose name is all in the query.
	nameBonus = 0.5
	// vectorWeight is the share of the vectors in the score.
	vectorWeight = 0.5
	// leastTop is the share of the greatest keyword score that the query could
	// have had which counts as a good one, where no document has more.
	leastTop = 0.05
	// partWeight is the share of the best single part of a query in the
	// score, the rest being that of the query as a whole.
	partWeight = 0.4
	// repeatCost is what a hit of a query with several needs loses in the
	// order if those before it have all its words of the query.
	repeatCost = 0.1
	// connectedBonus lets a connected tool pass a slightly better one that
	// would have to be started first. It counts for the order only.
	connectedBonus = 0.08
	// groupScore is the least score of the tools of a server, or with a tag,
	// that is all that the query says.
	groupScore = 0.9
	// minAlike is how many standard deviations above the mean the cosine of a
	// document without any of a query's words has to be to make it a hit.
	minAlike = 1
	// minVectors is how many of the documents that may be found must have a
	// vector before the spread of cosines says anything of how sure a hit is.
	minVectors = 30
	// enoughVectors is from how many on they need no background.
	enoughVectors = 200
	// steps is how finely scores are told apart when candidates are chosen.
	steps = 1024
	// minScore is the least score of a hit: what is less sure is noise, as in
	// a query that is no word of any language.
	minScore = 0.005
	// maxDiverse is how many hits are chosen with a view to those before.
	maxDiverse = 20
)

// A Query is what to search for.
type Query struct {
	// Text is free text, of which the first 4 KiB count.
	Text string
	// Vectors are those of Texts(Text); nil where there are none, or fewer.
	Vectors [][]float32
	// Docs are the documents' vectors; nil: keywords decide alone. So they do
	// for a document without a vector.
	Docs *vector.Set
	// Background are vectors of things of many kinds that nobody looks for
	// here: they tell how alike is nothing special where Docs are too few to
	// do it. nil: none.
	Background *vector.Set
	// Limit is how many hits are wanted; 0 or less means 20.
	Limit int
	// Allowed says which documents may be found; nil: all. It is called once
	// for each document.
	Allowed func(doc int) bool
	// Connected says which documents' servers have a connection now; nil:
	// none. It is called only for documents that may be hits.
	Connected func(doc int) bool
}

// A Hit is a document that fits a query.
type Hit struct {
	Doc int
	// Score in [0,1] says how sure it is that the document is meant, the same
	// whether it is connected or not; see [confidence] for what it means.
	Score float64
	// Exact says that the query names the tool.
	Exact     bool
	Connected bool
}

// Search returns the documents that fit a query, best first: those whose
// name the query says, those of the server or with the tag that is all it
// says, then by score. Connected ones come a little earlier than their score
// says, and in a query with several needs those that repeat what earlier hits
// cover a little later; so scores may rise by a little down the list. It returns
// nothing for a query of which no word and no vector says anything, and is a
// function of its arguments alone.
//
// The score of a document for one text is
//
//	(1-v)*keywords/max + v*(cosine-low)/(max-low)
//
// where keywords is BM25F (see [impact]) raised by up to a half for the share of the
// query's words that the document has, and again for the share of its name's
// words that the query has; v is [vectorWeight], and low is two
// standard deviations below the mean cosine. It is fusion by weighted scores,
// each normalised for the query (Bruch, Gai & Ingber 2023, "An Analysis of
// Fusion Functions for Hybrid Retrieval", find it better than by ranks).
// Of a query with several sentences the score is
//
//	(1-p)*whole + p*(the best of the sentences), p = [partWeight].
func (ix *Index) Search(q Query) []Hit {
	texts := Texts(q.Text)
	if len(texts) == 0 || len(ix.docs) == 0 {
		return nil
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	b := ix.boards.Get().(*board)
	defer ix.boards.Put(b)
	b.wipe()
	for d := range ix.docs {
		if ix.docs[d] != nil && (q.Allowed == nil || q.Allowed(d)) {
			b.flags[d] = flagAllowed
		}
	}
	ix.mark(texts[0], b)

	cosines := b.semantics(q, texts, len(ix.docs))
	background := b.background(q, len(cosines))
	words := 0
	for i, text := range texts {
		b.need.analyze(ix, text)
		var row []float32
		if i < len(cosines) {
			row = cosines[i]
		}
		out := b.best
		if i == 0 {
			out, words = b.fused, b.need.words
		}
		var others []float32
		if i < len(background) {
			others = background[i]
		}
		ix.score(b, i == 0, row, others, out)
	}
	if len(texts) > 1 {
		for d, s := range b.fused {
			b.fused[d] = (1-partWeight)*s + partWeight*b.best[d]
		}
	}

	ix.collect(b, q, limit)
	if len(texts) > 1 || words >= longQuery {
		ix.spread(b, limit)
	}
	hits := make([]Hit, 0, min(limit, len(b.order)))
	for _, r := range b.order[:min(limit, len(b.order))] {
		hits = append(hits, Hit{Doc: r.doc, Score: r.score, Exact: b.flags[r.doc]&flagExact != 0, Connected: r.on})
	}
	return hits
}

// mark flags the documents that the query calls by name.
func (ix *Index) mark(text string, b *board) {
	flag := func(f uint8, said string) func(uint32) {
		return func(doc uint32) {
			if b.flags[doc]&flagAllowed == 0 {
				return
			}
			b.flags[doc] |= f
			if f == flagExact && ix.docs[doc].name == said {
				b.flags[doc] |= flagLiteral
			}
		}
	}
	whole := keyHash(appendKey(nil, text))
	ix.named.each(whole, flag(flagExact, strings.TrimSpace(text)))
	ix.group.each(whole, flag(flagGroup, ""))
	var key []byte
	for i, word := range strings.Fields(text) {
		if i == maxQueryTokens {
			break
		}
		if len(word) > 2*maxName+2 {
			continue
		}
		// A plain word, such as search, is a word of the sentence.
		if word = strings.TrimFunc(word, isQuote); plainWord(word) {
			continue
		}
		key = appendKey(key[:0], word)
		ix.named.each(keyHash(key), func(doc uint32) {
			if d := ix.docs[doc]; !d.plain || d.names[1] == keyHash(key) {
				flag(flagExact, word)(doc)
			}
		})
	}
}

func isQuote(r rune) bool { return classOf(r) == 0 && !paired(r) && r != '_' }

// semantics returns the cosines of those texts that have a vector.
func (b *board) semantics(q Query, texts []string, docs int) [][]float32 {
	n := min(len(q.Vectors), len(texts))
	if n == 0 || q.Docs.Have() == 0 || q.Docs.Len() != docs {
		return nil
	}
	rows := b.rows(n)
	q.Docs.Cosines(rows, q.Vectors[:n])
	return rows
}

// background returns the cosines of as many texts with the background.
func (b *board) background(q Query, texts int) [][]float32 {
	if texts == 0 || q.Background.Have() == 0 || q.Background.Dim() != q.Docs.Dim() {
		return nil
	}
	rows := make([][]float32, texts)
	for i := range rows {
		rows[i] = make([]float32, q.Background.Len())
	}
	q.Background.Cosines(rows, q.Vectors[:texts])
	return rows
}

// score adds up what the postings and the cosines of b.need say; out becomes
// the greater of what it is and of that.
func (ix *Index) score(b *board, whole bool, cosines, background, out []float32) {
	clear(b.cells)
	for i, t := range b.need.terms {
		w, bit := float32(t.weight), uint64(0)
		if whole && i < 64 {
			bit = 1 << i
		}
		cover := float32(t.weight * ix.idf[t.id])
		name := cover
		for _, p := range ix.list(t.id) {
			c := &b.cells[p.doc&^inName]
			c.score += w * p.impact
			c.cover += cover
			if p.doc&inName != 0 {
				c.name += name
			}
			if whole {
				b.masks[p.doc&^inName] |= bit
			}
		}
	}
	top := float32(0)
	mass, asked := float32(b.need.mass), float32(b.need.asked)
	for d := range b.cells {
		c := &b.cells[d]
		if c.score == 0 || b.flags[d]&flagAllowed == 0 {
			c.score = 0
			continue
		}
		c.score *= (1 + coverBonus*c.cover/mass) * (1 + nameBonus*min(1, c.name*ix.name[d]))
		top = max(top, c.score)
		b.strong[d] = max(b.strong[d], c.score/((1+coverBonus)*(1+nameBonus)*asked))
	}
	// Where the words say little of any document, the best is not good.
	top = max(top, leastTop*(1+coverBonus)*(1+nameBonus)*asked, math.SmallestNonzeroFloat32)
	low, span, sd, known := spreadOf(cosines, background, b.flags)
	b.alikes = max(b.alikes, known)
	for d := range b.cells {
		if b.flags[d]&flagAllowed == 0 {
			continue
		}
		s := b.cells[d].score / top
		if span > 0 && cosines[d] != vector.None {
			alike := (cosines[d] - low) / span
			s = (1-vectorWeight)*s + vectorWeight*max(0, alike)
			b.flags[d] |= flagAlike
			b.alike[d] = max(b.alike[d], (cosines[d]-low)/sd-2)
		}
		out[d] = max(out[d], s)
	}
}

// spreadOf returns the range of cosines that tells documents apart: from low
// to low+span, the greatest. span is 0 where all are alike or none is known.
// known is how many there are of documents that may be found, and of the
// background, which counts where they are few.
func spreadOf(cosines, background []float32, flags []uint8) (low, span, sd float32, known int) {
	sum, squares, top := 0.0, 0.0, float32(vector.None)
	for d, c := range cosines {
		if c != vector.None && flags[d]&flagAllowed != 0 {
			known++
			sum += float64(c)
			squares += float64(c) * float64(c)
			top = max(top, c)
		}
	}
	if known > 0 && known < enoughVectors {
		for _, c := range background {
			if c != vector.None {
				known++
				sum += float64(c)
				squares += float64(c) * float64(c)
			}
		}
	}
	if known < 2 {
		return 0, 0, 1, known
	}
	n := float64(known)
	mean := sum / n
	deviation := math.Sqrt(max(0, squares/n-mean*mean))
	if deviation < 1e-6 {
		return 0, 0, 1, known
	}
	low = float32(mean - 2*deviation)
	return low, top - low, float32(deviation), known
}

// collect puts the best candidates into b.order, sorted, with scores as they
// are reported.
func (ix *Index) collect(b *board, q Query, limit int) {
	best := -1
	var histogram [steps + 1]int32
	for d, s := range b.fused {
		if b.strong[d] == 0 && b.alike[d] < minAlike {
			b.fused[d] = 0
			continue
		}
		if s > 0 && b.flags[d]&flagAllowed != 0 {
			histogram[min(steps, int(s*steps))]++
			if best < 0 || s > b.fused[best] {
				best = d
			}
		}
	}
	scale := 0.0
	if best >= 0 {
		vectors := b.flags[best]&flagAlike != 0 && b.alikes >= minVectors
		scale = confidence(float64(b.strong[best]), float64(b.alike[best]), vectors) / float64(b.fused[best])
	}
	// Enough candidates have at least this much, and no other has a chance but
	// by its connection.
	step, have := steps, limit+3*maxDiverse
	for ; step > 0 && have > int(histogram[step]); step-- {
		have -= int(histogram[step])
	}
	least := float32(step) / steps
	leastConnected := least
	if scale > 0 {
		leastConnected -= float32(connectedBonus / scale)
	}

	for d, s := range b.fused {
		r, f := ranked{doc: d, score: float64(s) * scale, class: 2}, b.flags[d]
		switch {
		case f&flagExact != 0:
			r.class, r.score, r.literal = 0, 1, f&flagLiteral != 0
		case f&flagGroup != 0:
			r.class, r.score = 1, max(r.score, groupScore)
		case f&flagAllowed == 0, r.score < minScore,
			s < least && (q.Connected == nil || s < leastConnected):
			continue
		}
		r.value = r.score
		if q.Connected != nil && q.Connected(d) {
			r.on = true
			r.value += connectedBonus
		} else if r.class == 2 && s < least {
			continue
		}
		b.order = append(b.order, r)
	}
	ix.sort(b.order)
}

func literalFirst(a, b ranked) int {
	switch {
	case a.literal == b.literal:
		return 0
	case a.literal:
		return -1
	}
	return 1
}

// sort orders by class, names that are said as they are, value, score, server, and the order of documents.
func (ix *Index) sort(order []ranked) {
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(
			cmp.Compare(a.class, b.class),
			literalFirst(a, b),
			cmp.Compare(b.value, a.value),
			cmp.Compare(b.score, a.score),
			strings.Compare(ix.docs[a.doc].server, ix.docs[b.doc].server),
			cmp.Compare(a.doc, b.doc),
		)
	})
}
