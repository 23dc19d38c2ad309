package child

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/messages"
)

// TestRunaways: descendants that left the process group are seen and ended,
// by their marker and by their parent.
func TestRunaways(t *testing.T) {
	t.Run("marker", func(t *testing.T) {
		p, r := launch(t, newLauncher(t, nil), "setsid")
		_, runaway := r.method(t, 0)
		p.CloseInput()
		r.exit(t)
		if !p.TreeAlive() || !running(runaway) {
			t.Fatal("the runaway is gone or not seen")
		}
		p.Signal(messages.SignalKill)
		eventually(t, "the tree is gone", func() bool { return !p.TreeAlive() })
		if running(runaway) {
			t.Error("the runaway lives")
		}
	})
	t.Run("parent", func(t *testing.T) {
		p, r := launch(t, newLauncher(t, nil), "setsid-bare")
		_, runaway := r.method(t, 0)
		p.Signal(messages.SignalKill)
		r.exit(t)
		eventually(t, "the runaway is gone", func() bool { return !running(runaway) })
	})
}

// TestReleaseLooksNoMore: the process table, which is large on some machines, is read for
// the answer that a tree is gone, and not once more when it is released.
func TestReleaseLooksNoMore(t *testing.T) {
	l := newLauncher(t, nil)
	var looks atomic.Int64
	l.scanner.List = func(since uint64) (proctree.Snapshot, error) {
		looks.Add(1)
		return proctree.Scan(since)
	}
	p, r := launch(t, l, "echo")
	p.CloseInput()
	r.exit(t)
	if p.TreeAlive() {
		t.Fatal("a child that has exited lives")
	}
	p.Release()
	if n := looks.Load(); n != emptyLooks {
		t.Errorf("the process table was read %d times, want %d", n, emptyLooks)
	}
}

// TestManyChildren: a child costs no thread and, released, nothing.
func TestManyChildren(t *testing.T) {
	const n = 200
	l := newLauncher(t, nil)
	files := openFiles(t)
	before := threads(t)
	procs, ears := make([]*Process, n), make([]*recorder, n)
	for i := range n {
		ears[i] = newRecorder()
		s := spec("")
		s.Command, s.Env = "cat", []string{"PATH=" + os.Getenv("PATH")}
		p, err := l.Launch(s, uint64(i), ears[i])
		if err != nil {
			t.Fatal(err)
		}
		procs[i] = p
	}
	for i, p := range procs {
		if err := p.Send([]byte(`{"method":"hello"}`)); err != nil {
			t.Fatal(err)
		}
		ears[i].method(t, 0)
	}
	if more := threads(t) - before; more > 20 {
		t.Errorf("%d children cost %d threads", n, more)
	}
	var all sync.WaitGroup
	for _, p := range procs {
		all.Go(func() {
			p.Signal(messages.SignalKill)
			p.Release()
		})
	}
	all.Wait()
	for _, r := range ears {
		r.once(t)
	}
	eventually(t, "no descriptor is left", func() bool { return openFiles(t) <= files+2 })
}

func threads(t testing.TB) int { return entries(t, "/proc/self/task") }

func openFiles(t testing.TB) int { return entries(t, "/proc/self/fd") }

func entries(t testing.TB, dir string) int {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestMarkerIsOurs: an inherited marker of an outer host is replaced.
func TestMarkerIsOurs(t *testing.T) {
	env := withMarker([]string{"A=1", "METAMCP_TREE=outer.1"}, "inner.2")
	if got := strings.Join(env, " "); got != "METAMCP_TREE=inner.2 A=1" {
		t.Errorf("environment %q", got)
	}
}

// TestChains: processes each of which starts its successor in a session of its
// own and exits are ended, and not taken for gone between two of them.
func TestChains(t *testing.T) {
	script := filepath.Join(t.TempDir(), "chain")
	if err := os.WriteFile(script, []byte("trap '' TERM\nsleep 0.01\nsetsid sh \"$0\" &\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &messages.ServerSpec{Name: "chains", Command: "sh", Args: []string{"-c", `setsid sh "$0" & echo '{"method":"ready"}'; cat >/dev/null`, script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
	l, r := newLauncher(t, nil), newRecorder()
	p, err := l.Launch(s, 1, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	r.method(t, 0)
	p.CloseInput()
	r.exit(t)
	for range 100 {
		if !p.TreeAlive() {
			t.Fatal("the chains are not seen")
		}
	}
	p.Signal(messages.SignalKill)
	eventually(t, "the chains are gone", func() bool {
		if !p.TreeAlive() {
			return true
		}
		p.Signal(messages.SignalKill) // as the host does at each look
		return false
	})
	for range 100 {
		if left := ofHost(t, l.hostID); len(left) > 0 {
			t.Fatalf("left: %v", left)
		}
	}
}

// TestOrphansAreReaped: a host that inherits what its children leave, as the first
// process of a container does, keeps no zombie of a tree that was released.
func TestOrphansAreReaped(t *testing.T) {
	_, r := launch(t, newLauncher(t, nil), "first")
	if what, left := r.method(t, 0); what != "zombies" || left != 0 {
		t.Errorf("%d %s are left", left, what)
	}
}

func init() { moreFakes["first"] = playFirst }

// playFirst is a host to which the kernel gives orphans. It ends a few children that
// leave some, and says how many zombies it has then.
func playFirst() {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	l, err := NewLauncher(Options{Parse: parse, Logs: inMemory()})
	if err != nil {
		panic(err)
	}
	for i := range 3 {
		p, err := l.Launch(spec("orphan"), uint64(i), newRecorder())
		if err != nil {
			panic(err)
		}
		<-p.Done()
		for p.TreeAlive() {
			p.Signal(messages.SignalKill)
		}
		p.Release()
	}
	r := NewRunner(nil)
	if _, err := r.Run(context.Background(), &Program{Path: "/bin/sh", Args: []string{"-c", "sleep 100 & sleep 0 & exit 0"}}); err != nil {
		panic(err)
	}
	fmt.Printf("{\"method\":\"zombies\",\"params\":{\"pid\":%d}}\n", zombies())
}

// zombies counts the children of this process that nobody waits for.
func zombies() int {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		panic(err)
	}
	n := 0
	for _, stat := range stats {
		text, _ := os.ReadFile(stat) // it may have gone meanwhile
		if _, rest, ok := strings.Cut(string(text), ") "); ok && strings.HasPrefix(rest, fmt.Sprintf("Z %d ", os.Getpid())) {
			n++
		}
	}
	return n
}
