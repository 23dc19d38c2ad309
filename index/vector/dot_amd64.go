package vector

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX2

// dot returns the dot product of two vectors of one length. The sum of the
// products' magnitudes fits in 32 bits.
func dot(a []int8, b []int16) int32 {
	whole := len(a) &^ 31
	if !fast || whole == 0 {
		return dotGeneric(a, b)
	}
	b = b[:len(a)] // the assembly checks nothing
	return dotAVX2(&a[0], &b[0], whole) + dotGeneric(a[whole:], b[whole:])
}

// dotAVX2 returns the dot product of n numbers; n is a positive multiple of 32.
//
//go:noescape
func dotAVX2(a *int8, b *int16, n int) int32
