package actors

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// chaos is one drawn scenario: some servers that misbehave, and several
// goroutines that call, cancel, crash, reload and at last shut down.
type chaos struct {
	pool    supervision.PoolConfig
	thresh  int
	servers []chaosServer
	workers [][]step
	drain   time.Duration
	midway  bool // close while the workers are at it
}

type chaosServer struct {
	life         messages.LifecycleMode
	instances    int
	retry        messages.RetryPolicy
	startFaults  int // of 10 starts
	sendPanics   int // of 1000 lines
	backlogs     int // of 1000 lines
	modern       bool
	stubborn     bool
	slow         time.Duration
	startTimeout time.Duration
}

type step struct {
	kind    int
	server  int
	tool    int
	do      int
	timeout time.Duration
	within  time.Duration
	cancel  bool
}

var (
	chaosTools = []string{"do", "read", "twice", "nothere", "typed"}
	chaosDeeds = []string{"", "", "", "delay", "delay", "silent", "die", "answerdie", "iserror", "rpcerror", "late", "twice", "progress", "changed", "ask", "empty"}
)

// Kinds of steps.
const (
	stepCall = iota // most of them
	stepContact
	stepCrash
	stepReload
	stepRemove
	stepConfigure
	stepPause
	stepKinds
)

func drawChaos(t *rapid.T) *chaos {
	ms := func(from, to int, label string) time.Duration {
		return time.Duration(rapid.IntRange(from, to).Draw(t, label)) * time.Millisecond
	}
	c := &chaos{
		pool: supervision.PoolConfig{
			Size: rapid.IntRange(1, 3).Draw(t, "size"), Reserve: rapid.IntRange(0, 1).Draw(t, "reserve"),
			ReserveAfter: ms(1, 10, "reserveAfter"), IdleTimeout: ms(5, 200, "idle"),
			AcquireTimeout: ms(5, 300, "acquire"), MaxWaiters: rapid.IntRange(1, 10).Draw(t, "maxWaiters"),
		},
		thresh: rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "threshold"),
		drain:  ms(0, 60, "drain"),
		midway: rapid.Bool().Draw(t, "midway"),
	}
	for range rapid.IntRange(1, 4).Draw(t, "servers") {
		c.servers = append(c.servers, chaosServer{
			life:         rapid.SampledFrom([]messages.LifecycleMode{"", "", messages.LifecycleEphemeral, messages.LifecycleKeepAlive}).Draw(t, "life"),
			instances:    rapid.IntRange(1, 2).Draw(t, "instances"),
			retry:        rapid.SampledFrom([]messages.RetryPolicy{messages.RetrySafe, messages.RetryAlways, messages.RetryNever}).Draw(t, "retry"),
			startFaults:  rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "startFaults"),
			sendPanics:   rapid.SampledFrom([]int{0, 0, 0, 20, 100}).Draw(t, "sendPanics"),
			backlogs:     rapid.SampledFrom([]int{0, 0, 30}).Draw(t, "backlogs"),
			modern:       rapid.Bool().Draw(t, "modern"),
			stubborn:     rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "stubborn"),
			slow:         ms(0, 20, "slow"),
			startTimeout: ms(15, 100, "startTimeout"),
		})
	}
	for range rapid.IntRange(2, 8).Draw(t, "workers") {
		n := rapid.IntRange(1, 25).Draw(t, "steps")
		steps := make([]step, n)
		for i := range steps {
			s := &steps[i]
			if s.kind = rapid.IntRange(0, 3*stepKinds).Draw(t, "kind"); s.kind >= stepKinds {
				s.kind = stepCall
			}
			s.server = rapid.IntRange(0, len(c.servers)-1).Draw(t, "server")
			s.tool = rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4}).Draw(t, "tool")
			s.do = rapid.IntRange(0, len(chaosDeeds)-1).Draw(t, "do")
			s.timeout = ms(1, 40, "timeout")
			if rapid.Bool().Draw(t, "hasDeadline") {
				s.within = ms(1, 100, "within")
			}
			s.cancel = rapid.IntRange(0, 3).Draw(t, "cancel") == 0
		}
		c.workers = append(c.workers, steps)
	}
	return c
}

// chance is true n times of of.
func chance(n, of int) bool { return n > 0 && rand.IntN(of) < n }

func (s chaosServer) script() *script {
	return &script{
		modern: s.modern, stubborn: s.stubborn, slow: s.slow, strict: true,
		launch: func(int) error {
			if chance(s.startFaults, 30) {
				return errors.New("it does not start")
			}
			if chance(s.startFaults, 60) {
				return syscall.EMFILE
			}
			if chance(s.startFaults, 100) {
				panic("the launcher breaks")
			}
			return nil
		},
		panics: func([]byte) bool { return chance(s.sendPanics, 1000) },
		backlog: func(line []byte) bool {
			return chance(s.backlogs, 1000) && !bytes.Contains(line, []byte(methodInitialized))
		},
	}
}

func (c *chaos) spec(i int, hash string) *messages.ServerSpec {
	s := c.servers[i]
	return &messages.ServerSpec{
		Name: "s" + strconv.Itoa(i), Transport: messages.TransportStdio, Command: "fake", Hash: hash,
		Timeout: 30 * time.Millisecond, MaxTimeout: 60 * time.Millisecond, StartupTimeout: s.startTimeout,
		StopGrace: 20 * time.Millisecond, MaxInstances: s.instances, Retry: s.retry, Lifecycle: s.life,
	}
}

// contactPort counts what a contact hears.
type contactPort struct {
	n    atomic.Int32
	done chan struct{}
	err  *messages.Error // once it is done
}

// Contacted implements messages.ContactPort.
func (p *contactPort) Contacted(_ uint64, err *messages.Error) {
	if p.n.Add(1) == 1 {
		p.err = err
		close(p.done)
	}
}

// world is a chaos while it runs.
type world struct {
	c   *chaos
	f   *fakeLauncher
	e   *Engine
	rec *recorder

	reload sync.Mutex // one configuration at a time, as in the host
	specs  map[string]*messages.ServerSpec
	hashes int

	mu       sync.Mutex
	calls    []*pendingCall
	bounded  []*pendingCall // of calls, those with a deadline; afterwards it belongs to whoever has the call
	contacts []*contactPort
}

func (w *world) set() supervision.PoolSettings {
	return supervision.PoolSettings{Pool: w.c.pool, FailureThreshold: w.c.thresh, Cooldown: 10 * time.Millisecond}
}

func (w *world) apply(c Change) {
	for _, s := range w.specs {
		c.All = append(c.All, s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_ = w.e.Apply(ctx, c) // it is refused after Close, which is no fault
}

// client is one goroutine of a scenario, with a session of its own or without.
type client struct {
	w       *world
	session *Session
	mu      sync.Mutex
	ports   []*port
}

func (w *world) client(withSession bool) *client {
	c := &client{w: w}
	if withSession {
		c.open()
	}
	return c
}

func (c *client) open() { c.session, _ = c.w.e.OpenSession(c.flush) } // nil after Close: without, then

func (c *client) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.ports {
		p.Flush()
	}
}

func (c *client) call(call *messages.Call, p *port) {
	if c.session == nil {
		c.w.e.Call(call)
		return
	}
	c.mu.Lock()
	c.ports = append(c.ports, p)
	c.mu.Unlock()
	c.session.Call(call)
}

func (c *client) cancel(call *messages.Call) {
	const why = "the test changed its mind"
	if c.session == nil {
		c.w.e.Cancel(call, why)
		return
	}
	c.session.Cancel(call.ID, why)
}

// renew closes the session with whatever is in flight and opens another.
func (c *client) renew() {
	if c.session != nil {
		c.session.Close()
		c.open()
	}
}

func (w *world) run(s step, cl *client) {
	name := "s" + strconv.Itoa(s.server)
	switch s.kind {
	case stepCall:
		p := newPort()
		call := &messages.Call{
			ID: lastCall.Add(1), Server: name, Method: methodToolsCall, Tool: chaosTools[s.tool],
			Args:    []byte(`{"do":"` + chaosDeeds[s.do] + `","ms":3,"n":3}`),
			Timeout: s.timeout, Cancelled: &atomic.Bool{}, Reply: p, Progress: p,
		}
		if s.within > 0 {
			call.Deadline = time.Now().Add(s.within)
		}
		if rand.IntN(4) == 0 {
			call.Burst = new(messages.Burst)
			defer call.Burst.End()
		}
		pc := &pendingCall{p, call}
		w.mu.Lock()
		w.calls = append(w.calls, pc)
		if s.within > 0 {
			w.bounded = append(w.bounded, pc)
		}
		w.mu.Unlock()
		cl.call(call, p)
		if s.cancel {
			pause(time.Duration(rand.IntN(8)) * time.Millisecond)
			cl.cancel(call)
		}
	case stepContact:
		p := &contactPort{done: make(chan struct{})}
		w.mu.Lock()
		w.contacts = append(w.contacts, p)
		w.mu.Unlock()
		w.e.Contact(name, s.cancel, p)
	case stepCrash:
		for _, l := range w.f.living(name) {
			l.crash()
		}
	case stepReload:
		w.reload.Lock()
		defer w.reload.Unlock()
		old, there := w.specs[name]
		if there && s.cancel {
			next := *old
			next.Lifecycle = []messages.LifecycleMode{messages.LifecycleDefault, messages.LifecycleEphemeral, messages.LifecycleKeepAlive}[s.tool%3]
			next.MaxInFlight, next.IdleTimeout = s.tool, s.timeout
			w.specs[name] = &next
			w.apply(Change{Updated: []*messages.ServerSpec{&next}})
			return
		}
		w.hashes++
		fresh := w.c.spec(s.server, "h"+strconv.Itoa(w.hashes))
		w.specs[name] = fresh
		if there {
			w.apply(Change{Changed: []*messages.ServerSpec{fresh}})
		} else {
			w.apply(Change{Added: []*messages.ServerSpec{fresh}})
		}
	case stepRemove:
		w.reload.Lock()
		defer w.reload.Unlock()
		if _, there := w.specs[name]; there {
			delete(w.specs, name)
			w.apply(Change{Removed: []string{name}, Drain: s.timeout})
		}
	case stepConfigure:
		w.reload.Lock()
		defer w.reload.Unlock()
		set := w.set()
		set.Pool.IdleTimeout = s.timeout
		set.Pool.MaxWaiters = 1 + s.tool
		w.apply(Change{Settings: &set})
	case stepPause:
		pause(s.timeout / 2)
		if s.cancel {
			cl.renew()
		}
	}
}

// pause spaces the steps of a scenario; nothing is awaited by it.
func pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

func TestEveryCallIsAnsweredOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { runChaos(rt, drawChaos(rt)) })
}

func runChaos(t *rapid.T, c *chaos) {
	w := &world{c: c, f: newFakeLauncher(), specs: map[string]*messages.ServerSpec{}}
	var all []*messages.ServerSpec
	for i := range c.servers {
		s := c.spec(i, "h0")
		w.f.scripts[s.Name] = c.servers[i].script()
		w.specs[s.Name] = s
		all = append(all, s)
	}
	rec := &recorder{}
	e, err := NewEngine(Options{
		Launcher: w.f, Settings: w.set(), CatalogSweep: time.Hour, Name: "test", Version: "1", Log: quiet(), MaxStarts: 2,
		GaveUp: func(reason any) { t.Errorf("the root gave up: %v", reason) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.e, w.rec = e, rec
	e.sys.SetTracer(rec)
	w.apply(Change{Added: all})

	var wg sync.WaitGroup
	for i, steps := range c.workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			cl := w.client(i%2 == 0)
			for _, s := range steps {
				w.run(s, cl)
			}
		}()
	}
	if !c.midway {
		wg.Wait()
		w.overdue(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := e.Close(ctx, time.Now().Add(c.drain)); err != nil {
		t.Fatalf("close: %v; history:\n%s", err, rec.history(""))
	}
	wg.Wait()
	w.answered(t)
	rapidCheck(t, w, rec)
}

// overdue waits for the calls that have a deadline: they must not need a
// shutdown to be answered.
func (w *world) overdue(t *rapid.T) {
	limit := time.NewTimer(soon)
	defer limit.Stop()
	for _, pc := range w.bounded {
		select {
		case <-pc.first:
		case <-limit.C:
			t.Fatalf("call %d of %s (%s) is long past its deadline and has no answer; tool %s; history:\n%s", pc.call.ID, pc.call.Server, pc.call.Args, pc.call.Tool, w.rec.history(pc.call.Server))
		}
	}
}

func (w *world) answered(t *rapid.T) {
	limit := time.NewTimer(soon)
	defer limit.Stop()
	for _, pc := range w.calls {
		select {
		case <-pc.first:
		case <-limit.C:
			t.Fatalf("call %d of %s (%s) got no answer though everything is over; tool %s; history:\n%s", pc.call.ID, pc.call.Server, pc.call.Args, pc.call.Tool, w.rec.history(pc.call.Server))
		}
	}
	for _, p := range w.contacts {
		select {
		case <-p.done:
		case <-limit.C:
			t.Fatalf("a contact got no answer though everything is over")
		}
	}
	for _, pc := range w.calls {
		if n := pc.count(); n != 1 {
			t.Errorf("call %d of %s (%s) got %d answers", pc.call.ID, pc.call.Server, pc.call.Args, n)
		}
		if pc.holds() {
			t.Errorf("call %d of %s (%s) holds its answer back for ever", pc.call.ID, pc.call.Server, pc.call.Args)
		}
	}
	for _, p := range w.contacts {
		if n := p.n.Load(); n != 1 {
			t.Errorf("a contact got %d answers", n)
		}
	}
}

func rapidCheck(t *rapid.T, w *world, rec *recorder) {
	w.f.check(t)
	rec.check(t)
	if limit := w.c.pool.Size + w.c.pool.Reserve; w.f.most > limit {
		t.Errorf("%d children were alive at the same time, with room for %d", w.f.most, limit)
	}
}
