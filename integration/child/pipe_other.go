//go:build !linux

package child

import "os"

// pipe makes a pipe; os.StartProcess turns the child's end into a blocking
// one.
func pipe(bool) (r, w *os.File, err error) { return os.Pipe() }

// pipeBudget does nothing: pipes have one size here.
type pipeBudget struct{}

func (*pipeBudget) grow(*os.File) int { return 0 }
func (*pipeBudget) giveBack(int)      {}
