//go:build !amd64 && !arm64

package builtin

// fastKernel reports that there is no kernel for this architecture.
func fastKernel() (kernel, bool) { return kernel{}, false }
