package testkit

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Proc is one line of the process table.
type Proc struct {
	PID, PPID, PGID int
	// State is the system's letter: R, S, D, T, Z …
	State byte
	Name  string
}

// Zombie tells whether the process has ended and nobody has reaped it yet.
func (p Proc) Zombie() bool { return p.State == 'Z' || p.State == 'X' }

func (p Proc) String() string {
	return fmt.Sprintf("%d (%s, parent %d, group %d, state %c)", p.PID, p.Name, p.PPID, p.PGID, p.State)
}

// Descendants returns the children of a process, theirs and so on, zombies
// included, the nearest first. Who has lost its parent is not among them.
func Descendants(pid int) ([]Proc, error) {
	all, err := Processes()
	if err != nil {
		return nil, err
	}
	children := map[int][]Proc{}
	for _, p := range all {
		children[p.PPID] = append(children[p.PPID], p)
	}
	var found []Proc
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, c := range children[queue[0]] {
			found = append(found, c)
			queue = append(queue, c.PID)
		}
	}
	return found, nil
}

// Live returns those that are no zombies.
func Live(procs []Proc) []Proc {
	var live []Proc
	for _, p := range procs {
		if !p.Zombie() {
			live = append(live, p)
		}
	}
	return live
}

// Marked returns the live processes with one mark; see [MarkedBy].
func Marked(mark string) ([]Proc, error) {
	marked, err := MarkedBy(mark)
	return marked[mark], err
}

// mostOfALook is how much of within a look at the process table takes at most.
const mostOfALook = 50 * time.Millisecond

// AwaitGone waits until list returns nobody, and fails the test with the names
// of those that are left where that takes longer than within. A look that comes
// late, since the machine is busy with something else, counts as one in time:
// what is waited for has had to wait as well.
func AwaitGone(tb testing.TB, within time.Duration, list func() ([]Proc, error)) {
	tb.Helper()
	for spent := time.Duration(0); ; {
		began := time.Now()
		procs, err := list()
		if err == nil && len(procs) == 0 {
			return
		}
		if spent >= within {
			names := make([]string, len(procs))
			for i, p := range procs {
				names[i] = p.String()
			}
			tb.Fatalf("not within %s: %d processes are still there: %s (%v)", within, len(procs), strings.Join(names, ", "), err)
		}
		<-time.After(pollEvery)
		spent += min(time.Since(began), mostOfALook)
	}
}

// AwaitMarkedGone waits until no live process carries the mark.
func AwaitMarkedGone(tb testing.TB, within time.Duration, mark string) {
	tb.Helper()
	AwaitGone(tb, within, func() ([]Proc, error) { return Marked(mark) })
}

// KillMarked kills everything that carries the mark, again and again until
// nothing does: what is killed may just have started another.
func KillMarked(tb testing.TB, mark string) {
	tb.Helper()
	AwaitGone(tb, exitWait, func() ([]Proc, error) {
		procs, err := Marked(mark)
		for _, p := range procs {
			if proc, found := os.FindProcess(p.PID); found == nil {
				if killed := proc.Kill(); killed != nil && !errors.Is(killed, os.ErrProcessDone) {
					err = errors.Join(err, killed)
				}
			}
		}
		return procs, err
	})
}
