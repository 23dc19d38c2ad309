package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func random(r *rand.Rand, dim int) []float32 {
	v := make([]float32, dim)
	var sum float64
	for i := range v {
		v[i] = float32(r.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func exact(a, b []float32) (s float64) {
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return
}

func TestCosinesOfEveryDimension(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for dim := 1; dim <= 100; dim++ {
		rows := [][]float32{random(r, dim), nil, random(r, dim), random(r, dim+1)}
		queries := [][]float32{random(r, dim), random(r, dim+1), nil}
		s := NewSet(rows)
		if s.Len() != 4 || s.Dim() != dim || s.Have() != 2 {
			t.Fatalf("dimension %d: Len %d, Dim %d, Have %d", dim, s.Len(), s.Dim(), s.Have())
		}
		out := [][]float32{make([]float32, 4), make([]float32, 4), make([]float32, 4)}
		s.Cosines(out, queries)
		for _, d := range []int{0, 2} {
			if want := exact(rows[d], queries[0]); math.Abs(float64(out[0][d])-want) > 1e-5 {
				t.Errorf("dimension %d: %v, want %v", dim, out[0][d], want)
			}
		}
		for _, c := range []float32{out[0][1], out[0][3], out[1][0], out[1][3], out[2][0]} {
			if c != None {
				t.Errorf("dimension %d: %v where there is nothing to compare", dim, c)
			}
		}
	}
}

func TestCosinesOnTwoGoroutines(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rows := make([][]float32, 5001)
	for i := range rows {
		if i%7 != 0 {
			rows[i] = random(r, 256)
		}
	}
	s, q := NewSet(rows), random(r, 256)
	out := [][]float32{make([]float32, len(rows))}
	s.Cosines(out, [][]float32{q})
	for i, row := range rows {
		if row == nil {
			if out[0][i] != None {
				t.Fatalf("row %d: %v", i, out[0][i])
			}
			continue
		}
		if want := exact(row, q); math.Abs(float64(out[0][i])-want) > 1e-5 {
			t.Fatalf("row %d: %v, want %v", i, out[0][i], want)
		}
	}
}

func TestNothingToCompare(t *testing.T) {
	var none *Set
	none.Cosines(nil, [][]float32{{1}})
	if none.Len() != 0 || none.Dim() != 0 || none.Have() != 0 {
		t.Error("a nil set is not empty")
	}
	s := NewSet([][]float32{nil, {}})
	out := [][]float32{{0, 0}}
	s.Cosines(out, [][]float32{{1}})
	if out[0][0] != None || out[0][1] != None {
		t.Errorf("%v", out)
	}
}

func TestWhatIsNoUnitVector(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	s := NewSet([][]float32{{nan, 0}, {inf, 0}, {9, 9}, {1, 0}})
	out := [][]float32{make([]float32, 4)}
	s.Cosines(out, [][]float32{{1, 0}})
	for d, want := range []float32{None, None, None, 1} {
		if out[0][d] != want {
			t.Errorf("row %d: %v, want %v", d, out[0][d], want)
		}
	}
}

func BenchmarkCosines(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1000, 10_000, 50_000} {
		for _, dim := range []int{384, 640} {
			rows := make([][]float32, n)
			flat := make([]float32, n*dim)
			for i := range rows {
				rows[i] = flat[i*dim : (i+1)*dim : (i+1)*dim]
				copy(rows[i], random(r, dim))
			}
			s := NewSet(rows)
			for _, queries := range []int{1, 4} {
				qs, out := make([][]float32, queries), make([][]float32, queries)
				for i := range qs {
					qs[i], out[i] = random(r, dim), make([]float32, n)
				}
				b.Run(fmt.Sprintf("docs=%d/dim=%d/queries=%d", n, dim, queries), func(b *testing.B) {
					for b.Loop() {
						s.Cosines(out, qs)
					}
				})
			}
		}
	}
}
