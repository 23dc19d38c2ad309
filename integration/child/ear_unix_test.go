//go:build unix

package child

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/messages"
)

// limit is how long a test waits for anything before it fails.
const limit = 60 * time.Second

// recorder is an Ear that remembers everything.
type recorder struct {
	mu      sync.Mutex
	change  chan struct{}
	frames  []*messages.Frame
	noise   []string
	large   []string
	broken  []string
	flushes int
	eof     []error
	exits   []*messages.Exit
	late    int // frames and noise after EOF
	early   int // exits before EOF
}

func newRecorder() *recorder { return &recorder{change: make(chan struct{}, 1)} }

func (r *recorder) note(f func()) {
	r.mu.Lock()
	f()
	r.mu.Unlock()
	select {
	case r.change <- struct{}{}:
	default:
	}
}

func (r *recorder) Frame(f *messages.Frame) {
	r.note(func() {
		r.frames = append(r.frames, f)
		if len(r.eof) > 0 {
			r.late++
		}
	})
}
func (r *recorder) Flush()            { r.note(func() { r.flushes++ }) }
func (r *recorder) Noise(line []byte) { r.note(func() { r.noise = append(r.noise, string(line)) }) }
func (r *recorder) TooLarge(id json.RawMessage) {
	r.note(func() { r.large = append(r.large, string(id)) })
}
func (r *recorder) Broken(id json.RawMessage, line []byte, why error) {
	r.note(func() { r.broken = append(r.broken, fmt.Sprintf("%s: %s: %v", id, line, why)) })
}
func (r *recorder) EOF(err error) { r.note(func() { r.eof = append(r.eof, err) }) }
func (r *recorder) Exited(e *messages.Exit) {
	r.note(func() {
		r.exits = append(r.exits, e)
		if len(r.eof) == 0 {
			r.early++
		}
	})
}

// until waits for a condition on what was recorded.
func (r *recorder) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		r.mu.Lock()
		done := ok()
		r.mu.Unlock()
		if done {
			return
		}
		select {
		case <-r.change:
		case <-deadline.C:
			r.mu.Lock()
			state := fmt.Sprintf("%d frames, noise %q, eof %v, exits %v", len(r.frames), r.noise, r.eof, r.exits)
			r.mu.Unlock()
			t.Fatalf("no %s: %s", what, state)
		}
	}
}

func (r *recorder) method(t testing.TB, i int) (method string, pid int) {
	t.Helper()
	r.until(t, "frame", func() bool { return len(r.frames) > i })
	r.mu.Lock()
	defer r.mu.Unlock()
	var p struct{ PID int }
	if f := r.frames[i]; f.Params != nil {
		_ = json.Unmarshal(f.Params, &p)
	}
	return r.frames[i].Method, p.PID
}

func (r *recorder) exit(t testing.TB) *messages.Exit {
	t.Helper()
	r.until(t, "exit", func() bool { return len(r.exits) > 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exits[0]
}

// once checks what must hold for every process that was released.
func (r *recorder) once(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.eof) != 1 || len(r.exits) != 1 || r.late != 0 || r.early != 0 {
		t.Errorf("EOF %d times, Exited %d times, %d frames after EOF, %d exits before EOF; want 1, 1, 0, 0",
			len(r.eof), len(r.exits), r.late, r.early)
	}
}

func parse(line []byte, f *messages.Frame) error {
	var m struct {
		ID, Params, Result, Error json.RawMessage
		Method                    string
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	f.ID, f.Method, f.Params, f.Result, f.Error = m.ID, m.Method, m.Params, m.Result, m.Error
	return nil
}

// inMemory keeps the last lines of children, with all that is in them.
func inMemory() *childlog.Folder { return childlog.NewFolder("", childlog.Options{}) }

func newLauncher(t testing.TB, change func(o *Options)) *Launcher {
	t.Helper()
	o := Options{Parse: parse, Logs: inMemory()}
	if change != nil {
		change(&o)
	}
	l, err := NewLauncher(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func spec(mode string) *messages.ServerSpec {
	return &messages.ServerSpec{
		Name: "fake-" + mode, Command: os.Args[0],
		Env: []string{fakeVar + "=" + mode, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "GOMAXPROCS=1"},
	}
}

// launch starts a fake and sees to its end.
func launch(t testing.TB, l *Launcher, mode string, change ...func(s *messages.ServerSpec)) (*Process, *recorder) {
	t.Helper()
	r := newRecorder()
	s := spec(mode)
	for _, f := range change {
		f(s)
	}
	p, err := l.Launch(s, 1, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Release()
		r.once(t)
	})
	return p, r
}

// eventually polls a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", limit, what)
		}
		<-tick.C
	}
}

func running(pid int) bool {
	_, ok := proctree.StartTime(pid)
	return ok
}
