package builtin

import (
	"math"
	"math/rand/v2"
	"testing"
)

func random(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// kernels are all that this machine has. The portable one is the measure of
// the others, and is itself measured against float64 here.
func kernels() []kernel {
	all := []kernel{portableKernel()}
	if k, ok := fastKernel(); ok {
		all = append(all, k)
	}
	return all
}

func TestTileMultiplies(t *testing.T) {
	for _, k := range kernels() {
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				depth := 1 + rng.IntN(700)
				lda, ldc := depth+rng.IntN(9), panel+rng.IntN(40)
				a := random(rng, tileRows*lda)
				b := make([]int8, depth*panel)
				for i := range b {
					b[i] = int8(rng.IntN(255) - 127)
				}
				scale, bias := random(rng, panel), random(rng, panel)
				floor := float32(math.Inf(-1))
				if rng.IntN(2) == 0 {
					floor = 0
				}
				c := random(rng, tileRows*ldc)
				before := append([]float32(nil), c...)
				k.tile(a, lda, b, depth, c, ldc, scale, bias, floor)
				for r := range tileRows {
					for j := range ldc {
						got := c[r*ldc+j]
						if j >= panel {
							if got != before[r*ldc+j] {
								t.Fatalf("depth %d: row %d, column %d is not of the tile but was written", depth, r, j)
							}
							continue
						}
						var sum, size float64
						for i := range depth {
							p := float64(a[r*lda+i]) * float64(b[i*panel+j])
							sum, size = sum+p, size+math.Abs(p)
						}
						want := max(float64(floor), sum*float64(scale[j])+float64(bias[j]))
						// Float32 sums are off by no more than this.
						limit := 1e-6*size*math.Abs(float64(scale[j])) + 1e-5
						if math.Abs(float64(got)-want) > limit {
							t.Fatalf("depth %d, row %d, column %d: got %g, want %g", depth, r, j, got, want)
						}
					}
				}
			}
		})
	}
}

func TestDotAndAxpy(t *testing.T) {
	for _, k := range kernels() {
		t.Run(k.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			for range 300 {
				n := 16 * (1 + rng.IntN(40))
				x, y := random(rng, n), random(rng, n+rng.IntN(5))
				var sum, size float64
				for i := range x {
					p := float64(x[i]) * float64(y[i])
					sum, size = sum+p, size+math.Abs(p)
				}
				if got := float64(k.dot(x, y)); math.Abs(got-sum) > 1e-6*size {
					t.Fatalf("dot of %d: got %g, want %g", n, got, sum)
				}
				alpha := float32(rng.NormFloat64())
				before := append([]float32(nil), y...)
				k.axpy(alpha, x, y)
				for i := range y {
					want := float64(before[i])
					if i < n {
						want += float64(alpha) * float64(x[i])
					}
					if math.Abs(float64(y[i])-want) > 1e-5 {
						t.Fatalf("axpy of %d, number %d: got %g, want %g", n, i, y[i], want)
					}
				}
			}
		})
	}
}

func BenchmarkTile(b *testing.B) {
	for _, k := range kernels() {
		b.Run(k.name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(5, 6))
			a, c := random(rng, tileRows*dim), random(rng, tileRows*hidden)
			weights := make([]int8, dim*panel)
			scale := random(rng, panel)
			for b.Loop() {
				k.tile(a, dim, weights, dim, c, hidden, scale, scale, 0)
			}
			b.ReportMetric(float64(b.N)*tileRows*dim*panel/b.Elapsed().Seconds()/1e9, "GMAC/s")
		})
	}
}
