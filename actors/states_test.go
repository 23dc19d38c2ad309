package actors

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// bench runs one real connection under a parent that only listens.
type bench struct {
	t    *testing.T
	f    *fakeLauncher
	sys  *kernel.System
	conn *kernel.PID
	c    *connection // that conn is; to be looked at while nothing happens
	rec  *messageRecorder
	done <-chan struct{}
	root *kernel.PID
	sent uint64 // by send
}

// messageRecorder keeps the records of one actor's messages too.
type messageRecorder struct {
	recorder
	mu      sync.Mutex
	records []kernel.Record
	changed chan struct{}
}

// Message implements kernel.Tracer.
func (m *messageRecorder) Message(r *kernel.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, *r)
	close(m.changed)
	m.changed = make(chan struct{})
}

// handled returns the record of the message that the test sent as its n-th (from 1).
func (m *messageRecorder) handled(n uint64) (kernel.Record, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.records {
		if r.From == theTest && r.Parent == n {
			return r, true
		}
	}
	return kernel.Record{}, false
}

// number is how many messages of a type an actor has handled.
func (m *messageRecorder) number(actor, msg string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, r := range m.records {
		if strings.HasSuffix(r.To, actor) && r.Type == msg {
			n++
		}
	}
	return n
}

type listener struct {
	spawn func(c *kernel.Context)
}

// Receive implements kernel.Actor.
func (l *listener) Receive(c *kernel.Context, msg any) {
	if _, ok := msg.(kernel.Started); ok {
		l.spawn(c)
	}
}

func newBench(t *testing.T, sc *script) *bench {
	t.Helper()
	b := &bench{t: t, f: newFakeLauncher(), sys: kernel.New(quiet()), rec: &messageRecorder{changed: make(chan struct{})}}
	b.sys.SetTracer(b.rec)
	b.f.scripts["a"] = sc
	ready := make(chan *kernel.PID, 1)
	deps := &connectionDeps{launcher: b.f, identity: newIdentity("test", "1"), asked: new(atomic.Uint64), starts: make(chan struct{}, 1), holding: func() bool { return false }, vet: func(*messages.Call) *messages.Error { return nil }, alone: func() bool { return true }, status: func(string) messages.Status { return messages.Status{} }, scrubError: func(err *messages.Error) *messages.Error { return err }}
	s := spec("a", nil)
	s.StopGrace = 10 * time.Millisecond
	var err error
	b.root, b.done, err = b.sys.SpawnRoot("parent", func() kernel.Actor {
		return &listener{spawn: func(c *kernel.Context) {
			deps.index = c.Self()
			b.c = newConnection(deps, s, 1, &supervision.Gauge{})
			pid, err := c.Spawn("conn", func() kernel.Actor { return b.c }, kernel.Inline())
			if err != nil {
				t.Error(err)
			}
			ready <- pid
		}}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.conn = <-ready
	t.Cleanup(b.close)
	return b
}

func (b *bench) close() {
	b.sys.Stop(b.root)
	limit := time.NewTimer(soon)
	defer limit.Stop()
	select {
	case <-b.done:
	case <-limit.C:
		b.t.Fatal("the actors do not stop")
	}
	b.f.eventually(b.t, "every child is released", func() bool {
		b.f.mu.Lock()
		links := append([]*fakeLink(nil), b.f.links...)
		b.f.mu.Unlock()
		for _, l := range links {
			l.mu.Lock()
			released := l.released
			l.mu.Unlock()
			if !released {
				return false
			}
		}
		return true
	})
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := b.sys.Shutdown(ctx); err != nil {
		b.t.Error(err)
	}
	b.rec.check(b.t)
}

// theTest is the sender of what the test itself sends.
const theTest = "test"

// send sends msg to the connection and returns the record of its handling. It is
// known by its sender: the child may have sent one of the same type just before.
func (b *bench) send(msg any) kernel.Record {
	b.t.Helper()
	b.sent++
	b.sys.SendFrom(kernel.Origin{Actor: theTest, Span: b.sent}, b.conn, msg)
	var r kernel.Record
	b.f.eventually(b.t, reflect.TypeOf(msg).Elem().Name()+" is handled", func() bool {
		var ok bool
		r, ok = b.rec.handled(b.sent)
		return ok
	})
	return r
}

// heard waits for the n-th message of a type at the parent.
func (b *bench) heard(msg string, n int) {
	b.t.Helper()
	b.f.eventually(b.t, "the parent hears "+msg, func() bool { return b.rec.number("parent", msg) >= n })
}

func (b *bench) call(do string) (*messages.Call, *port) {
	p := newPort()
	return &messages.Call{
		ID: lastCall.Add(1), Server: "a", Method: methodToolsCall, Tool: "do", Args: []byte(`{"do":"` + do + `"}`),
		Cancelled: &atomic.Bool{}, Reply: p,
	}, p
}

// What the test brings a connection into, by name.
var situations = map[string]struct {
	state  string
	script script
	enter  func(b *bench)
}{
	"fresh": {state: "IDLE", enter: func(*bench) {}},
	"connecting": {state: "CONNECTING", script: script{silent: []string{methodInitialize}}, enter: func(b *bench) {
		b.send(&messages.Connect{})
		b.f.eventually(b.t, "the child is greeted", func() bool { return len(b.f.lines("a", methodInitialize)) == 1 })
	}},
	"ready": {state: "IDLE", enter: func(b *bench) {
		b.send(&messages.Connect{})
		b.heard("ConnectionIdle", 1)
		b.send(&messages.Judged{Verdict: 1})
	}},
	"active": {state: "ACTIVE", enter: func(b *bench) {
		b.send(&messages.Connect{})
		b.heard("ConnectionIdle", 1)
		c, _ := b.call("silent")
		b.send(c)
	}},
	"failed": {state: "FAILED", script: script{diesOf: []string{methodInitialize}}, enter: func(b *bench) {
		b.send(&messages.Connect{})
		b.heard("ConnectionEnded", 1)
	}},
	"failed and ending": {state: "FAILED", script: script{refuse: []string{methodInitialize, methodDiscover}, stubborn: true}, enter: func(b *bench) {
		b.f.scripts["a"].holdKill = make(chan struct{})
		b.t.Cleanup(func() { close(b.f.scripts["a"].holdKill) })
		b.send(&messages.Connect{})
		b.heard("ConnectionFailed", 1)
	}},
	"closed": {state: "CLOSED", enter: func(b *bench) {
		b.send(&messages.Connect{})
		b.heard("ConnectionIdle", 1)
		b.send(&messages.Close{})
		b.heard("ConnectionClosed", 1)
	}},
}

// stale are messages of a run or an alarm that is over; none of them may do
// anything in any state.
func stale() []any {
	const other = 99
	return []any{
		&messages.Frame{Instance: other, ID: []byte("1"), Result: []byte("{}")},
		&messages.Cancel{Call: 1 << 40}, &deadlineDue{gen: other}, &pingDue{run: other}, &startupDue{run: other},
		&probeDue{run: other}, &listDue{run: other, id: 1}, &runLaunched{run: other}, &runEOF{run: other},
		&runExited{run: other, exit: &messages.Exit{}}, &exitDue{run: other}, &runTooLarge{run: other}, &runBroken{run: other},
		&ladderDue{run: other}, &runStep{run: other}, &runGone{run: other}, &brokeDue{}, &runNoise{run: other},
		&relistDue{run: other}, &listenDue{run: other}, &acknowledgeDue{run: other}, &messages.Judged{Verdict: other}, &judgeDue{verdict: other}, &verdictDue{verdict: other},
	}
}

// TestEveryMessageInEveryState sends every type of message to a connection in
// every state.
func TestEveryMessageInEveryState(t *testing.T) {
	const (
		refused  = "refused"  // counted and traced, nothing else
		waits    = "waits"    // the call is kept
		sent     = "sent"     // the call goes to the child
		returned = "returned" // the call goes back to the breaker
		nothing  = "nothing"
	)
	type effect struct{ after, what string }
	same := func(state, what string) effect { return effect{state, what} }
	table := map[string]map[string]effect{
		"fresh":             {"Connect": {"CONNECTING", nothing}, "Close": {"CLOSED", nothing}, "Call": same("IDLE", waits), "Relist": same("IDLE", nothing)},
		"connecting":        {"Connect": same("CONNECTING", refused), "Close": {"CLOSED", nothing}, "Call": same("CONNECTING", waits), "Relist": same("CONNECTING", nothing)},
		"ready":             {"Connect": same("IDLE", refused), "Close": {"CLOSED", nothing}, "Call": {"ACTIVE", sent}, "Relist": {"ACTIVE", nothing}},
		"active":            {"Connect": same("ACTIVE", refused), "Close": {"CLOSED", nothing}, "Call": same("ACTIVE", sent), "Relist": same("ACTIVE", nothing)},
		"failed":            {"Connect": {"CONNECTING", nothing}, "Close": {"CLOSED", nothing}, "Call": same("FAILED", returned), "Relist": same("FAILED", nothing)},
		"failed and ending": {"Connect": same("FAILED", refused), "Close": {"CLOSED", nothing}, "Call": same("FAILED", returned), "Relist": same("FAILED", nothing)},
		"closed":            {"Connect": same("CLOSED", refused), "Close": same("CLOSED", refused), "Call": same("CLOSED", returned), "Relist": same("CLOSED", nothing)},
	}
	for name, s := range situations {
		t.Run(name, func(t *testing.T) {
			sc := s.script
			b := newBench(t, &sc)
			s.enter(b)
			for _, m := range stale() {
				before := b.rec.count("refused", "")
				r := b.send(m)
				if r.Before != s.state || r.After != s.state {
					t.Errorf("%T took it from %s to %s", m, r.Before, r.After)
				}
				if b.rec.count("refused", "") != before {
					t.Errorf("%T was counted as refused", m)
				}
			}
		})
		for msg, want := range table[name] {
			t.Run(fmt.Sprintf("%s/%s", name, msg), func(t *testing.T) {
				sc := s.script
				b := newBench(t, &sc)
				s.enter(b)
				refusals, returns := b.rec.count("refused", ""), b.rec.number("parent", "CallReturned")
				calls := len(b.f.lines("a", methodToolsCall))
				call, p := b.call("silent")
				r := b.send(map[string]any{"Connect": &messages.Connect{}, "Close": &messages.Close{}, "Call": call, "Relist": &messages.Relist{}}[msg])
				if r.Before != s.state || r.After != want.after {
					t.Errorf("it went from %s to %s, want %s to %s", r.Before, r.After, s.state, want.after)
				}
				if got := b.rec.count("refused", "") - refusals; (got > 0) != (want.what == refused) {
					t.Errorf("%d refusals, want %s", got, want.what)
				}
				switch want.what {
				case returned:
					b.heard("CallReturned", returns+1)
				case sent:
					b.f.eventually(t, "the call reaches the child", func() bool { return len(b.f.lines("a", methodToolsCall)) > calls })
				}
				if p.answered() {
					t.Error("the call was answered")
				}
			})
		}
	}
}
