package builtin

// fastKernel returns the kernel made for this CPU. All 64-bit Arm CPUs that Go
// runs on have its instructions.
func fastKernel() (kernel, bool) {
	return kernel{name: "neon", tile: checkedTile(tileNEON), dot: checkedDot(dotNEON), axpy: checkedAxpy(axpyNEON)}, true
}

//go:noescape
func tileNEON(a *float32, lda int, b *int8, k int, c *float32, ldc int, scale, bias *float32, floor float32)

//go:noescape
func dotNEON(x, y *float32, n int) float32

//go:noescape
func axpyNEON(alpha float32, x, y *float32, n int)
