//go:build unix

package child

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/watchdog"
	"github.com/metamcp/metamcp/messages"
)

// The real guard fits.
var _ Guard = (*watchdog.Host)(nil)

// notes is a Guard that writes down what it is told.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (*notes) HostID() string { return "host" }

func (n *notes) Ready() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, "ready")
}

func (n *notes) Add(pid int, start uint64, marker string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf("add %d %d %s", pid, start, marker))
}

func (n *notes) Remove(pid int, start uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf("remove %d %d", pid, start))
}

// TestGuard: a tree is on record from Launch to Release, not only to the exit
// of its leader, and a failed launch never is.
func TestGuard(t *testing.T) {
	g := new(notes)
	l := newLauncher(t, func(o *Options) { o.Guard = g })
	if _, err := l.Launch(&messages.ServerSpec{Name: "none", Command: "no-such-command"}, 6, newRecorder()); err == nil {
		t.Fatal("no error")
	}
	r := newRecorder()
	p, err := l.Launch(spec("grandchild"), 7, r)
	if err != nil {
		t.Fatal(err)
	}
	start, _ := proctree.StartTime(p.Pid())
	want := []string{"ready", fmt.Sprintf("add %d %d host.7", p.Pid(), start)}
	if !slices.Equal(g.lines, want) {
		t.Errorf("after Launch: %q, want %q", g.lines, want)
	}
	r.method(t, 0)
	p.CloseInput()
	r.exit(t)
	if len(g.lines) != len(want) {
		t.Errorf("after the exit of the leader: %q", g.lines)
	}
	p.Release()
	want = append(want, fmt.Sprintf("remove %d %d", p.Pid(), start))
	if !slices.Equal(g.lines, want) {
		t.Errorf("after Release: %q, want %q", g.lines, want)
	}
}

// TestWithWatchdog: children come and go under a real watchdog, which leaves
// with the host's goodbye.
func TestWithWatchdog(t *testing.T) {
	var failures []error
	state := t.TempDir()
	h := watchdog.New(watchdog.Options{HostID: NewHostID(), StateDir: state, Report: func(err error) { failures = append(failures, err) }})
	l := newLauncher(t, func(o *Options) { o.Guard = h })
	for i := range 3 {
		r := newRecorder()
		p, err := l.Launch(spec("deaf"), uint64(i), r)
		if err != nil {
			t.Fatal(err)
		}
		r.method(t, 0)
		p.Signal(messages.SignalKill)
		r.exit(t)
		p.Release()
	}
	dog := h.PID()
	if dog == 0 || !running(dog) {
		t.Error("no watchdog runs")
	}
	h.Close()
	if running(dog) || len(failures) != 0 {
		t.Errorf("the watchdog is left, or failures were reported: %v", failures)
	}
	if list, err := os.ReadDir(state + "/run"); err != nil || len(list) != 0 {
		t.Errorf("journals left: %v, %v", list, err)
	}
}
