// Package vector compares the vector of a query with those of all documents.
package vector

import (
	"math"
	"runtime"
	"sync"
)

// None is what [Set.Cosines] says of a document without a vector. It is less
// than every cosine.
const None = -2

// A Row is the vector of one document. It never changes.
type Row struct {
	full  []float32
	short []int8  // full in steps; nil: only full counts
	step  float32 // what 1 in short stands for
}

// NewRow returns the row of a vector of length 1 (L2 norm), which must not
// change afterwards. Where the processor gains from it, the row holds the
// vector a second time in a quarter of its bytes: a scan of many rows waits
// for memory, not for arithmetic.
func NewRow(v []float32) *Row {
	r := &Row{full: v}
	if !fast {
		return r
	}
	r.step = stepOf(v)
	if r.step == 0 {
		return r
	}
	r.short = make([]int8, len(v))
	for i, x := range v {
		r.short[i] = int8(math.Round(float64(x / r.step)))
	}
	return r
}

// stepOf returns the step in which every number of v is between -127 and 127;
// 0 where there is none.
func stepOf(v []float32) float32 {
	var most float64
	for _, x := range v {
		most = max(most, math.Abs(float64(x))) // max keeps a NaN
	}
	if most != most || most > math.MaxFloat32 || most < 1e-6 {
		return 0
	}
	return float32(most / 127)
}

// Vector returns the vector that the row was made of.
func (r *Row) Vector() []float32 {
	if r == nil {
		return nil
	}
	return r.full
}

// A Set holds one vector or none for each document, all of one dimension and
// of length 1 (L2 norm). It never changes, and is safe for concurrent use.
type Set struct {
	dim  int
	have int
	rows []*Row
}

// NewSet returns the set of the given rows, row i being that of document
// i; nil is a document without one. The dimension is that of the first
// vector, and one of another dimension counts as none. Nothing is copied, so
// that a set is cheap to assemble anew.
func NewSet(rows []*Row) *Set {
	s := &Set{rows: rows}
	for _, r := range rows {
		n := len(r.Vector())
		if n == 0 {
			continue
		}
		if s.dim == 0 {
			s.dim = n
		}
		if n == s.dim {
			s.have++
		}
	}
	return s
}

// Len returns how many documents there are. A nil set has none.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.rows)
}

// Dim returns the dimension of the vectors; 0 where there are none.
func (s *Set) Dim() int {
	if s == nil {
		return 0
	}
	return s.dim
}

// Have returns how many documents have a vector.
func (s *Set) Have() int {
	if s == nil {
		return 0
	}
	return s.have
}

const (
	// parallel is how many products make a second goroutine worth its start.
	parallel = 1 << 20
	// nearest is how many documents at least get their cosine from the full
	// vectors, where there are more than coarse of them.
	nearest = 256
	coarse  = 1024
)

// Cosines sets out[i][d] to the cosine between query i and document d, or to
// [None] where the document has no vector or the query is of another
// dimension. Each out[i] has at least Len numbers. In a large set those of the
// 256 nearest documents are as exact as float32 is, and the others are off by
// some thousandths at most. It works on as many goroutines as there are
// processors, two at most, and returns when all is done.
func (s *Set) Cosines(out [][]float32, queries [][]float32) {
	n := s.Len()
	if n == 0 || len(queries) == 0 {
		return
	}
	asked := make([]asked, len(queries))
	for i, q := range queries {
		asked[i].full = q
		if fast && n > coarse && len(q) == s.dim {
			asked[i].shorten()
		}
	}
	half := n
	if n*s.dim*len(queries) > parallel && runtime.GOMAXPROCS(0) > 1 {
		half = n / 2
	}
	if half == n {
		s.cosines(out, asked, 0, n)
	} else {
		var second sync.WaitGroup
		second.Go(func() { s.cosines(out, asked, half, n) })
		s.cosines(out, asked, 0, half)
		second.Wait()
	}
	for i := range asked {
		if asked[i].short != nil {
			s.refine(out[i][:n], &asked[i])
		}
	}
}

// asked is a query, and the same in steps where documents are compared so
// first; its short numbers are of 16 bits, as the product takes them.
type asked struct {
	full  []float32
	short []int16
	step  float32
}

func (a *asked) shorten() {
	if a.step = stepOf(a.full); a.step == 0 {
		return
	}
	a.short = make([]int16, len(a.full))
	for i, x := range a.full {
		a.short[i] = int16(math.Round(float64(x / a.step)))
	}
}

// cosines does the documents from up to to. A row meets all queries while
// it is in the cache.
func (s *Set) cosines(out [][]float32, queries []asked, from, to int) {
	for d := from; d < to; d++ {
		row := s.rows[d]
		for i := range queries {
			q := &queries[i]
			switch {
			case len(row.Vector()) != s.dim || len(q.full) != s.dim || s.dim == 0:
				out[i][d] = None
			case q.short != nil && row.short != nil:
				out[i][d] = cosine(float32(dotShort(row.short, q.short)) * row.step * q.step)
			default:
				out[i][d] = cosine(dot(row.full, q.full))
			}
		}
	}
}

// cosine returns a product of two vectors as a cosine, or None where they were
// not of length 1, or held what is not a number.
func cosine(product float32) float32 {
	if product != product || math.Abs(float64(product)) > 1.5 {
		return None
	}
	return min(1, product)
}

// refine compares the nearest documents again, by their full vectors. It finds
// them by counting how many are how near, since no order is needed.
func (s *Set) refine(out []float32, q *asked) {
	const bins = 1024
	bin := func(c float32) int { return max(0, int((c+1)*(bins/2-1))) }
	var count [bins]int32
	for _, c := range out {
		if c != None {
			count[bin(c)]++
		}
	}
	least := bins
	for found := int32(0); found < nearest && least > 0; {
		least--
		found += count[least]
	}
	for d, c := range out {
		if c != None && bin(c) >= least {
			out[d] = cosine(dot(s.rows[d].full, q.full))
		}
	}
}

// dotGeneric returns the dot product of two vectors of one length.
func dotGeneric(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}
