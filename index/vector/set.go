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

// A Row is the vector of one document, each number in 8 bits: 10,000 tools take
// 6 MB rather than 26, and a scan of many rows waits for memory, not for arithmetic.
// It never changes.
type Row struct {
	short []int8  // the vector in steps; nil where it held what is no number
	step  float32 // what 1 in short stands for; 0 for a vector of zeros
}

// NewRow returns the row of a vector of length 1 (L2 norm). Each number is off by
// at most half of 1/127 of the largest. v is not kept.
func NewRow(v []float32) *Row {
	r := &Row{}
	most := largest(v)
	if most != most || most > math.MaxFloat32 {
		return r
	}
	r.short = make([]int8, len(v))
	if most < tiny {
		return r
	}
	r.step = float32(most / 127)
	for i, x := range v {
		r.short[i] = int8(math.Round(float64(x / r.step)))
	}
	return r
}

// tiny is where steps are too small to count in.
const tiny = 1e-6

// largest returns the largest magnitude in v; NaN where there is one.
func largest(v []float32) (most float64) {
	for _, x := range v {
		most = max(most, math.Abs(float64(x)))
	}
	return most
}

// Vector returns the numbers of the row; nil where there are none.
func (r *Row) Vector() []float32 {
	if r.Dim() == 0 {
		return nil
	}
	v := make([]float32, len(r.short))
	for i, x := range r.short {
		v[i] = float32(x) * r.step
	}
	return v
}

// Dim returns how many numbers the row has; 0 for a nil row.
func (r *Row) Dim() int {
	if r == nil {
		return 0
	}
	return len(r.short)
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
		n := r.Dim()
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

// parallel is how many products make a second goroutine worth its start.
const parallel = 1 << 20

// Cosines sets out[i][d] to the cosine between query i and document d, or to
// [None] where the document has no vector or the query is of another
// dimension. Each out[i] has at least Len numbers. A cosine is off by what the
// row's 8 bits leave out: some ten-thousandths where a vector has hundreds of numbers
// of about one size, and less than 0.01 where one of them is most of it. It works on as many goroutines as there are
// processors, two at most, and returns when all is done.
func (s *Set) Cosines(out [][]float32, queries [][]float32) {
	n := s.Len()
	if n == 0 || len(queries) == 0 {
		return
	}
	asked := make([]asked, len(queries))
	for i, q := range queries {
		asked[i] = shorten(q)
	}
	half := n
	if n*s.dim*len(queries) > parallel && runtime.GOMAXPROCS(0) > 1 {
		half = n / 2
	}
	if half == n {
		s.cosines(out, asked, 0, n)
		return
	}
	var second sync.WaitGroup
	second.Go(func() { s.cosines(out, asked, half, n) })
	s.cosines(out, asked, 0, half)
	second.Wait()
}

// asked is a query in steps: numbers of up to 14 bits, as far as the sums of
// their products with those of a row fit in 32, so that it adds no error that counts.
type asked struct {
	short []int16 // nil: it is compared with nothing
	step  float32
}

func shorten(q []float32) asked {
	most := largest(q)
	if len(q) == 0 || len(q) > maxDim || most != most || most > math.MaxFloat32 {
		return asked{}
	}
	a := asked{short: make([]int16, len(q))}
	if most < tiny {
		return a
	}
	top := min(1<<13-1, math.MaxInt32/127/len(q))
	a.step = float32(most / float64(top))
	for i, x := range q {
		a.short[i] = int16(math.Round(float64(x / a.step)))
	}
	return a
}

// maxDim is the largest dimension that is compared; above it the numbers of a
// query would have to be shorter than those of a row.
const maxDim = 1 << 16

// cosines does the documents from up to to. A row meets all queries while
// it is in the cache.
func (s *Set) cosines(out [][]float32, queries []asked, from, to int) {
	for d := from; d < to; d++ {
		row := s.rows[d]
		dim := row.Dim()
		for i := range queries {
			q := &queries[i]
			if dim == 0 || dim != s.dim || len(q.short) != dim {
				out[i][d] = None
				continue
			}
			out[i][d] = cosine(float32(dot(row.short, q.short)) * row.step * q.step)
		}
	}
}

// cosine returns a product of two vectors as a cosine, or None where they were
// not of length 1.
func cosine(product float32) float32 {
	if product != product || math.Abs(float64(product)) > 1.5 {
		return None
	}
	return min(1, product)
}

// dotGeneric returns the dot product of two vectors of one length.
func dotGeneric(a []int8, b []int16) (sum int32) {
	b = b[:len(a)]
	for i, x := range a {
		sum += int32(x) * int32(b[i])
	}
	return sum
}
