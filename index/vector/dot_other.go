//go:build !amd64

package vector

// dot returns the dot product of two vectors of one length.
func dot(a, b []float32) float32 { return dotGeneric(a, b) }

// fast says that vectors in short steps are compared faster; they are not
// without the assembly for it.
const fast = false

// dotShort is not called where fast is false.
func dotShort([]int8, []int16) int32 { return 0 }
