//go:build !amd64

package vector

// dot returns the dot product of two vectors of one length.
func dot(a, b []float32) float32 { return dotGeneric(a, b) }
