//go:build !linux

package relay

import "io"

// inputOver does not know: the end of the input is seen once it is read.
func inputOver(io.Reader) bool { return false }
