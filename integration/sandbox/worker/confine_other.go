//go:build !linux

package worker

import "github.com/metamcp/metamcp/integration/sandbox"

// closeFrom closes nothing here: the runtime's own descriptors cannot be told
// apart, and what the host opens is marked to close by itself.
func closeFrom(int) {}

// limitData needs Linux.
func limitData(*meter, sandbox.Limits) {}
