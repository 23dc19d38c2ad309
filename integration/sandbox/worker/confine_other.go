//go:build !linux

package worker

import "github.com/metamcp/metamcp/integration/sandbox"

// limitData needs Linux.
func limitData(*meter, sandbox.Limits) {}
