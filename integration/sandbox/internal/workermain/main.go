// Command workermain is a worker and nothing else, for tests that are built
// with the race detector: it makes the JavaScript engine twenty times slower,
// which is no matter of the scripts that are tested.
package main

import (
	"os"

	"github.com/metamcp/metamcp/integration/sandbox/worker"
)

func main() { os.Exit(worker.Main(os.Stdin, os.Stdout, os.Stderr)) } //nolint:forbidigo // a worker speaks there
