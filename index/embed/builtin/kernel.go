package builtin

// A weight matrix is kept in panels of 16 columns, and multiplied with four
// rows of activations at a time: eight registers of eight sums each.
const (
	panel    = 16
	tileRows = 4
)

// A kernel does the arithmetic that nearly all the time goes into. Its
// functions are pure, so one kernel serves any number of goroutines. Each
// sum is made in one fixed order that depends on nothing but k, so a text has
// the same vector whatever it is embedded together with.
type kernel struct {
	name string
	// tile sets c[r][j] = max(floor, scale[j]*Σ_i a[r][i]*b[i][j] + bias[j])
	// for 4 rows r and the 16 columns j of a panel. Row r of a begins at
	// a[r*lda] and has k numbers, that of c at c[r*ldc]; b has the 16 weights
	// of i = 0, then those of i = 1, and so on. k is at least 1.
	tile func(a []float32, lda int, b []int8, k int, c []float32, ldc int, scale, bias []float32, floor float32)
	// dot returns Σ x[i]*y[i]. len(x) is a multiple of 16 and at least 16, and
	// y is no shorter.
	dot func(x, y []float32) float32
	// axpy adds alpha*x[i] to y[i], under the conditions of dot.
	axpy func(alpha float32, x, y []float32)
}

// portableKernel works on every CPU.
func portableKernel() kernel {
	return kernel{name: "portable", tile: tileGo, dot: dotGo, axpy: axpyGo}
}

// newKernel returns the fastest kernel for this CPU.
func newKernel() kernel {
	if k, ok := fastKernel(); ok {
		return k
	}
	return portableKernel()
}

func tileGo(a []float32, lda int, b []int8, k int, c []float32, ldc int, scale, bias []float32, floor float32) {
	b = b[:k*panel]
	// Four columns at a time: their sixteen sums and the weights are what
	// the registers of common CPUs can hold.
	for j := 0; j < panel; j += 4 {
		var s [tileRows][4]float32
		a0, a1, a2, a3 := a[:k], a[lda:lda+k], a[2*lda:2*lda+k], a[3*lda:3*lda+k]
		for i := range k {
			w := b[i*panel+j : i*panel+j+4 : i*panel+j+4]
			w0, w1, w2, w3 := float32(w[0]), float32(w[1]), float32(w[2]), float32(w[3])
			x := a0[i]
			s[0][0] += x * w0
			s[0][1] += x * w1
			s[0][2] += x * w2
			s[0][3] += x * w3
			x = a1[i]
			s[1][0] += x * w0
			s[1][1] += x * w1
			s[1][2] += x * w2
			s[1][3] += x * w3
			x = a2[i]
			s[2][0] += x * w0
			s[2][1] += x * w1
			s[2][2] += x * w2
			s[2][3] += x * w3
			x = a3[i]
			s[3][0] += x * w0
			s[3][1] += x * w1
			s[3][2] += x * w2
			s[3][3] += x * w3
		}
		for r := range s {
			for i, sum := range s[r] {
				c[r*ldc+j+i] = max(floor, sum*scale[j+i]+bias[j+i])
			}
		}
	}
}

func dotGo(x, y []float32) float32 {
	var s0, s1, s2, s3 float32
	y = y[:len(x)]
	for i := 0; i+4 <= len(x); i += 4 {
		s0 += x[i] * y[i]
		s1 += x[i+1] * y[i+1]
		s2 += x[i+2] * y[i+2]
		s3 += x[i+3] * y[i+3]
	}
	return (s0 + s1) + (s2 + s3)
}

func axpyGo(alpha float32, x, y []float32) {
	y = y[:len(x)]
	for i, v := range x {
		y[i] += alpha * v
	}
}
