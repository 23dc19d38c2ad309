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

// A Set holds one vector or none for each document, all of one dimension and
// of length 1 (L2 norm). It never changes, and is safe for concurrent use.
type Set struct {
	dim  int
	have int
	rows [][]float32
}

// NewSet returns the set of the given vectors, row i being that of document
// i; nil is a document without one. The dimension is that of the first
// vector, and one of another dimension counts as none. Nothing is copied, so
// that a set is cheap to assemble anew: the rows must not change afterwards.
func NewSet(rows [][]float32) *Set {
	s := &Set{rows: rows}
	for _, r := range rows {
		if len(r) == 0 {
			continue
		}
		if s.dim == 0 {
			s.dim = len(r)
		}
		if len(r) == s.dim {
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
// dimension. Each out[i] has at least Len numbers. It works on as many
// goroutines as there are processors, two at most, and returns when all is done.
func (s *Set) Cosines(out [][]float32, queries [][]float32) {
	n := s.Len()
	if n == 0 || len(queries) == 0 {
		return
	}
	half := n
	if n*s.dim*len(queries) > parallel && runtime.GOMAXPROCS(0) > 1 {
		half = n / 2
	}
	if half == n {
		s.cosines(out, queries, 0, n)
		return
	}
	var second sync.WaitGroup
	second.Go(func() { s.cosines(out, queries, half, n) })
	s.cosines(out, queries, 0, half)
	second.Wait()
}

// cosines does the documents from up to to. A row meets all queries while
// it is in the cache.
func (s *Set) cosines(out [][]float32, queries [][]float32, from, to int) {
	for d := from; d < to; d++ {
		row := s.rows[d]
		for i, q := range queries {
			if len(row) != s.dim || len(q) != s.dim || s.dim == 0 {
				out[i][d] = None
				continue
			}
			c := dot(row, q)
			if c != c || math.Abs(float64(c)) > 1.5 { // not unit vectors, or not numbers
				c = None
			}
			out[i][d] = min(1, c)
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
