package vector

import "golang.org/x/sys/cpu"

var fast = cpu.X86.HasAVX2 && cpu.X86.HasFMA

// dot returns the dot product of two vectors of one length.
func dot(a, b []float32) float32 {
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
func dotAVX2(a, b *float32, n int) float32

// dotShort returns the dot product of two vectors of one length, whose numbers
// are between -127 and 127 and no more than 2^16.
func dotShort(a []int8, b []int16) (sum int32) {
	whole := len(a) &^ 31
	b = b[:len(a)] // the assembly checks nothing
	if whole > 0 {
		sum = dotShortAVX2(&a[0], &b[0], whole)
	}
	for i := whole; i < len(a); i++ {
		sum += int32(a[i]) * int32(b[i])
	}
	return sum
}

// dotShortAVX2 returns the dot product of n numbers; n is a positive multiple
// of 32.
//
//go:noescape
func dotShortAVX2(a *int8, b *int16, n int) int32
