package rank

// A board is the scratch space of one search.
type board struct {
	cells   []cell    // of the need that is being scored
	masks   []uint64  // which of the query's first 64 terms a document has
	fused   []float32 // score of the whole query
	best    []float32 // best score of any of its parts
	strong  []float32 // evidence of keywords, the most of any need
	alike   []float32 // evidence of vectors, the most of any need
	flags   []uint8
	cosines [][]float32
	alikes  int // documents that had a vector, the most of any need
	need    need
	order   []ranked
}

// A cell is what the keywords of one need say of one document.
type cell struct {
	score float32 // sum of BM25F impacts
	name  float32 // sum of the idf of terms that the name has
	cover float32 // sum of weight*idf of terms that the document has
}

// Flags of a document.
const (
	flagAllowed = 1 << iota
	flagExact
	flagGroup
	flagLiteral // the name as it is, not only up to case and separators
	flagAlike   // a vector told something of it
)

type ranked struct {
	doc   int
	score float64 // fused, then as reported
	value float64 // that the order goes by
	class int     // exact names come first, then groups, then all others
	on    bool    // connected
	// literal says that the query has the tool's name as it is.
	literal bool
}

func newBoard(n int) *board {
	return &board{
		cells: make([]cell, n), masks: make([]uint64, n), fused: make([]float32, n), best: make([]float32, n),
		strong: make([]float32, n), alike: make([]float32, n), flags: make([]uint8, n),
	}
}

// wipe makes the board fit for the next search.
func (b *board) wipe() {
	clear(b.masks)
	clear(b.fused)
	clear(b.best)
	clear(b.strong)
	clear(b.alike)
	clear(b.flags)
	b.order = b.order[:0]
	b.alikes = 0
	b.need.typos = b.need.typos[:0]
}

// rows returns n rows for cosines.
func (b *board) rows(n int) [][]float32 {
	for len(b.cosines) < n {
		b.cosines = append(b.cosines, make([]float32, len(b.fused)))
	}
	return b.cosines[:n]
}
