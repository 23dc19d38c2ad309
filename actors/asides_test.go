package actors

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// newAsideBench is a connection that is ready, to a child that answers its calls and
// listings, and none of what is told it aside.
func newAsideBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, &script{silent: []string{methodSetLevel, methodUnsubscribe, methodPing}, answers: func(l *fakeLink, m rpcLine) bool {
		switch m.Method {
		case methodInitialize:
			l.answer(m.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{},"resources":{"subscribe":true}}}`)
			return true
		case methodSubscribe:
			l.answer(m.ID, `{}`)
			return true
		}
		return false
	}})
	b.send(&messages.Connect{})
	b.heard("ConnectionIdle", 1)
	return b
}

// patience is how long the child has for an answer from now on.
func (b *bench) patience(d time.Duration) {
	b.t.Helper()
	s := *b.c.spec
	s.Timeout = d
	b.send(&messages.Respec{Spec: &s})
}

// carriesOut has the child carry out a call.
func (b *bench) carriesOut(change func(*messages.Call)) {
	b.t.Helper()
	c, p := b.call("")
	c.Timeout = time.Minute // so that no alarm of its own is about to go off
	change(c)
	b.send(c)
	b.f.eventually(b.t, "the call is answered", p.answered)
	if a := p.answers[0]; a.Err != nil || a.RPCError != nil {
		b.t.Fatalf("%+v", a)
	}
}

func (b *bench) cancelled(n int) {
	b.t.Helper()
	b.f.eventually(b.t, "what has no answer is given up", func() bool { return len(b.f.lines("a", methodCancelled)) >= n })
}

// TestUnansweredAsidesAreForgotten: what a child never answers is given up after a while,
// and stays neither here nor in the link; the child does not suffer for it, and an answer
// that comes all the same harms nobody.
func TestUnansweredAsidesAreForgotten(t *testing.T) {
	b := newAsideBench(t)
	b.carriesOut(func(c *messages.Call) { c.Method, c.Params = methodSubscribe, []byte(`{"uri":"u"}`) })
	b.patience(time.Millisecond)
	b.carriesOut(func(c *messages.Call) { c.Log = messages.LogDebug })
	b.send(&unsubscribe{"u"})
	b.cancelled(2)
	given := map[string]bool{}
	for _, m := range append(b.f.lines("a", methodSetLevel), b.f.lines("a", methodUnsubscribe)...) {
		given[string(m.ID)] = true
	}
	for _, line := range b.f.lines("a", methodCancelled) {
		if id := string(cancelledID(t, line)); !given[id] {
			t.Errorf("%s is given up, want one of %v", id, given)
		}
	}
	late := b.c.deps.late.Load()
	for id := range given {
		b.send(&messages.Frame{Instance: 1, ID: []byte(id), Result: []byte(`{}`)})
	}
	if n := len(b.c.internal) + len(b.c.asides); n > 0 {
		t.Errorf("%d are still known", n)
	}
	if n := b.c.deps.late.Load() - late; n != 2 {
		t.Errorf("%d answers were late", n)
	}
	b.carriesOut(func(*messages.Call) {})
	if n := b.f.started("a"); n != 1 {
		t.Errorf("%d starts", n)
	}
}

// TestAnsweredAsidesAreForgotten: no time runs for what was answered, however badly.
func TestAnsweredAsidesAreForgotten(t *testing.T) {
	b := newAsideBench(t)
	for n, level := range []messages.LogLevel{messages.LogDebug, messages.LogInfo, messages.LogDebug} {
		b.carriesOut(func(c *messages.Call) { c.Log = level })
		id := b.f.lines("a", methodSetLevel)[n].ID
		if len(b.c.asides) != 1 || len(b.c.internal) != 1 {
			t.Fatalf("%v, %d are open", b.c.asides, len(b.c.internal))
		}
		switch n {
		case 0:
			b.send(&messages.Frame{Instance: 1, ID: id, Result: []byte(`{}`)})
		case 1:
			b.send(&messages.Frame{Instance: 1, ID: id, Error: []byte(`{"code":-32601,"message":"what?"}`)})
		case 2:
			b.send(&runBroken{run: 1, id: id})
		}
		if len(b.c.asides)+len(b.c.internal) != 0 {
			t.Fatalf("%v, %d are open after an answer", b.c.asides, len(b.c.internal))
		}
	}
}

// TestAsidesAreBounded: of what a child leaves unanswered in a short time the oldest is
// given up.
func TestAsidesAreBounded(t *testing.T) {
	b := newAsideBench(t)
	const more = 10
	for n := range maxAsides + more {
		b.carriesOut(func(c *messages.Call) { c.Log = messages.LogDebug + messages.LogLevel(n%2) })
	}
	b.cancelled(more)
	if n, open := len(b.c.asides), len(b.c.internal); n != maxAsides || open != maxAsides {
		t.Errorf("%d asides and %d requests are open, want %d", n, open, maxAsides)
	}
	told := b.f.lines("a", methodSetLevel)
	for n, line := range b.f.lines("a", methodCancelled) {
		if got, want := string(cancelledID(t, line)), string(told[n].ID); got != want {
			t.Errorf("%s is given up, want %s", got, want)
		}
	}
}

// TestUnansweredGreetingIsForgotten: a child that is greeted in both eras may answer in
// one.
func TestUnansweredGreetingIsForgotten(t *testing.T) {
	b := newBench(t, &script{silent: []string{methodInitialize}, modern: true})
	b.send(&messages.Connect{})
	b.f.eventually(t, "the child is greeted", func() bool { return len(b.f.lines("a", methodInitialize)) == 1 })
	b.send(&probeDue{run: 1})
	b.heard("ConnectionIdle", 1)
	b.send(&unsubscribe{"nothing"})
	if n := len(b.c.internal); n > 0 {
		t.Errorf("%d requests are open", n)
	}
}
