//go:build unix

package child

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/messages"
)

// tree is the process group of a child and those who left it.
type tree struct {
	mu    sync.Mutex // where the end can be awaited first, nobody signals the group while its leader is reaped
	group int
	empty bool // leader reaped and group empty: its number may be another's by now
	// known are the members of the last look: one that is dying has lost its
	// environment and its parent already.
	known map[proctree.Root]bool
}

// newTree asks for a process group of its own.
func newTree(attr *os.ProcAttr) (*tree, error) {
	attr.Sys = &syscall.SysProcAttr{Setpgid: true}
	return new(tree), nil
}

func (t *tree) adopt(proc *os.Process) error { t.group = proc.Pid; return nil }

// abandon gives back what is left of a group that was ended: its zombies. Whoever was
// just killed may take a moment to become one, for which it waits, a second at most.
func (t *tree) abandon() {
	const patience, again = time.Second, 5 * time.Millisecond
	if t.group == 0 { // nothing was started
		return
	}
	for deadline := time.Now().Add(patience); t.inherited() && time.Now().Before(deadline); {
		time.Sleep(again)
	}
}

// inherited reaps, and reports whether this process has inherited one of the group
// that has not ended.
func (t *tree) inherited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.look()
}

// wait returns once the process has ended and was reaped.
func (t *tree) wait(proc *os.Process) *os.ProcessState {
	ended := awaitExit(proc)
	if !ended {
		state := reapNow(proc)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.look()
		return state
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	state := reapNow(proc)
	t.look()
	return state
}

func reapNow(proc *os.Process) *os.ProcessState {
	state, err := proc.Wait()
	if err != nil {
		return nil
	}
	return state
}

// look notices an empty group, and reaps those of it whom this process has
// inherited: the first process of a container has everybody's orphans, and no one
// else would. It reports whether one of these has not ended. The leader was reaped, so
// nobody can join the group any more, and no status is taken from who waits for it.
func (t *tree) look() (inherited bool) {
	if t.empty {
		return false
	}
	for {
		pid, err := syscall.Wait4(-t.group, nil, syscall.WNOHANG, nil)
		if pid <= 0 { // nearly always: there are no such children
			t.empty = !proctree.GroupAlive(t.group)
			return err == nil
		}
	}
}

func (t *tree) signal(sig syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.empty {
		_ = proctree.SignalGroup(t.group, sig)
	}
}

// terminate also wakes those that were stopped, so that they can act on it.
func (t *tree) terminate() {
	t.signal(syscall.SIGTERM)
	t.signal(syscall.SIGCONT)
}

// kill ends the group and everyone who belongs to the tree otherwise. They are
// looked for first, since the death of their parents hides them.
func (t *tree) kill(scanner *proctree.Scanner, marker string) {
	const patience = 100 * time.Millisecond // the group does not wait longer for a slow look at /proc
	done, result := scanner.Start()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	t.signal(syscall.SIGKILL)
	<-done
	// Who was forking while we looked is found by the next look. The bound is
	// for those who cannot be killed, or fork faster than we look; the caller
	// looks again later, and kills again.
	const insist = time.Second
	began := time.Now()
	for quiet := 0; ; quiet++ {
		snap, err := result()
		if err != nil {
			return
		}
		if killAll(t.members(snap, marker)) {
			quiet = 0
		}
		if quiet == emptyLooks || time.Since(began) > insist {
			return
		}
		done, result = scanner.Start()
		<-done
	}
}

// emptyLooks is how many looks in a row must find nobody: one may miss those
// who fork and exit all the time.
const emptyLooks = 2

// killAll stops all before it kills one, so that none forks meanwhile. It
// reports whether there was one.
func killAll(members []proctree.Process) bool {
	for _, m := range members {
		proctree.Stop(m)
	}
	found := false
	for _, m := range members {
		found = proctree.Kill(m) || found
	}
	return found
}

func (t *tree) members(snap proctree.Snapshot, marker string) []proctree.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := snap.Tree(func(m *proctree.Process) bool {
		return m.Marker == marker || !t.empty && m.Group == t.group || t.known[proctree.Root{PID: m.PID, Start: m.Start}]
	})
	t.known = make(map[proctree.Root]bool, len(found))
	for _, m := range found {
		t.known[proctree.Root{PID: m.PID, Start: m.Start}] = true
	}
	return found
}

// alive is asked only after the leader was reaped. A group of which only
// zombies are left, whom nobody reaps in some containers, is told apart by a
// look at /proc, which concurrent questions share.
func (t *tree) alive(scanner *proctree.Scanner, marker string) bool {
	t.mu.Lock()
	t.look()
	group := !t.empty
	t.mu.Unlock()
	for range emptyLooks {
		snap, err := scanner.Scan()
		if err != nil {
			return group
		}
		if len(t.members(snap, marker)) > 0 {
			return true
		}
	}
	return false
}

// exitOf translates how a process ended; nil is unknown.
func exitOf(state *os.ProcessState) *messages.Exit {
	if state == nil {
		return &messages.Exit{Code: -1}
	}
	exit := &messages.Exit{Code: state.ExitCode()}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = unix.SignalName(status.Signal())
	}
	return exit
}
