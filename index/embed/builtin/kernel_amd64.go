package builtin

import "golang.org/x/sys/cpu"

// fastKernel returns the kernel made for this CPU, or false if the CPU lacks
// instructions that it needs.
func fastKernel() (kernel, bool) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return kernel{}, false
	}
	return kernel{name: "avx2", tile: checkedTile(tileAVX2), dot: checkedDot(dotAVX2), axpy: checkedAxpy(axpyAVX2)}, true
}

//go:noescape
func tileAVX2(a *float32, lda int, b *int8, k int, c *float32, ldc int, scale, bias *float32, floor float32)

//go:noescape
func dotAVX2(x, y *float32, n int) float32

//go:noescape
func axpyAVX2(alpha float32, x, y *float32, n int)
