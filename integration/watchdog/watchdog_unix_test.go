//go:build unix

package watchdog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/watchdog"
)

const limit = 60 * time.Second

func running(pid int) bool {
	_, ok := proctree.StartTime(pid)
	return ok
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", limit, what)
		}
	}
}

var hosts struct {
	sync.Mutex
	n int
}

// play starts a host with children; its death is the test's business.
func play(t *testing.T, state string) (c cast, host *exec.Cmd) {
	t.Helper()
	hosts.Lock()
	hosts.n++
	id := fmt.Sprintf("test%d-%d", os.Getpid(), hosts.n)
	hosts.Unlock()
	host = exec.Command(os.Args[0])
	host.Env = append(os.Environ(), partVar+"=host", stateVar+"="+state, hostID+"="+id)
	host.Stderr = os.Stderr
	stdin, err := host.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = host.Process.Kill()
		_ = host.Wait()
		for _, pid := range append(c.Children, c.Runaways...) {
			if running(pid) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	if err := json.NewDecoder(out).Decode(&c); err != nil {
		t.Fatal(err)
	}
	for _, pid := range append([]int{c.Host, c.Watchdog}, append(c.Children, c.Runaways...)...) {
		if !running(pid) {
			t.Fatalf("process %d of %+v does not run", pid, c)
		}
	}
	return c, host
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func (c cast) gone() bool {
	for _, pid := range append(c.Children, c.Runaways...) {
		if running(pid) {
			return false
		}
	}
	return true
}

func TestHostKilled(t *testing.T) {
	state := t.TempDir()
	c, host := play(t, state)
	// A terminal's Ctrl-C and a polite end must not take it away before.
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if err := syscall.Kill(c.Watchdog, sig); err != nil {
			t.Fatal(err)
		}
	}
	kill(t, c.Host)
	_ = host.Wait()
	began := time.Now()
	eventually(t, "children and runaways are gone", c.gone)
	t.Logf("gone %v after the host", time.Since(began).Round(time.Millisecond))
	eventually(t, "the watchdog is gone", func() bool { return !running(c.Watchdog) })
	// The journal is left; there is nothing to do for it but to go.
	ended, err := watchdog.EndLeftovers(state)
	if err != nil || len(ended) != 0 {
		t.Errorf("EndLeftovers = %v, %v after a watchdog did its work", ended, err)
	}
	if left := journals(t, state); len(left) != 0 {
		t.Errorf("journals left: %v", left)
	}
}

func TestBothKilled(t *testing.T) {
	state := t.TempDir()
	c, host := play(t, state)
	if ended, err := watchdog.EndLeftovers(state); err != nil || len(ended) != 0 || c.gone() {
		t.Fatalf("EndLeftovers = %v, %v while the host lives", ended, err)
	}
	// The host must not have the time to replace the watchdog.
	if err := syscall.Kill(c.Host, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	kill(t, c.Watchdog)
	kill(t, c.Host)
	_ = host.Wait()
	if c.gone() {
		t.Fatal("the children ended by themselves: nothing is tested")
	}
	path := journals(t, state)[0]
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Broken lines, and a reused number: this very process.
	_, err = fmt.Fprintf(f, "add\nadd 1 1 x\nadd -5 3 x\nnonsense\n\x00\xff\nadd %d 1 other.1\nadd 99", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	ended, err := watchdog.EndLeftovers(state)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "children and runaways are gone", c.gone)
	want := len(c.Children)
	if runtime.GOOS == "linux" {
		want += len(c.Runaways)
	}
	if len(ended) < want || ended[0].Host != c.Host {
		t.Errorf("ended %v, want at least %d of host %d", ended, want, c.Host)
	}
	if left := journals(t, state); len(left) != 0 {
		t.Errorf("journals left: %v", left)
	}
}

func TestWatchdogReplaced(t *testing.T) {
	c, host := play(t, "")
	kill(t, c.Watchdog)
	var next int
	eventually(t, "a new watchdog", func() bool {
		next = childNamed(t, c.Host, c.Watchdog)
		return next != 0
	})
	kill(t, c.Host)
	_ = host.Wait()
	eventually(t, "children and runaways are gone", c.gone)
	eventually(t, "the new watchdog is gone", func() bool { return !running(next) })
}

// childNamed finds a child of host that is in a session of its own and is not
// other: a watchdog.
func childNamed(t *testing.T, host, other int) int {
	t.Helper()
	snap, err := proctree.Scan(^uint64(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range snap {
		if p.PPID == host && p.PID != other && p.Group == p.PID && p.Session == p.PID {
			return p.PID
		}
	}
	return 0
}

func journals(t *testing.T, state string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(state, "run", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestGoodbye: a clean end leaves no process, no journal and no goroutine, and
// the compaction keeps the journal small on the way.
func TestGoodbye(t *testing.T) {
	state := t.TempDir()
	var failures []error
	h := watchdog.New(watchdog.Options{HostID: "goodbye", StateDir: state, Report: func(err error) { failures = append(failures, err) }})
	if h.PID() != 0 || len(journals(t, state)) != 0 {
		t.Error("something was started before the first tree")
	}
	const far = 1 << 30 // no process has such a number
	h.Add(far, 1, "goodbye.0")
	dog := h.PID()
	if dog == 0 || !running(dog) {
		t.Fatalf("no watchdog runs: %v", failures)
	}
	for i := range 5000 {
		h.Add(far+1+i, 1, "goodbye.1")
		h.Remove(far+1+i, 1)
	}
	info, err := os.Stat(journals(t, state)[0])
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 64<<10 {
		t.Errorf("the journal has %d bytes for one tree", info.Size())
	}
	text, err := os.ReadFile(journals(t, state)[0])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "add "+strconv.Itoa(far)+" 1 goodbye.0\n") {
		t.Error("the tree is no longer in the journal")
	}
	h.Remove(far, 1)
	h.Close()
	h.Close()
	h.Add(far, 1, "x")
	h.Ready()
	if running(dog) || len(journals(t, state)) != 0 {
		t.Error("the watchdog or the journal is left after the goodbye")
	}
	if len(failures) != 0 {
		t.Errorf("reported: %v", failures)
	}
}

// manyTrees puts so many trees on record, and takes them off again, that the
// journal is compacted on the way.
func manyTrees(h *watchdog.Host) {
	const far, enough = 1 << 30, 600
	for i := range enough {
		h.Add(far+i, 1, "many.1")
		h.Remove(far+i, 1)
	}
}

// TestCompactedJournalNamesTheWatchdog: the next host must know whom to leave the
// children to, however many there were.
func TestCompactedJournalNamesTheWatchdog(t *testing.T) {
	state := t.TempDir()
	h := watchdog.New(watchdog.Options{HostID: "compacted", StateDir: state, Report: func(err error) { t.Error(err) }})
	defer h.Close()
	h.Ready()
	manyTrees(h)
	text, err := os.ReadFile(journals(t, state)[0])
	if err != nil {
		t.Fatal(err)
	}
	const most = 400 // lines
	if n := strings.Count(string(text), "\n"); n > most {
		t.Fatalf("the journal has %d lines: it was not compacted, nothing is tested", n)
	}
	if want := fmt.Sprintf("\ndog %d ", h.PID()); !strings.Contains(string(text), want) {
		t.Errorf("the compacted journal lacks %q:\n%.300s", want, text)
	}
}

// TestJournalThatCannotBeCompacted goes on with the file that it has, and says
// so once.
func TestJournalThatCannotBeCompacted(t *testing.T) {
	state := t.TempDir()
	var failures []error
	h := watchdog.New(watchdog.Options{HostID: "stays", StateDir: state, Report: func(err error) { failures = append(failures, err) }})
	h.Ready()
	path := journals(t, state)[0]
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	manyTrees(h)
	const last = 1<<30 + 5000
	h.Add(last, 1, "stays.1")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\nadd %d 1 stays.1\n", last); !strings.Contains(string(text), want) {
		t.Errorf("the journal lacks %q", want)
	}
	h.Remove(last, 1)
	h.Close()
	if len(failures) != 1 {
		t.Errorf("%d failures were reported, want one: %v", len(failures), failures)
	}
}

// TestHostsOfOneProcess: each has a journal of its own, which stays when the other ends.
func TestHostsOfOneProcess(t *testing.T) {
	state := t.TempDir()
	const far = 1 << 30 // no process has such a number
	var hosts []*watchdog.Host
	for i := range 2 {
		id := fmt.Sprintf("twin%d", i)
		h := watchdog.New(watchdog.Options{HostID: id, StateDir: state, Report: func(err error) { t.Error(err) }})
		t.Cleanup(h.Close)
		h.Add(far+i, 1, id+".1")
		hosts = append(hosts, h)
	}
	defer hosts[0].Remove(far, 1)
	hosts[1].Remove(far+1, 1)
	hosts[1].Close()
	list := journals(t, state)
	if len(list) != 1 {
		t.Fatalf("the journals %q", list)
	}
	text, err := os.ReadFile(list[0])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), " twin0 ") || !strings.Contains(string(text), fmt.Sprintf("add %d 1 twin0.1\n", far)) || strings.Contains(string(text), "twin1") {
		t.Errorf("the journal is %q", text)
	}
}

// TestJournalOnAFullDisk: what could not be written is written once that is possible,
// first of all whose the journal is.
func TestJournalOnAFullDisk(t *testing.T) {
	const far = 1 << 30 // no process has such a number
	for name, next := range map[string]struct {
		put  func(*watchdog.FullDisk) error
		want []string
	}{
		"a watchdog": {
			func(d *watchdog.FullDisk) error { return d.WatchedBy(far, 1) },
			[]string{"host", fmt.Sprintf("dog %d 1", far)},
		},
		"a tree": {
			func(d *watchdog.FullDisk) error { return d.Add(far+1, 1, "full.2") },
			[]string{"host", fmt.Sprintf("add %d 1 full.1", far), fmt.Sprintf("add %d 1 full.2", far+1)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := watchdog.NewFullDisk(t.TempDir(), "full")
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			if d.Add(far, 1, "full.1") == nil {
				t.Fatal("there is room")
			}
			if err := errors.Join(d.Room(), next.put(d)); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(d.Path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			slices.Sort(lines[1:])
			if !strings.HasPrefix(lines[0], fmt.Sprintf("host %d ", os.Getpid())) {
				t.Errorf("the first line is %q", lines[0])
			}
			if lines[0] = "host"; !slices.Equal(lines, next.want) {
				t.Errorf("the journal is %q", lines)
			}
		})
	}
}

// TestReady: journal and watchdog are there before anything was put on record,
// however many ask for them at once.
func TestReady(t *testing.T) {
	state := t.TempDir()
	var failures []error
	h := watchdog.New(watchdog.Options{HostID: "ready", StateDir: state, Report: func(err error) { failures = append(failures, err) }})
	defer h.Close()
	dogs := make([]int, 20)
	var wg sync.WaitGroup
	for i := range dogs {
		wg.Go(func() {
			h.Ready()
			dogs[i] = h.PID()
		})
	}
	wg.Wait()
	for _, dog := range dogs {
		if dog == 0 || dog != dogs[0] || !running(dog) {
			t.Fatalf("the watchdogs are %v, reported was %v; want one that runs", dogs, failures)
		}
	}
	text, err := os.ReadFile(journals(t, state)[0])
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), fmt.Sprintf("host %d ", os.Getpid())) || !strings.Contains(string(text), " ready ") {
		t.Errorf("the journal does not name the host: %q", text)
	}
}

// TestReadyWaitsForTheNextWatchdog: whoever starts a process while a dead
// watchdog is to be replaced gets the next one, however long the pauses between
// the replacements have become.
func TestReadyWaitsForTheNextWatchdog(t *testing.T) {
	h := watchdog.New(watchdog.Options{HostID: "next"})
	defer h.Close()
	h.Ready()
	for range 12 {
		dog := h.PID()
		kill(t, dog)
		eventually(t, "the death is noticed", func() bool { return h.PID() != dog })
		h.Ready()
		if next := h.PID(); next == 0 || next == dog || !running(next) {
			t.Fatalf("watchdog %d after %d was killed", next, dog)
		}
	}
}

// TestStarvedWatchdog: one that takes nothing any more is ended before its pipe ends,
// from which it would learn that this host is gone.
func TestStarvedWatchdog(t *testing.T) {
	h := watchdog.New(watchdog.Options{HostID: "starved"})
	defer h.Close()
	h.Ready()
	dog := h.PID()
	if err := syscall.Kill(dog, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	pipe, err := h.Control()
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	defer work.Wait()
	held, let := make(chan struct{}), make(chan struct{})
	defer close(let)
	work.Go(func() {
		if err := pipe.Control(func(uintptr) { close(held); <-let }); err != nil {
			t.Error(err)
		}
	})
	<-held
	work.Go(func() {
		for running(dog) {
			manyTrees(h)
		}
	})
	eventually(t, "the watchdog is ended while its pipe is open", func() bool { return !running(dog) })
}

func TestUnwritableState(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var failures []error
	h := watchdog.New(watchdog.Options{HostID: "u", StateDir: file, Report: func(err error) { failures = append(failures, err) }})
	h.Add(1<<30, 1, "u.1")
	if h.PID() == 0 || len(failures) != 1 {
		t.Errorf("watchdog %d, reported %v; want a watchdog without a journal", h.PID(), failures)
	}
	h.Remove(1<<30, 1)
	h.Close()
}

// TestNoWatchdog: programs that do not exist or are none are reported, again
// and again, and hold nobody up.
func TestNoWatchdog(t *testing.T) {
	for _, path := range []string{"/no/such/program", "/bin/true"} {
		t.Run(filepath.Base(path), func(t *testing.T) { noWatchdog(t, path) })
	}
}

func noWatchdog(t *testing.T, path string) {
	reported := make(chan error, 100)
	h := watchdog.New(watchdog.Options{HostID: "n", Executable: path, Report: func(err error) {
		select {
		case reported <- err:
		default:
		}
	}})
	h.Ready()
	h.Add(1<<30, 1, "n.1")
	for range 10 {
		h.Ready() // without a watchdog, and without waiting for a later try
	}
	for range 2 { // the first try and a later one
		select {
		case err := <-reported:
			if err == nil {
				t.Error("nil was reported")
			}
		case <-time.After(limit):
			t.Fatal("nothing was reported")
		}
	}
	h.Close()
}

func TestEndLeftoversOfNothing(t *testing.T) {
	if ended, err := watchdog.EndLeftovers(filepath.Join(t.TempDir(), "none")); err != nil || len(ended) != 0 {
		t.Errorf("EndLeftovers = %v, %v", ended, err)
	}
}

// BenchmarkReady is what the watchdog adds to the start of the first child.
func BenchmarkReady(b *testing.B) {
	for b.Loop() {
		h := watchdog.New(watchdog.Options{HostID: "bench", StateDir: b.TempDir()})
		h.Ready()
		b.StopTimer()
		h.Close()
		b.StartTimer()
	}
}
