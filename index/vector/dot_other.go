//go:build !amd64

package vector

// dot returns the dot product of two vectors of one length. The sum of the
// products' magnitudes fits in 32 bits.
func dot(a []int8, b []int16) int32 { return dotGeneric(a, b) }
