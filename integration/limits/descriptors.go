package limits

import (
	"fmt"
	"syscall"
)

// startNeeds is how many descriptors must be free for a start: its three pipes, its
// log and what the system needs meanwhile, several starts at once, and something
// for clients that come.
const startNeeds = 32

// Descriptors are this process's: Open of at most Limit. Both are 0 where the system
// does not tell.
type Descriptors struct{ Open, Limit int }

// CheckStart returns an error that wraps EMFILE where there are too few descriptors
// for a start, before the system refuses it somewhere in the middle, or a client its
// connection.
func (d Descriptors) CheckStart() error {
	if d.Limit == 0 || d.Open+startNeeds <= d.Limit {
		return nil
	}
	return fmt.Errorf("%d of %d descriptors are open, and a start needs up to %d: %w", d.Open, d.Limit, startNeeds, syscall.EMFILE)
}
