package actors

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// breakPool makes the pool panic, as a bug would.
func (r *rig) breakPool(times int) {
	nowhere := make(chan supervision.PoolReport)
	close(nowhere)
	for range times {
		r.e.sys.Send(r.e.pool, &supervision.InspectPool{Reply: nowhere})
	}
	r.stats() // it has come to all of them
}

// An actor that fails again and again is told once, and what works goes on: the host
// has to let calls end and hand over what it has. Should it fail as often once more,
// everything stops and every caller has an answer.
func TestRootGivesUpAndGoesOn(t *testing.T) {
	told := make(chan any, 2)
	r := newRigWith(t, nil, func(o *Options) { o.GaveUp = func(reason any) { told <- reason } })
	r.add("x", nil, nil)
	r.ok("x")
	busy := r.start("x", "do", doArgs{Do: "silent"})
	r.got("x", methodToolsCall, 2)
	r.breakPool(supervision.DefaultFailureLimit)
	select {
	case reason := <-told:
		t.Fatalf("it gives up too early: %v", reason)
	default:
	}
	r.breakPool(1)
	<-told
	r.ok("x")
	if busy.answered() {
		t.Error("a call in flight was ended")
	}
	r.add("y", nil, nil)
	r.ok("y")

	nowhere := make(chan supervision.PoolReport)
	close(nowhere)
	for range supervision.DefaultFailureLimit + 1 {
		r.e.sys.Send(r.e.pool, &supervision.InspectPool{Reply: nowhere})
	}
	if a := r.wait(busy); a.Err == nil {
		t.Errorf("answered %s", a.Result)
	}
	<-r.e.rootDone
	r.wantCode(r.do("x", "do", doArgs{}), messages.CodeShuttingDown)
	select {
	case reason := <-told:
		t.Errorf("it gives up twice: %v", reason)
	default:
	}
}

// TestBugsOfTwoActorsAtOnce: root and pool each judge what breaks below them; the race
// detector judges both.
func TestBugsOfTwoActorsAtOnce(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, nil)
	r.ok("x")
	entry, _ := r.e.dir.Lookup("x")
	var both sync.WaitGroup
	both.Go(func() { r.e.sys.Send(r.e.index, (*messages.Listing)(nil)) })
	both.Go(func() { r.e.sys.Send(entry.Breaker, (*messages.RequestFailed)(nil)) })
	both.Wait()
	r.ok("x")
}

// brokenPort panics with every answer, as a bug in a front would.
type brokenPort struct{ heard chan struct{} }

func (p brokenPort) Answer(*messages.Answer) {
	p.heard <- struct{}{}
	panic("broken")
}

// What breaks the actor of one client again and again is neither the end of that
// client nor of the host, which newRig would tell: neither its own ports nor a bug.
func TestAClientThatBreaksIsNobodyElsesMatter(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, nil)
	s, err := r.e.OpenSession(func() { panic("broken") })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id := uint64(1 << 40)
	call := func(reply messages.ReplyPort) {
		id++
		s.Call(&messages.Call{Meta: messages.Meta{Trace: id}, ID: id, Server: "x", Method: methodToolsCall, Tool: "do", Args: json.RawMessage(`{}`), Reply: reply})
	}
	heard := make(chan struct{}, 3*supervision.DefaultFailureLimit)
	for range cap(heard) {
		call(brokenPort{heard})
		sessionPort{s}.Flush()
		sessionPort{s}.Withdraw(id, []*messages.Question{nil}, "there is none")
	}
	for range cap(heard) {
		select {
		case <-heard:
		case <-time.After(soon):
			t.Fatal("an answer is missing")
		}
	}
	p := newPort()
	call(p)
	select {
	case <-p.first:
	case <-time.After(soon):
		t.Fatal("the client gets no more answers")
	}
}
