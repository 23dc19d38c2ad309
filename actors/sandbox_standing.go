package actors

import (
	"time"

	"github.com/metamcp/metamcp/supervision/kernel"
)

// standing is how long the time of a script stood still since clients were being
// asked what its calls want to know.
type standing struct {
	calls map[uint64]bool // whose time stands still now
	since time.Time       // where there are any
	total time.Duration   // without what has begun at since
	over  time.Time       // when the script's time is, had it not stood still
}

// scriptStands says that the time of a call stands still, or goes on.
type scriptStands struct {
	call  uint64
	still bool
}

// Transient implements kernel.Transient: the script has ended, so that it has no
// time any more.
func (*scriptStands) Transient() {}

// standingPort is a port for the answer to a call that wants to know when the
// call's time stands still.
type standingPort interface{ Standing(call uint64, still bool) }

// tellStanding says so to who made the call.
func (p *pending) tellStanding(still bool) {
	if port, ok := p.call.Reply.(standingPort); ok {
		port.Standing(p.call.ID, still)
	}
}

// Standing implements standingPort.
func (p scriptPort) Standing(call uint64, still bool) {
	p.sys.Send(p.run, &scriptStands{call, still})
}

// startTime gives the script its time.
func (a *runActor) startTime(ctx *kernel.Context, d time.Duration) {
	a.due.Stop()
	a.stands.over = time.Now().Add(d)
	a.due = ctx.After(d, &runDue{})
}

// onStands lets the script's time stand still with that of its calls, or go on.
func (a *runActor) onStands(ctx *kernel.Context, m *scriptStands) {
	s := &a.stands
	switch {
	case a.ended || a.worker == nil || a.calls[m.call] == nil || s.calls[m.call] == m.still:
		return
	case m.still:
		if s.calls == nil {
			s.calls = map[uint64]bool{}
		}
		s.calls[m.call] = true
		if len(s.calls) > 1 {
			return
		}
		s.since = time.Now()
		a.due.Stop()
		// The worker says so before, where the script does not wait but work.
		a.due = ctx.After(time.Until(s.over)+maxStood-s.total, &runDue{})
	default:
		delete(s.calls, m.call)
		if len(s.calls) > 0 {
			return
		}
		d := min(time.Since(s.since), maxStood-s.total)
		s.total += d
		a.startTime(ctx, time.Until(s.over)+d)
	}
	a.worker.Stand(a.run.ID, m.still)
}
