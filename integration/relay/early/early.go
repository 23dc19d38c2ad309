// Package early attaches a client to a running host before the rest of the
// program has begun: what a host needs takes longer to set up than a relay
// lives to need it. Packages are initialised in the order of their paths as far
// as what they import is ready, and this one needs little.
//
// Only a command line that it understands whole, with a host that answers, is
// taken; everything else is the program's ordinary way, which says what is
// wrong.
package early

import (
	"os"
)

// Only cmd/metamcp imports this package.
func init() {
	p, ok := parse(os.Args, os.Environ())
	if !ok {
		return
	}
	if code, taken := p.attach(); taken {
		os.Exit(code)
	}
}
