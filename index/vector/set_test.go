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

func setOf(vectors [][]float32) *Set {
	rows := make([]*Row, len(vectors))
	for i, v := range vectors {
		if v != nil {
			rows[i] = NewRow(v)
		}
	}
	return NewSet(rows)
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
		s := setOf(rows)
		if s.Len() != 4 || s.Dim() != dim || s.Have() != 2 {
			t.Fatalf("dimension %d: Len %d, Dim %d, Have %d", dim, s.Len(), s.Dim(), s.Have())
		}
		out := [][]float32{make([]float32, 4), make([]float32, 4), make([]float32, 4)}
		s.Cosines(out, queries)
		for _, d := range []int{0, 2} {
			if want := exact(rows[d], queries[0]); math.Abs(float64(out[0][d])-want) > most {
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
	s, q := setOf(rows), random(r, 256)
	out := [][]float32{make([]float32, len(rows))}
	s.Cosines(out, [][]float32{q})
	for i, row := range rows {
		if row == nil {
			if out[0][i] != None {
				t.Fatalf("row %d: %v", i, out[0][i])
			}
			continue
		}
		if want := exact(row, q); math.Abs(float64(out[0][i])-want) > usually {
			t.Fatalf("row %d: %v, want %v", i, out[0][i], want)
		}
	}
}

// How much a cosine may be off: at most, and of vectors as models make them.
const (
	most    = 0.01
	usually = 0.002
)

// TestCosinesAreNear asks large sets of random vectors, of vectors with one large
// number, of all the same, and with rows that are no unit vectors.
func TestCosinesAreNear(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const n = 3000
	for name, row := range map[string]func(i, dim int) []float32{
		"random": func(_, dim int) []float32 { return random(r, dim) },
		"one large number": func(i, dim int) []float32 {
			v := random(r, dim)
			for j := range v {
				v[j] *= 0.6
			}
			v[i%dim] = 0.8
			return v
		},
		"all the same": func(_, dim int) []float32 {
			v := make([]float32, dim)
			v[dim/2] = 1
			return v
		},
	} {
		for _, dim := range []int{1, 31, 32, 33, 100, 640} {
			rows := make([][]float32, n)
			for i := range rows {
				rows[i] = row(i, dim)
			}
			odd := map[int]float32{10: float32(math.NaN()), 20: float32(math.Inf(-1)), 30: 9, 40: 0}
			queries := [][]float32{random(r, dim), rows[1], {float32(math.NaN())}, make([]float32, dim)}
			for d, x := range odd {
				rows[d] = make([]float32, dim)
				for i := range rows[d] {
					rows[d][i] = x
				}
			}
			rows[50] = nil
			out := make([][]float32, len(queries))
			for i := range out {
				out[i] = make([]float32, n)
			}
			setOf(rows).Cosines(out, queries)
			for i, q := range queries[:2] {
				for d, v := range rows {
					if _, isOdd := odd[d]; isOdd || v == nil {
						if c := out[i][d]; c != None && (d != 40 || c != 0) && math.Abs(exact(v, q)) > 1.5 {
							t.Errorf("%s, %d numbers: row %d: %v", name, dim, d, c)
						}
						continue
					}
					want := exact(v, q)
					allowed := most
					if name == "random" && dim == 640 {
						allowed = usually
					}
					if got := float64(out[i][d]); math.Abs(got-want) > allowed {
						t.Fatalf("%s, %d numbers, query %d, row %d: %v, want %v", name, dim, i, d, got, want)
					}
				}
			}
			for d, c := range out[2] {
				if dim > 1 && c != None {
					t.Fatalf("a query of another dimension: row %d: %v", d, c)
				}
			}
			for d, c := range out[3] {
				if c != 0 && c != None {
					t.Fatalf("a query of zeros: row %d: %v", d, c)
				}
			}
		}
	}
}

func TestNothingToCompare(t *testing.T) {
	var none *Set
	none.Cosines(nil, [][]float32{{1}})
	if none.Len() != 0 || none.Dim() != 0 || none.Have() != 0 {
		t.Error("a nil set is not empty")
	}
	s := setOf([][]float32{nil, {}})
	out := [][]float32{{0, 0}}
	s.Cosines(out, [][]float32{{1}})
	if out[0][0] != None || out[0][1] != None {
		t.Errorf("%v", out)
	}
}

func TestWhatIsNoUnitVector(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	s := setOf([][]float32{{nan, 0}, {inf, 0}, {9, 9}, {1, 0}})
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
			s := setOf(rows)
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
