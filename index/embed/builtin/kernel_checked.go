//go:build amd64 || arm64

package builtin

// The assembly checks nothing. The functions here touch the ends of what it
// reads and writes first, so that a wrong length panics instead of harming
// other memory.

func checkedTile(f func(a *float32, lda int, b *int8, k int, c *float32, ldc int, scale, bias *float32, floor float32)) func([]float32, int, []int8, int, []float32, int, []float32, []float32, float32) {
	return func(a []float32, lda int, b []int8, k int, c []float32, ldc int, scale, bias []float32, floor float32) {
		_, _, _ = a[(tileRows-1)*lda+k-1], b[k*panel-1], c[(tileRows-1)*ldc+panel-1]
		_, _ = scale[panel-1], bias[panel-1]
		f(&a[0], lda, &b[0], k, &c[0], ldc, &scale[0], &bias[0], floor)
	}
}

func checkedDot(f func(x, y *float32, n int) float32) func(x, y []float32) float32 {
	return func(x, y []float32) float32 {
		_, _ = x[len(x)&^15-1], y[len(x)-1]
		return f(&x[0], &y[0], len(x))
	}
}

func checkedAxpy(f func(alpha float32, x, y *float32, n int)) func(alpha float32, x, y []float32) {
	return func(alpha float32, x, y []float32) {
		_, _ = x[len(x)&^15-1], y[len(x)-1]
		f(alpha, &x[0], &y[0], len(x))
	}
}
