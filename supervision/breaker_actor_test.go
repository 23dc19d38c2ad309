package supervision_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// soon bounds the wait for what must happen; it says nothing about speed.
const soon = 20 * time.Second

// stage is a pool with its breakers, and connections that only listen: the
// test plays what they would say.
type stage struct {
	t    *testing.T
	sys  *kernel.System
	pool *kernel.PID
	dir  *supervision.Directory
	fail atomic.Bool // SpawnConnection fails
	// closing, where it is set before the first message, is what a connection does when
	// it is closed; turned is what it does when it is to turn calls away.
	closing func()
	turned  func(*messages.TurnAway)
	last    atomic.Pointer[messages.Call] // that a connection was given

	mu     sync.Mutex
	conns  map[string]*kernel.PID // "server#instance"
	gauges map[string]*supervision.Gauge
	heard  []string // "server#instance Type", and "warning: …"
}

type stageConn struct {
	s    *stage
	name string
}

// Receive implements kernel.Actor.
func (c *stageConn) Receive(ctx *kernel.Context, msg any) {
	var what string
	switch m := msg.(type) {
	case *messages.Connect:
		what = "Connect"
	case *messages.Close:
		if what = "Close"; c.s.closing != nil {
			c.s.closing()
		}
	case *messages.Call:
		what = "Call"
		c.s.last.Store(m)
	case *messages.Relist:
		what = "Relist"
	case *messages.ReturnCalls:
		what = "ReturnCalls"
	case *messages.Finish:
		what = "Finish"
	case *messages.Cancel:
		what = "Cancel"
	case *messages.TurnAway:
		if what = "TurnAway"; c.s.turned != nil {
			c.s.turned(m)
		}
	case string:
		ctx.Stop(ctx.Self())
		return
	default:
		return
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.heard = append(c.s.heard, c.name+" "+what)
}

func newStage(t *testing.T, change func(s *supervision.PoolSettings)) *stage {
	t.Helper()
	s := &stage{t: t, sys: kernel.New(slog.New(slog.NewTextHandler(io.Discard, nil))), dir: &supervision.Directory{}, conns: map[string]*kernel.PID{}, gauges: map[string]*supervision.Gauge{}}
	set := supervision.PoolSettings{Pool: config(20), FailureThreshold: 2, Cooldown: time.Hour}
	if change != nil {
		change(&set)
	}
	pool, done, err := s.sys.SpawnRoot("pool", supervision.NewPoolActor(&supervision.PoolDeps{Directory: s.dir, Breakers: &supervision.BreakerDeps{
		Era:    func(*messages.ServerSpec) messages.Era { return messages.EraUnknown },
		Random: func() float64 { return 0 },
		Open:   func(uint64) bool { return true },
		Scrub:  func(err *messages.Error) *messages.Error { return err },
		Warn: func(msg string, _ ...any) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.heard = append(s.heard, "warning: "+msg)
		},
		SpawnConnection: func(ctx *kernel.Context, spec *messages.ServerSpec, instance uint64, gauge *supervision.Gauge) (*kernel.PID, error) {
			if s.fail.Load() {
				return nil, errors.New("no more actors")
			}
			name := spec.Name + "#" + strconv.FormatUint(instance, 10)
			pid, err := ctx.Spawn("conn#"+strconv.FormatUint(instance, 10), func() kernel.Actor { return &stageConn{s, name} }, kernel.Inline())
			s.mu.Lock()
			defer s.mu.Unlock()
			s.conns[name], s.gauges[name] = pid, gauge
			return pid, err
		},
	}}, set), nil, kernel.Inline())
	if err != nil {
		t.Fatal(err)
	}
	s.pool = pool
	t.Cleanup(func() {
		s.sys.Stop(pool)
		limit := time.NewTimer(soon)
		defer limit.Stop()
		select {
		case <-done:
		case <-limit.C:
			t.Error("the actors do not stop")
		}
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := s.sys.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *stage) add(names ...string) {
	var specs []*messages.ServerSpec
	for _, n := range names {
		specs = append(specs, &messages.ServerSpec{Name: n, MaxInstances: 1, Retry: messages.RetrySafe, Timeout: time.Second})
	}
	s.sys.Send(s.pool, &supervision.AddServers{Specs: specs})
}

func (s *stage) breaker(server string) *kernel.PID {
	s.t.Helper()
	e, ok := s.dir.Lookup(server)
	if !ok {
		s.t.Fatalf("no server %s", server)
	}
	return e.Breaker
}

// say plays a connection's message to its breaker.
func (s *stage) say(server string, msg any) { s.sys.Send(s.breaker(server), msg) }

func (s *stage) count(line string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, h := range s.heard {
		if h == line {
			n++
		}
	}
	return n
}

func (s *stage) until(what string, ok func() bool) {
	s.t.Helper()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			s.mu.Lock()
			heard := slices.Clone(s.heard)
			s.mu.Unlock()
			s.t.Fatalf("it never happened: %s; heard %v", what, heard)
		}
	}
}

func (s *stage) hears(line string, n int) {
	s.t.Helper()
	s.until(line, func() bool { return s.count(line) >= n })
}

func (s *stage) stats() supervision.PoolStats {
	reply := make(chan supervision.PoolReport, 1)
	s.sys.Send(s.pool, &supervision.InspectPool{Reply: reply})
	return (<-reply).PoolStats
}

type answers chan *messages.Answer

// Answer implements messages.ReplyPort.
func (a answers) Answer(x *messages.Answer) { a <- x }

type contacts chan *messages.Error

// Contacted implements messages.ContactPort.
func (c contacts) Contacted(_ uint64, err *messages.Error) { c <- err }

var calls atomic.Uint64

func (s *stage) call(server string, change ...func(*messages.Call)) (*messages.Call, answers) {
	port := make(answers, 4)
	c := &messages.Call{ID: calls.Add(1), Server: server, Tool: "t", Cancelled: &atomic.Bool{}, Reply: port}
	for _, f := range change {
		f(c)
	}
	s.say(server, c)
	return c, port
}

func take[T any](s *stage, c <-chan T) T {
	s.t.Helper()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C:
		s.t.Fatal("no answer")
	}
	panic("not reached")
}

// idle brings instance 1 of a server to where it has nothing to do.
func (s *stage) idle(server string) {
	s.t.Helper()
	others := s.stats().Idle
	port := make(contacts, 1)
	s.say(server, &messages.Contact{ID: 1, Reply: port})
	s.hears(server+"#1 Connect", 1)
	s.say(server, &messages.ConnectionReady{Instance: 1})
	s.say(server, &messages.Cataloged{Server: server, Instance: 1})
	if err := take(s, port); err != nil {
		s.t.Fatal(err)
	}
	s.say(server, &messages.ConnectionIdle{Instance: 1})
	s.until("the pool sees it idle", func() bool { return s.stats().Idle == others+1 })
}

func TestOldNewsOfIdlenessIsIgnored(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	s.call("a")
	s.hears("a#1 Call", 1)
	s.say("a", &messages.ConnectionIdle{Instance: 1}) // sent before it got the call
	if st := s.stats(); st.Busy != 1 {
		t.Errorf("pool %+v, want it busy", st)
	}
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1, Answered: 1})
	if st := s.stats(); st.Idle != 1 {
		t.Errorf("pool %+v, want it idle", st)
	}
}

// TestACallDuringAListingShows: whoever looks is not told that the server is idle while
// a call is with a child that lists its tools anew.
func TestACallDuringAListingShows(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	s.say("a", &messages.Contact{ID: 2, Refresh: true, Reply: make(contacts, 1)})
	s.hears("a#1 Relist", 1)
	s.call("a")
	s.hears("a#1 Call", 1)
	e, _ := s.dir.Lookup("a")
	if st := e.Status(); st.State != messages.StateActive {
		t.Errorf("it is %s with a call in flight", supervision.StateName(st.State))
	}
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1, Answered: 1})
	s.until("it is idle again", func() bool { return e.Status().State == messages.StateIdle })
}

// What is said of a connection of a removed server, by its number, is not said of one
// of the server that has the name now.
func TestAServerThatComesBackGoesOnCounting(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	old := s.breaker("a")
	s.sys.Send(s.pool, &supervision.RemoveServers{Names: []string{"a"}, Drain: time.Hour})
	s.hears("a#1 Close", 1)
	s.add("a")
	s.say("a", &messages.Contact{ID: 1, Reply: make(contacts, 1)})
	s.hears("a#2 Connect", 1)
	s.sys.Send(old, &messages.ConnectionClosed{Instance: 1})

	old = s.breaker("a")
	s.sys.Send(s.pool, &supervision.RemoveServers{Names: []string{"a"}})
	s.hears("a#2 Close", 1)
	s.sys.Send(old, &messages.ConnectionClosed{Instance: 2})
	s.until("nothing is left of it", func() bool { return s.stats().Live == 0 })
	s.add("a")
	s.say("a", &messages.Contact{ID: 2, Reply: make(contacts, 1)})
	s.hears("a#3 Connect", 1)
}

// TestManyAreRemovedAtOnce: the directory is copied once, whoever is not there or is
// named twice, and each of the servers ends.
func TestManyAreRemovedAtOnce(t *testing.T) {
	s := newStage(t, nil)
	s.add("a", "b", "c", "d")
	s.idle("a")
	s.idle("b")
	left := map[string]*kernel.PID{"a": s.breaker("a"), "b": s.breaker("b")}
	before := s.dir.Version()
	s.sys.Send(s.pool, &supervision.RemoveServers{Names: []string{"a", "b", "b", "nobody", "c"}, Drain: time.Hour})
	if n := s.dir.Version() - before; n != 1 {
		t.Errorf("the directory was replaced %d times", n)
	}
	if names := s.dir.Names(); !slices.Equal(names, []string{"d"}) {
		t.Errorf("left are %v", names)
	}
	for name, breaker := range left {
		s.hears(name+"#1 Close", 1)
		s.sys.Send(breaker, &messages.ConnectionClosed{Instance: 1})
	}
	s.until("nothing is left of them", func() bool { return s.stats().Live == 0 })
	before = s.dir.Version()
	s.sys.Send(s.pool, &supervision.RemoveServers{Names: []string{"a"}})
	if s.dir.Version() != before {
		t.Error("nothing was removed, and the directory was replaced")
	}
}

// looking takes the answer to a contact by what it finds at that moment.
type looking func(err *messages.Error)

// Contacted implements messages.ContactPort.
func (l looking) Contacted(_ uint64, err *messages.Error) { l(err) }

// TestWhoHearsOfAFailureFindsIt: the status is not behind what callers were
// told.
func TestWhoHearsOfAFailureFindsIt(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	found := make(chan messages.Status, 1)
	s.say("a", &messages.Contact{ID: 1, Reply: looking(func(*messages.Error) {
		e, _ := s.dir.Lookup("a")
		found <- e.Status()
	})})
	s.hears("a#1 Connect", 1)
	s.say("a", &messages.ConnectionFailed{Instance: 1, Evidence: messages.Evidence{Exit: &messages.Exit{Code: 3}}})
	if st := take(s, found); st.State != messages.StateFailed || st.LastError == nil {
		t.Errorf("it finds %+v, want it failed and the error", st)
	}
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Close", 1)
	s.say("a", &messages.ConnectionClosed{Instance: 1})
}

// TestLostWhileItListedAnew is a connection that the breaker takes for idle
// and that was not: it goes to FAILED and waits to be told what next.
func TestLostWhileItListedAnew(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Close", 1)
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	if st := s.stats(); st.Live != 0 {
		t.Errorf("pool %+v, want the place free", st)
	}
}

func TestTerminatedConnection(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	port := make(contacts, 1)
	s.say("a", &messages.Contact{ID: 1, Reply: port})
	s.hears("a#1 Connect", 1)
	s.sys.Send(s.conns["a#1"], "stop")
	if err := take(s, port); err == nil || err.Code != messages.CodeConnection {
		t.Errorf("the contact heard %v", err)
	}
	if st := s.stats(); st.Live != 0 {
		t.Errorf("pool %+v, want the place free", st)
	}
	s.call("a")
	s.hears("a#2 Connect", 1)
}

// TestTerminatedConnectionOpensTheBreaker as any other failure does, and everybody hears
// of that and of the end of the cooldown.
func TestTerminatedConnectionOpensTheBreaker(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold, p.Cooldown = 1, 20*time.Millisecond })
	s.add("a")
	s.say("a", &messages.Contact{ID: 1, Reply: make(contacts, 1)})
	s.hears("a#1 Connect", 1)
	s.sys.Send(s.conns["a#1"], "stop")
	s.until("the cooldown ends", func() bool { return s.state("a") == "half-open" })
	if e, _ := s.dir.Lookup("a"); e.Counts().Opened != 1 {
		t.Errorf("counts are %+v", e.Counts())
	}
}

func TestEvictionOfABusyOneIsRefused(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.Pool.Size = 1 })
	s.add("a", "b")
	s.idle("a")
	s.call("a")
	s.say("a", &messages.Evict{Lease: 1, Reason: "test"}) // crossed the call
	s.call("b")
	if s.count("a#1 Close") != 0 {
		t.Error("a busy connection was closed")
	}
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1, Answered: 1})
	s.hears("a#1 Close", 1)
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	s.hears("b#1 Connect", 1)
}

func TestContactAsksAgainWhereTheListingFailed(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	first := make(contacts, 1)
	s.say("a", &messages.Contact{ID: 1, Reply: first})
	s.hears("a#1 Connect", 1)
	s.say("a", &messages.ConnectionReady{Instance: 1})
	s.say("a", &messages.ListingFailed{Instance: 1, Sent: time.Now()})
	if take(s, first) == nil {
		t.Error("a failed listing is no answer")
	}
	s.say("a", &messages.ConnectionIdle{Instance: 1})
	second := make(contacts, 1)
	s.say("a", &messages.Contact{ID: 2, Reply: second})
	s.hears("a#1 Relist", 1)
	s.say("a", &messages.Cataloged{Server: "a", Instance: 1})
	if err := take(s, second); err != nil {
		t.Error(err)
	}
}

func TestHeldCallsKeepTheirDeadline(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	s.call("a")
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	_, port := s.call("a", func(c *messages.Call) { c.Deadline = time.Now().Add(20 * time.Millisecond) })
	if a := take(s, port); a.Err == nil || a.Err.Code != messages.CodeExecutionTimeout {
		t.Errorf("answer %+v", a)
	}
	patient, other := s.call("a")
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Connect", 2)
	s.hears("a#1 Call", 2)
	if len(other) != 0 || len(port) != 0 {
		t.Errorf("call %d was answered, or one twice", patient.ID)
	}
}

func TestCancelledProbeThatWasHeld(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold, p.Cooldown = 1, 10*time.Millisecond })
	s.add("a")
	s.idle("a")
	s.call("a")
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	state := func() string { e, _ := s.dir.Lookup("a"); return e.Status().Breaker }
	s.until("the cooldown ends", func() bool { return state() == "half-open" })
	probe, port := s.call("a") // held until the dying instance is gone
	probe.Cancelled.Store(true)
	s.say("a", &messages.Cancel{Call: probe.ID})
	if a := take(s, port); a.Err.Code != messages.CodeCancelled {
		t.Errorf("answer %+v", a.Err)
	}
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	_, next := s.call("a")
	s.hears("a#2 Connect", 1)
	if len(next) != 0 {
		t.Errorf("the next probe was refused: %+v", (<-next).Err)
	}
}

// TestTimedOutProbeThatWasHeld: another may take its place while the instance is dying
// still.
func TestTimedOutProbeThatWasHeld(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold, p.Cooldown = 1, 10*time.Millisecond })
	s.add("a")
	s.idle("a")
	s.call("a")
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	s.until("the cooldown ends", func() bool { return s.state("a") == "half-open" })
	_, port := s.call("a", func(c *messages.Call) { c.Deadline = time.Now().Add(10 * time.Millisecond) })
	if a := take(s, port); a.Err == nil || a.Err.Code != messages.CodeExecutionTimeout {
		t.Errorf("answer %+v", a)
	}
	_, next := s.call("a")
	if len(next) != 0 {
		t.Fatalf("the next probe was refused: %+v", (<-next).Err)
	}
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Call", 2)
}

// TestContactThatWasTheProbe: the call for whose sake the tools were asked for is the
// next one, also where the child lists them anew at once and so is not idle.
func TestContactThatWasTheProbe(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold, p.Cooldown = 1, 10*time.Millisecond })
	s.add("a")
	failed, listed := make(contacts, 1), make(contacts, 1)
	s.say("a", &messages.Contact{ID: 1, Reply: failed})
	s.say("a", &messages.ConnectionFailed{Instance: 1, Evidence: messages.Evidence{EOF: true}})
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	if take(s, failed) == nil {
		t.Error("a failed start is no answer")
	}
	s.until("the cooldown ends", func() bool { return s.state("a") == "half-open" })
	s.say("a", &messages.Contact{ID: 2, Reply: listed})
	s.hears("a#2 Connect", 1)
	s.say("a", &messages.ConnectionReady{Instance: 2})
	s.say("a", &messages.Cataloged{Server: "a", Instance: 2})
	if err := take(s, listed); err != nil {
		t.Fatal(err)
	}
	probe, port := s.call("a")
	_, next := s.call("a")
	s.hears("a#2 Call", 1)
	if a := take(s, next); a.Err == nil || a.Err.Code != messages.CodeCircuitOpen {
		t.Errorf("the call beside the probe: %+v", a)
	}
	s.say("a", &messages.ProbeOver{Call: probe.ID, Answered: true})
	if st := s.state("a"); st != "closed" || len(port) != 0 {
		t.Errorf("it is %s after the probe was answered", st)
	}
}

// TestProbeThatComesBack from a connection that was no longer there is the probe still.
func TestProbeThatComesBack(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold, p.Cooldown = 1, 10*time.Millisecond })
	s.add("a")
	s.idle("a")
	s.call("a")
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.say("a", &messages.ConnectionClosed{Instance: 1})
	s.until("the cooldown ends", func() bool { return s.state("a") == "half-open" })
	probe, port := s.call("a")
	s.hears("a#2 Call", 1)
	s.say("a", &messages.CallReturned{Instance: 2, Call: probe})
	s.hears("a#2 Call", 2)
	s.say("a", &messages.ProbeOver{Call: probe.ID, Answered: true})
	if st := s.state("a"); st != "closed" || len(port) != 0 {
		t.Errorf("it is %s after the probe was answered", st)
	}
}

func TestNoConnectionCanBeMade(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.fail.Store(true)
	_, port := s.call("a")
	if a := take(s, port); a.Err == nil || a.Err.Code != messages.CodeConnection {
		t.Errorf("answer %+v", a)
	}
	contact := make(contacts, 1)
	s.say("a", &messages.Contact{ID: 1, Reply: contact})
	if take(s, contact) == nil {
		t.Error("the contact heard of success")
	}
}

func TestCallsReturnedAreGivenAnew(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	call, port := s.call("a")
	s.say("a", &messages.ConnectionFailed{
		Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true},
		Returned: []messages.ReturnedCall{{Call: call, Written: false}},
	})
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Call", 2)
	again := *call
	again.Attempt = 1
	s.say("a", &messages.ConnectionFailed{
		Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true},
		Returned: []messages.ReturnedCall{{Call: &again, Written: true}},
	})
	a := take(s, port)
	if a.Err == nil || a.Err.Code != messages.CodeToolExecution || !strings.Contains(a.Err.Message, "unknown") {
		t.Errorf("answer %+v", a)
	}
}

// TestACallThatNoChildHasSeen waits for its turn at one lost child after the other, and
// is repeated once a child that has it is lost. What is said of it in the end depends on
// whether one had it alone.
func TestACallThatNoChildHasSeen(t *testing.T) {
	for name, tt := range map[string]struct {
		idempotent bool
		written    []bool // in turn; after that it is lost unwritten until it is answered
		given      int    // how often
		code       messages.Code
		said       bool // that it may have been carried out
	}{
		"unseen":                   {false, nil, 5, messages.CodeCircuitOpen, false},
		"seen by the third":        {false, []bool{false, false, true}, 3, messages.CodeToolExecution, true},
		"repeated after others":    {true, []bool{false, false, true, true}, 4, messages.CodeToolExecution, true},
		"seen, then always unseen": {true, []bool{true}, 5, messages.CodeCircuitOpen, true},
	} {
		t.Run(name, func(t *testing.T) {
			quickly(t, func(t *testing.T) {
				s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 5 })
				s.add("a")
				s.idle("a")
				_, port := s.call("a", func(c *messages.Call) { c.Idempotent = tt.idempotent })
				n, given := uint64(1), 0
				for ; len(port) == 0 && given < 100; given++ {
					at := "a#" + strconv.FormatUint(n, 10)
					s.hears(at+" Connect", 1)
					s.until("it is given to "+at, func() bool { return s.last.Load() != nil })
					s.say("a", &messages.ConnectionReady{Instance: n})
					call := s.last.Swap(nil)
					s.say("a", &messages.ConnectionFailed{
						Instance: n, Started: true, Evidence: messages.Evidence{EOF: true},
						Returned: []messages.ReturnedCall{{Call: call, Written: given < len(tt.written) && tt.written[given]}},
					})
					s.say("a", &messages.ConnectionEnded{Instance: n})
					if s.count(at+" Close") > 0 { // it is to wait before it is started again
						s.say("a", &messages.ConnectionClosed{Instance: n})
						n++
					}
				}
				a := take(s, port)
				if a.Err == nil || a.Err.Code != tt.code || (strings.Contains(a.Err.Message, "may have been") || strings.Contains(a.Err.Message, "unknown")) != tt.said {
					t.Errorf("answer %+v", a.Err)
				}
				if given != tt.given {
					t.Errorf("it was given to a child %d times, want %d", given, tt.given)
				}
			})
		})
	}
}

// TestACallIsNotRepeatedForEver: a server that answers others between its ends is never
// given up, and the call is.
func TestACallIsNotRepeatedForEver(t *testing.T) {
	quickly(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.add("a")
		s.idle("a")
		_, port := s.call("a")
		given := 0
		for ; len(port) == 0 && given < 1000; given++ {
			s.until("it is given to a child", func() bool { return s.last.Load() != nil })
			call := s.last.Swap(nil)
			s.say("a", &messages.ConnectionReady{Instance: 1})
			s.say("a", &messages.FirstSuccess{Instance: 1})
			s.say("a", &messages.ConnectionFailed{
				Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}, Returned: []messages.ReturnedCall{{Call: call}},
			})
			s.say("a", &messages.ConnectionEnded{Instance: 1})
		}
		if a := take(s, port); a.Err == nil || strings.Contains(a.Err.Message, "may have been") || !a.Err.Retryable {
			t.Errorf("answer %+v", a.Err)
		}
		if given < 10 || given > 100 {
			t.Errorf("it was given to a child %d times", given)
		}
	})
}

// A call that was lost with its child and could not be repeated is told as one
// that may have been carried out, and may be repeated only where it is harmless.
func TestCallsThatCannotBeRepeated(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		s := newStage(t, nil)
		s.add("a")
		s.idle("a")
		call, port := s.call("a")
		lost := *call
		lost.Attempt, lost.Begun, lost.Idempotent = 1, true, idempotent
		refused := messages.Evidence{Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, Remote: true}
		s.say("a", &messages.ConnectionFailed{Instance: 1, Evidence: refused, Returned: []messages.ReturnedCall{{Call: &lost}}})
		a := take(s, port)
		if a.Err == nil || !strings.Contains(a.Err.Message, "may have been carried out") || !strings.Contains(a.Err.Message, "connection refused") || a.Err.Retryable != idempotent {
			t.Errorf("idempotent %v: %+v", idempotent, a.Err)
		}
	}
}

func TestThousandsOfServersAndTheirEnd(t *testing.T) {
	s := newStage(t, nil)
	var names []string
	for i := range 2000 {
		names = append(names, "s/"+strconv.Itoa(i)+" ~ä")
	}
	s.add(names...)
	if n := len(s.dir.Names()); n != len(names) {
		t.Fatalf("%d servers in the directory, want %d", n, len(names))
	}
	done := make(chan struct{})
	s.sys.Send(s.pool, &supervision.Shutdown{Deadline: time.Now(), Done: done})
	take(s, done)
	// What comes after the end changes nothing and is answered.
	s.sys.Send(s.pool, &supervision.RemoveServers{Names: []string{names[0]}})
	s.sys.Send(s.pool, &supervision.ChangeServer{Spec: &messages.ServerSpec{Name: "new"}})
	s.add("newer")
	again := make(chan struct{})
	s.sys.Send(s.pool, &supervision.Shutdown{Deadline: time.Now(), Done: again})
	take(s, again)
	if n := len(s.dir.Names()); n != len(names) {
		t.Errorf("%d servers in the directory, want %d", n, len(names))
	}
}

// TestAnEphemeralServerThatIsStartedAgain for its tools alone waits for its first call as
// one that was never lost.
func TestAnEphemeralServerThatIsStartedAgain(t *testing.T) {
	s := newStage(t, nil)
	s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{{Name: "a", MaxInstances: 1, Lifecycle: messages.LifecycleEphemeral}}})
	s.call("a")
	s.say("a", &messages.ConnectionReady{Instance: 1})
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	port := make(contacts, 1)
	s.say("a", &messages.Contact{ID: 1, Reply: port})
	s.say("a", &messages.ConnectionEnded{Instance: 1})
	s.hears("a#1 Connect", 2)
	s.say("a", &messages.ConnectionReady{Instance: 1})
	s.say("a", &messages.Cataloged{Server: "a", Instance: 1})
	if err := take(s, port); err != nil {
		t.Error(err)
	}
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 1})
	if s.count("a#1 Close") != 0 {
		t.Error("it is ended before the call that wanted its tools")
	}
}
