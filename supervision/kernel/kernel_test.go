package kernel_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/supervision/kernel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon bounds the wait for what must happen; it says nothing about speed.
const soon = 20 * time.Second

// fn is an actor made of one function.
type fn func(c *kernel.Context, msg any)

func (f fn) Receive(c *kernel.Context, msg any) { f(c, msg) }

func produce(f func(c *kernel.Context, msg any)) func() kernel.Actor {
	return func() kernel.Actor { return fn(f) }
}

// house is a system with a root that is stopped when the test ends.
type house struct {
	*kernel.System
	t    testing.TB
	stop []func()
}

func newHouse(t testing.TB) *house {
	h := &house{System: kernel.New(slog.New(slog.NewTextHandler(io.Discard, nil))), t: t}
	t.Cleanup(func() {
		for _, stop := range h.stop {
			stop()
		}
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *house) root(name string, produce func() kernel.Actor, giveUp func(any), opts ...kernel.Option) (*kernel.PID, <-chan struct{}) {
	h.t.Helper()
	pid, done, err := h.SpawnRoot(name, produce, giveUp, opts...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.stop = append(h.stop, func() {
		h.Stop(pid)
		await(h.t, done, name+" stops")
	})
	return pid, done
}

func await[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	select {
	case v := <-c:
		return v
	case <-limit.C:
		t.Fatalf("it never happened: %s", what)
	}
	panic("not reached")
}

// journal collects lines from actors.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

type ping struct{ done chan struct{} }

func TestLifecycleOrder(t *testing.T) {
	for name, opts := range map[string][]kernel.Option{"goroutine": nil, "inline": {kernel.Inline()}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			var j journal
			log := func(who string) func(c *kernel.Context, msg any) {
				return func(_ *kernel.Context, msg any) { j.add("%s %T", who, msg) }
			}
			pid, done := h.root("r", produce(func(c *kernel.Context, msg any) {
				if p, ok := msg.(*ping); ok {
					close(p.done)
				}
				log("parent")(c, msg)
				if _, ok := msg.(kernel.Started); ok {
					if _, err := c.Spawn("child", produce(log("child")), opts...); err != nil {
						t.Error(err)
					}
				}
			}), nil, opts...)
			p := &ping{make(chan struct{})}
			h.Send(pid, p)
			await(t, p.done, "the ping is handled")
			h.Stop(pid)
			await(t, done, "the root stops")
			got := j.all()
			childStarted := slices.Index(got, "child kernel.Started")
			if childStarted < 0 {
				t.Fatalf("the child never started: %v", got)
			}
			// With a goroutine of its own the child starts whenever it likes.
			got = slices.Delete(got, childStarted, childStarted+1)
			want := []string{
				"parent kernel.Started", "parent *kernel_test.ping", "parent kernel.Stopping",
				"child kernel.Stopping", "child kernel.Stopped", "parent kernel.Terminated", "parent kernel.Stopped",
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestInlineRunsOnTheSendersGoroutine(t *testing.T) {
	h := newHouse(t)
	handled := 0 // not synchronised: the race detector would see a goroutine
	pid, _ := h.root("r", produce(func(_ *kernel.Context, msg any) {
		if _, ok := msg.(*ping); ok {
			handled++
		}
	}), nil, kernel.Inline())
	for i := range 10 {
		h.Send(pid, &ping{})
		if handled != i+1 {
			t.Fatalf("message %d was not handled when Send returned", i)
		}
	}
}

func TestOneMessageAtATime(t *testing.T) {
	for name, opts := range map[string][]kernel.Option{"goroutine": nil, "inline": {kernel.Inline()}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			const senders, each = 16, 500
			var inside atomic.Int32
			all := make(chan struct{})
			handled := 0 // guarded by the mailbox alone
			last := map[int]int{}
			type numbered struct{ sender, n int }
			pid, _ := h.root("r", produce(func(_ *kernel.Context, msg any) {
				m, ok := msg.(numbered)
				if !ok {
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two messages at a time")
				}
				if last[m.sender] != m.n {
					t.Errorf("sender %d: message %d came where %d was due", m.sender, m.n, last[m.sender])
				}
				last[m.sender]++
				handled++
				inside.Add(-1)
				if handled == senders*each {
					close(all)
				}
			}), nil, opts...)
			for s := range senders {
				go func() {
					for n := range each {
						h.Send(pid, numbered{s, n})
					}
				}()
			}
			await(t, all, "all messages are handled")
		})
	}
}

// TestTimers runs in a time of its own: on a busy machine two timers that are due at
// different times may be heard in either order.
func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { <-time.After(time.Minute) }) // protoactor watches its dead letters for a while
		h := newHouse(t)
		got := make(chan string, 8)
		begun := time.Now()
		pid, _ := h.root("r", produce(func(c *kernel.Context, msg any) {
			switch m := msg.(type) {
			case kernel.Started:
				c.After(30*time.Millisecond, "late")
				c.After(time.Millisecond, "early")
				stopped := c.After(10*time.Millisecond, "never")
				stopped.Stop()
				var none *kernel.Timer
				none.Stop()
			case string:
				got <- fmt.Sprint(m, " after ", time.Since(begun))
			}
		}), nil)
		for _, want := range []string{"early after 1ms", "late after 30ms"} {
			if m := await(t, got, want); m != want {
				t.Errorf("%q came where %q was due", m, want)
			}
		}
		h.After(time.Millisecond, pid, "from outside")
		if m := await(t, got, "the timer"); m != "from outside after 31ms" {
			t.Errorf("got %q", m)
		}
	})
}

func TestShutdownWaitsForWorkers(t *testing.T) {
	s := kernel.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	ended, release := make(chan struct{}), make(chan struct{})
	caught := make(chan any, 1)
	s.Go(func(ctx context.Context) {
		<-ctx.Done()
		<-release
		close(ended)
	}, nil)
	s.Go(func(context.Context) { panic("ouch") }, func(reason any) { caught <- reason })
	s.Go(func(context.Context) { panic("nobody hears it") }, nil)
	if r := await(t, caught, "the panic is caught"); r != "ouch" {
		t.Errorf("reason %v", r)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(over); err == nil {
		t.Error("Shutdown with an ended context did not report the worker that still ran")
	}
	close(release)
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("Shutdown returned before the worker had ended")
	}
}

// TestWorkersAskedForWhileTheSystemShutsDown: each either runs, and is waited
// for, or hears that it was refused.
func TestWorkersAskedForWhileTheSystemShutsDown(t *testing.T) {
	for range 50 {
		s := kernel.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
		const callers, each = 4, 50
		var ran, refused atomic.Int32
		var asking sync.WaitGroup
		begin := make(chan struct{})
		for range callers {
			asking.Go(func() {
				<-begin
				for range each {
					s.Go(func(context.Context) { ran.Add(1) }, func(reason any) {
						if reason != any(kernel.ErrShutDown) {
							t.Errorf("refused for %v", reason)
						}
						refused.Add(1)
					})
				}
			})
		}
		close(begin)
		ctx, cancel := context.WithTimeout(context.Background(), soon)
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		before := ran.Load()
		asking.Wait()
		if after := ran.Load(); after != before || after+refused.Load() != callers*each {
			t.Fatalf("%d ran before Shutdown returned and %d after it, %d were refused; want %d in all, none after", before, after-before, refused.Load(), callers*each)
		}
	}
}

// counter panics on "panic" and tells how many messages this incarnation saw.
type counter struct {
	n int
}

func (k *counter) Receive(_ *kernel.Context, msg any) {
	switch m := msg.(type) {
	case string:
		panic(m)
	case chan int:
		k.n++
		m <- k.n
	}
}

func TestPanicDirectives(t *testing.T) {
	for name, tc := range map[string]struct {
		directive kernel.Directive
		want      int // what the counter says after it was at 1; 0: it is gone
	}{
		"resume keeps the state": {kernel.Resume, 2},
		"restart forgets it":     {kernel.Restart, 1},
		"stop ends it":           {kernel.Stop, 0},
	} {
		for inline, opts := range map[string][]kernel.Option{"goroutine": nil, "inline": {kernel.Inline()}} {
			t.Run(name+"/"+inline, func(t *testing.T) {
				h := newHouse(t)
				child, gone := make(chan *kernel.PID, 1), make(chan string, 1)
				decided := make(chan string, 1)
				h.root("r", produce(func(c *kernel.Context, msg any) {
					switch m := msg.(type) {
					case kernel.Started:
						pid, err := c.Spawn("child", func() kernel.Actor { return &counter{} }, opts...)
						if err != nil {
							t.Error(err)
						}
						child <- pid
					case kernel.Terminated:
						gone <- m.Who.Id
					}
				}), nil, kernel.Supervise(func(who string, reason any) kernel.Directive {
					decided <- fmt.Sprint(who, ": ", reason)
					return tc.directive
				}))
				pid := await(t, child, "the child is there")
				count := make(chan int, 1)
				h.Send(pid, count)
				await(t, count, "it counts")
				h.Send(pid, "ouch")
				if got := await(t, decided, "its supervisor decides"); got != "child: ouch" {
					t.Errorf("the supervisor heard %q", got)
				}
				if tc.want == 0 {
					if who := await(t, gone, "the parent hears of its end"); who != pid.Id {
						t.Errorf("%s ended, want %s", who, pid.Id)
					}
					return
				}
				h.Send(pid, count)
				if got := await(t, count, "it goes on"); got != tc.want {
					t.Errorf("it counts %d, want %d", got, tc.want)
				}
			})
		}
	}
}

func TestEscalationReachesTheGrandparent(t *testing.T) {
	h := newHouse(t)
	decided, ready := make(chan string, 1), make(chan *kernel.PID, 1)
	h.root("r", produce(func(c *kernel.Context, msg any) {
		if _, ok := msg.(kernel.Started); !ok {
			return
		}
		_, err := c.Spawn("middle", produce(func(c *kernel.Context, msg any) {
			if _, ok := msg.(kernel.Started); ok {
				pid, err := c.Spawn("leaf", func() kernel.Actor { return &counter{} })
				if err != nil {
					t.Error(err)
				}
				ready <- pid
			}
		}), kernel.Supervise(func(string, any) kernel.Directive { return kernel.Escalate }))
		if err != nil {
			t.Error(err)
		}
	}), nil, kernel.Supervise(func(who string, reason any) kernel.Directive {
		decided <- fmt.Sprint(who, ": ", reason)
		return kernel.Stop
	}))
	h.Send(await(t, ready, "the leaf is there"), "ouch")
	if got := await(t, decided, "the grandparent decides"); got != "middle: ouch" {
		t.Errorf("it heard %q", got)
	}
}

func TestRootGivesUpOnce(t *testing.T) {
	t.Run("its own panic", func(t *testing.T) {
		h := newHouse(t)
		reasons := make(chan any, 4)
		pid, done := h.root("r", func() kernel.Actor { return &counter{} }, func(reason any) { reasons <- reason })
		h.Send(pid, "ouch")
		if r := await(t, reasons, "it gives up"); r != "ouch" {
			t.Errorf("reason %v", r)
		}
		await(t, done, "it stops")
		if len(reasons) != 0 {
			t.Error("it gave up twice")
		}
	})
	t.Run("an escalated one", func(t *testing.T) {
		h := newHouse(t)
		reasons := make(chan any, 4)
		ready := make(chan *kernel.PID, 1)
		_, done := h.root("r", produce(func(c *kernel.Context, msg any) {
			if _, ok := msg.(kernel.Started); ok {
				pid, err := c.Spawn("child", func() kernel.Actor { return &counter{} })
				if err != nil {
					t.Error(err)
				}
				ready <- pid
			}
		}), func(reason any) { reasons <- reason }, kernel.Supervise(func(string, any) kernel.Directive { return kernel.Escalate }))
		h.Send(await(t, ready, "the child is there"), "ouch")
		await(t, reasons, "the root gives up")
		await(t, done, "it stops")
		if len(reasons) != 0 {
			t.Error("it gave up twice")
		}
	})
}

func TestDeadLetters(t *testing.T) {
	h := newHouse(t)
	lost := make(chan any, 16)
	h.OnUndelivered(func(msg any) { lost <- msg })
	pid, done := h.root("r", produce(func(*kernel.Context, any) {}), nil)
	h.Stop(pid)
	await(t, done, "it stops")
	h.Send(pid, "one")
	if m := await(t, lost, "the message is reported"); m != "one" {
		t.Errorf("got %v", m)
	}
	h.SetTracer(&tape{})
	h.Send(pid, "two") // comes out of its envelope
	if m := await(t, lost, "the message is reported"); m != "two" {
		t.Errorf("got %v", m)
	}
	h.Send(nil, "three")
	if m := await(t, lost, "the message is reported"); m != "three" {
		t.Errorf("got %v", m)
	}
	if n := h.DeadLetters(); n != 3 {
		t.Errorf("%d dead letters, want 3", n)
	}
}

// TestContain: what somebody else's code panics with is told and ends there, and
// neither the actor nor who sends to one that is gone has to do with it.
func TestContain(t *testing.T) {
	h := newHouse(t)
	told := &tape{}
	h.SetTracer(told)
	went := make(chan int, 3)
	pid, done := h.root("r", produce(func(c *kernel.Context, msg any) {
		if i, ok := msg.(int); ok {
			c.Contain(func() { panic("the port breaks") })
			c.Contain(func() { went <- i })
			went <- i
		}
	}), func(reason any) { t.Errorf("the actor gave up: %v", reason) })
	h.Send(pid, 7)
	for range 2 {
		if i := await(t, went, "it goes on"); i != 7 {
			t.Errorf("got %d", i)
		}
	}
	h.Stop(pid)
	await(t, done, "it stops")
	h.OnUndelivered(func(any) { panic("who is told breaks") })
	h.Send(pid, 8)
	told.mu.Lock()
	defer told.mu.Unlock()
	want := []string{"r the port breaks ResumeDirective", "r who is told breaks ResumeDirective"}
	if !slices.Equal(told.failures, want) {
		t.Errorf("told %q, want %q", told.failures, want)
	}
}

type news struct{}

func (news) Transient() {}

// TestTransientMessages: what means nothing to a stopped actor is not lost, but
// what has no receiver at all is.
func TestTransientMessages(t *testing.T) {
	h := newHouse(t)
	lost := make(chan any, 16)
	h.OnUndelivered(func(msg any) { lost <- msg })
	pid, done := h.root("r", produce(func(*kernel.Context, any) {}), nil)
	h.Stop(pid)
	await(t, done, "it stops")
	h.Send(pid, news{})
	h.SetTracer(&tape{})
	h.Send(pid, news{}) // in an envelope
	h.Send(pid, "marker")
	if m := await(t, lost, "the marker is reported"); m != "marker" {
		t.Errorf("got %v", m)
	}
	h.Send(nil, news{})
	await(t, lost, "the message is reported")
	if n := h.DeadLetters(); n != 2 {
		t.Errorf("%d dead letters, want 2", n)
	}
}

// TestTimerOfAStoppedActor has a timer go off while the actor is busy with the message
// after which it stops: what it sends is neither handled nor lost.
func TestTimerOfAStoppedActor(t *testing.T) {
	for name, tracer := range map[string]kernel.Tracer{"plain": nil, "traced": &tape{}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.SetTracer(tracer)
			lost := make(chan any, 16)
			h.OnUndelivered(func(msg any) { lost <- msg })
			begun, waits, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
			pid, done := h.root("r", produce(func(ctx *kernel.Context, msg any) {
				switch msg {
				case "begin":
					ctx.After(time.Nanosecond, "due")
					close(begun)
					<-stop
					ctx.Stop(ctx.Self())
				case "due":
					t.Error("it was handled")
				}
			}), nil)
			h.Send(pid, "begin")
			await(t, begun, "it is busy")
			go func() {
				defer close(waits)
				for h.Actors()[0].Mailbox == 0 { // the reminder
					runtime.Gosched()
				}
			}()
			await(t, waits, "the timer goes off")
			h.Send(pid, "marker")
			close(stop)
			await(t, done, "it stops")
			if m := await(t, lost, "the marker is reported"); m != "marker" {
				t.Errorf("got %v", m)
			}
			if n := h.DeadLetters(); n != 1 {
				t.Errorf("%d dead letters, want 1", n)
			}
		})
	}
}

// TestMailboxOfAStoppedActor has messages wait behind the one during which the
// actor is stopped: each is handled or reported, none is lost.
func TestMailboxOfAStoppedActor(t *testing.T) {
	for name, opts := range map[string][]kernel.Option{"goroutine": nil, "inline": {kernel.Inline()}} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			const n = 1000
			seen := make(chan int, 2*n)
			h.OnUndelivered(func(msg any) { seen <- msg.(int) })
			pid, done := h.root("r", produce(func(_ *kernel.Context, msg any) {
				if i, ok := msg.(int); ok {
					seen <- i
				}
			}), nil, opts...)
			go func() {
				for i := range n {
					h.Send(pid, i)
				}
			}()
			got := make([]bool, n)
			mark := func() {
				i := await(t, seen, "a message is handled or reported")
				if got[i] {
					t.Fatalf("message %d came twice", i)
				}
				got[i] = true
			}
			for range n / 10 {
				mark()
			}
			h.Stop(pid)
			for range n - n/10 {
				mark()
			}
			await(t, done, "it stops")
		})
	}
}

func TestFinishHandlesTheMailboxFirst(t *testing.T) {
	h := newHouse(t)
	var j journal
	ended := make(chan struct{})
	h.root("r", produce(func(c *kernel.Context, msg any) {
		switch msg.(type) {
		case kernel.Started:
			pid, err := c.Spawn("child", produce(func(_ *kernel.Context, msg any) {
				switch m := msg.(type) {
				case string:
					j.add("%s", m)
				case kernel.Stopped:
					j.add("stopped")
				}
			}))
			if err != nil {
				t.Error(err)
			}
			for i := range 5 {
				c.Send(pid, fmt.Sprint(i))
			}
			c.Finish(pid)
		case kernel.Terminated:
			close(ended)
		}
	}), nil)
	await(t, ended, "the child ends")
	if got, want := j.all(), []string{"0", "1", "2", "3", "4", "stopped"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNoChildrenForOneThatStops(t *testing.T) {
	h := newHouse(t)
	refused := make(chan error, 2)
	pid, done := h.root("r", produce(func(c *kernel.Context, msg any) {
		switch msg.(type) {
		case kernel.Started:
			if _, err := c.Spawn("x", produce(func(*kernel.Context, any) {})); err != nil {
				t.Error(err)
			}
			if _, err := c.Spawn("x", produce(func(*kernel.Context, any) {})); err == nil {
				t.Error("a name was given twice")
			}
		case kernel.Stopping:
			_, err := c.Spawn("y", produce(func(*kernel.Context, any) {}))
			refused <- err
		}
	}), nil)
	h.Stop(pid)
	if await(t, refused, "it tries") == nil {
		t.Error("a stopping actor got a child")
	}
	await(t, done, "it stops all the same")
}

// TestTimersEndWithTheirActor stops an actor that wanted to be told things
// later.
func TestTimersEndWithTheirActor(t *testing.T) {
	h := newHouse(t)
	const wait = 200 * time.Millisecond
	for i := range 100 {
		var armed time.Time
		pid, done := h.root(fmt.Sprint("r", i), produce(func(c *kernel.Context, msg any) {
			if _, ok := msg.(string); ok {
				armed = time.Now()
				for range 100 {
					c.After(wait, &knock{})
				}
				c.Stop(c.Self())
			}
		}), nil)
		h.Send(pid, "arm")
		await(t, done, "it stops")
		if time.Since(armed) < wait {
			break // on a busy machine they may have gone off before it stopped
		}
	}
	before := h.DeadLetters()
	later := make(chan struct{})
	other, _ := h.root("other", produce(func(_ *kernel.Context, msg any) {
		if _, ok := msg.(string); ok {
			close(later)
		}
	}), nil)
	h.After(2*wait, other, "later")
	await(t, later, "their time has passed")
	if n := h.DeadLetters() - before; n != 0 {
		t.Errorf("%d dead letters", n)
	}
}
