package actors

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// TestListingOfAnEndedChildRefusesNothing: the next child of the server may have other
// tools, however the one that listed came to its end. It is started and asked.
func TestListingOfAnEndedChildRefusesNothing(t *testing.T) {
	ends := map[string]struct {
		pool   func(s *supervision.PoolSettings)
		change func(s *messages.ServerSpec)
		end    func(r *rig)
		left   int // that are idle then
	}{
		"lost": {end: func(r *rig) { r.f.living("a")[0].crash() }},
		"unused": {end: func(r *rig) {
			r.update("a", func(s *messages.ServerSpec) { s.IdleTimeout = time.Millisecond })
			r.settled(0)
			r.update("a", nil) // or another one would be idle too long between its listing and the call
		}},
		"evicted":   {pool: places(1), end: func(r *rig) { r.add("b", nil, nil); r.ok("b") }, left: 1},
		"ephemeral": {change: func(s *messages.ServerSpec) { s.Lifecycle = messages.LifecycleEphemeral }},
	}
	calls := map[string]struct {
		tool, args string
		want       messages.Code // "": a result
	}{
		"a new tool":    {tool: "new1", args: `{}`},
		"a new schema":  {tool: "typed", args: `{"n":"x"}`},
		"no such tool":  {tool: "new2", args: `{}`, want: messages.CodeToolNotFound},
		"neither shape": {tool: "typed", args: `{"n":true}`, want: messages.CodeValidation},
	}
	for end, e := range ends {
		for name, c := range calls {
			t.Run(end+", "+name, func(t *testing.T) {
				r := newRig(t, e.pool)
				var grown atomic.Int64
				r.add("a", listsAs(func(l *fakeLink, m rpcLine) { l.answer(m.ID, toolsOf(int(grown.Load()))) }), e.change)
				r.ok("a")
				if e.end != nil {
					e.end(r)
				}
				r.settled(e.left)
				grown.Store(1)
				a := r.do("a", c.tool, doArgs{}, withArgs(c.args))
				if c.want == "" {
					r.wantResult(a)
				} else {
					r.wantCode(a, c.want)
				}
				if n := r.f.started("a"); n != 2 {
					t.Errorf("it was started %d times, want twice", n)
				}
			})
		}
	}
}

// TestNobodyCanSayThatThereIsNoSuchTool where the server does not start any more.
func TestNobodyCanSayThatThereIsNoSuchTool(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{launch: func(n int) error {
		if n > 1 {
			return errors.New("no such file")
		}
		return nil
	}}, nil)
	r.ok("a")
	r.wantCode(r.do("a", "nothere", doArgs{}), messages.CodeToolNotFound)
	r.f.living("a")[0].crash()
	r.settled(0)
	r.wantCode(r.do("a", "nothere", doArgs{}), messages.CodeConnection)
}

// TestListingOfARunningChildStands: who calls what it has not brings about no listing, also
// where a child before it was lost.
func TestListingOfARunningChildStands(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	for n := range 2 {
		r.ok("a")
		r.wantCode(r.do("a", "nothere", doArgs{}), messages.CodeToolNotFound) // its listing is there then
		before := len(r.f.lines("a", methodToolsList))
		for range 5 {
			r.wantCode(r.do("a", "nothere", doArgs{}), messages.CodeToolNotFound)
		}
		if after := len(r.f.lines("a", methodToolsList)); after != before {
			t.Errorf("child %d was listed %d times for a tool that it has not", n+1, after-before)
		}
		if n == 0 {
			r.f.living("a")[0].crash()
			r.settled(0)
		}
	}
}
