package kernel_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// tape keeps what a tracer sees.
type tape struct {
	mu       sync.Mutex
	records  []kernel.Record
	events   []string
	spans    []uint64 // of events
	dead     []string
	failures []string
	seen     chan struct{} // one for each record; may be nil
}

func (p *tape) Message(r *kernel.Record) {
	p.mu.Lock()
	p.records = append(p.records, *r)
	p.mu.Unlock()
	if p.seen != nil {
		p.seen <- struct{}{}
	}
}

func (p *tape) Event(e *kernel.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e.Actor+" "+e.Kind+" "+e.Detail)
	p.spans = append(p.spans, e.Span)
}

func (p *tape) DeadLetter(to string, _ any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = append(p.dead, to)
}

func (p *tape) Failure(actor, reason, directive string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures = append(p.failures, actor+" "+reason+" "+directive)
}

// door is an actor with a state.
type door struct {
	open bool
	next *kernel.PID
	hold chan struct{}
}

func (d *door) StateName() string {
	if d.open {
		return "open"
	}
	return "shut"
}

type knock struct{ messages.Meta }

func (d *door) Receive(c *kernel.Context, msg any) {
	switch m := msg.(type) {
	case *knock:
		if d.hold != nil {
			<-d.hold
		}
		d.open = true
		c.Event("opened", "by a knock", m.Trace)
		if d.next != nil {
			c.Send(d.next, m)
		}
	case string:
		panic(m)
	}
}

func TestTracerSeesEverything(t *testing.T) {
	h := newHouse(t)
	p := &tape{seen: make(chan struct{}, 16)}
	h.SetTracer(p)
	back, _ := h.root("back", func() kernel.Actor { return &door{} }, nil)
	hold := make(chan struct{})
	front, done := h.root("front", func() kernel.Actor { return &door{next: back, hold: hold} }, nil)
	m := &knock{messages.Meta{Trace: 42}}
	h.Send(front, m)
	h.Send(front, m) // waits in the queue meanwhile
	close(hold)
	for range 4 {
		await(t, p.seen, "a message is traced")
	}
	h.Send(front, "ouch")
	await(t, p.seen, "the panic is traced")
	await(t, done, "the front stops")
	h.SetTracer(nil)
	h.Send(back, m)

	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.records) != 5 {
		t.Fatalf("%d records, want 5: %+v", len(p.records), p.records)
	}
	var atFront, atBack []kernel.Record
	for _, r := range p.records {
		if r.Sent.IsZero() || r.Wait <= 0 || r.Ran <= 0 {
			t.Errorf("times out of order: %+v", r)
		}
		switch r.To {
		case "front":
			atFront = append(atFront, r)
		case "back":
			atBack = append(atBack, r)
		}
	}
	first := atFront[0]
	if first.Type != "knock" || first.From != "" || first.Correlation != 42 || first.Before != "shut" || first.After != "open" || first.Panicked {
		t.Errorf("first record %+v", first)
	}
	if second := atFront[1]; second.Before != "open" || second.Sent.Add(second.Wait).Before(first.Sent.Add(first.Wait+first.Ran)) {
		t.Errorf("second record %+v", second)
	}
	if last := atFront[2]; !last.Panicked || last.Type != "string" {
		t.Errorf("record of the panic %+v", last)
	}
	if atBack[0].From != "front" || atBack[0].Parent != first.Span || first.Parent != 0 {
		t.Errorf("sender %q of span %d, want front's %d; its own parent is %d", atBack[0].From, atBack[0].Parent, first.Span, first.Parent)
	}
	if atBack[0].Span == first.Span || p.spans[0] != first.Span {
		t.Errorf("spans %d and %d, of the event %d", first.Span, atBack[0].Span, p.spans[0])
	}
	if len(p.events) < 2 || p.events[0] != "front opened by a knock" {
		t.Errorf("events %v", p.events)
	}
	if len(p.failures) != 1 || !strings.Contains(p.failures[0], "front ouch") {
		t.Errorf("failures %v", p.failures)
	}
}

func TestTracerSeesDeadLetters(t *testing.T) {
	h := newHouse(t)
	p := &tape{}
	pid, done := h.root("r", func() kernel.Actor { return &door{} }, nil)
	h.Stop(pid)
	await(t, done, "it stops")
	h.SetTracer(p)
	h.Send(pid, &knock{})
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.dead) != 1 || p.dead[0] != "r" {
		t.Errorf("dead letters %v", p.dead)
	}
}

// TestNothingIsAllocatedWhenNobodyTraces holds the kernel to "off costs
// nothing": messages on an inline actor make no garbage. Waking the actor is
// one allocation of protoactor's (a method value), so a burst of a hundred
// messages that it sends to itself costs no more than that one.
func TestNothingIsAllocatedWhenNobodyTraces(t *testing.T) {
	h := newHouse(t)
	const burst = 100
	m, handled := &knock{messages.Meta{Trace: 1}}, 0
	var start any = &ping{}
	pid, _ := h.root("r", produce(func(c *kernel.Context, msg any) {
		switch msg.(type) {
		case *ping:
			for range burst {
				c.Send(c.Self(), m)
			}
		case *knock:
			c.Event("kind", "detail", 1)
			handled++
		}
	}), nil, kernel.Inline())
	for range 10 {
		h.Send(pid, start) // the mailbox grows to its size
	}
	handled = 0
	const runs = 100
	if n := testing.AllocsPerRun(runs, func() { h.Send(pid, start) }); n > 1 {
		t.Errorf("%v allocations for %d messages", n, burst)
	}
	if want := burst * (runs + 1); handled != want {
		t.Errorf("%d messages were handled, want %d", handled, want)
	}
}

func BenchmarkSend(b *testing.B) {
	for name, opts := range map[string][]kernel.Option{"goroutine": nil, "inline": {kernel.Inline()}} {
		for _, traced := range []bool{false, true} {
			label := name
			if traced {
				label += "/traced"
			}
			b.Run(label, func(b *testing.B) {
				h := newHouse(b)
				done := make(chan struct{}, 1)
				pid, _ := h.root("r", produce(func(_ *kernel.Context, msg any) {
					if _, ok := msg.(*knock); ok {
						done <- struct{}{}
					}
				}), nil, opts...)
				if traced {
					h.SetTracer(nothing{})
				}
				m := &knock{}
				b.ReportAllocs()
				for b.Loop() {
					h.Send(pid, m)
					<-done
				}
			})
		}
	}
}

type nothing struct{}

func (nothing) Message(*kernel.Record)         {}
func (nothing) Event(*kernel.Event)            {}
func (nothing) DeadLetter(string, any)         {}
func (nothing) Failure(string, string, string) {}
