//go:build !unix

package openfds

// CloseOnExec has nothing to do here: what is inherited is named one by one.
func CloseOnExec(int) {}
