package supervision

import (
	"math"
	"time"

	"github.com/metamcp/metamcp/supervision/kernel"
)

// Defaults of [OneForOne].
const (
	DefaultFailureLimit  = 5
	DefaultFailureWindow = 30 * time.Second
)

// OneForOne decides what becomes of a child that panicked. Expected failures
// (a lost process, a refused connection) are messages and never come here. It
// treats each child on its own: a decider chooses between resuming and
// restarting it, until it fails too often, which is escalated.
//
// "Too often" is a decaying count per child, as in suture
// (thejerf/suture, supervisor.go), whose half-life is the window:
//
//	failures = failures · ½^(time since the last one / window) + 1
//
// and more than limit of them escalate. Limit+1 failures at once do so, and
// so do more than about 0.7·limit per window for a long time, while a failure
// now and then never adds up. Unlike a list of timestamps it needs two numbers
// per child, and unlike a plain counter it forgives. It belongs to the one actor that
// supervises the children.
type OneForOne struct {
	limit  float64
	window time.Duration
	decide func(reason any) kernel.Directive
	record map[string]failureRecord
	// sweepAt is the size of record at which the forgotten ones are dropped;
	// it grows with what is left, so that sweeping stays cheap on average.
	sweepAt int
}

type failureRecord struct {
	failures float64
	last     time.Time
}

// minSweep is the number of remembered children below which nothing is swept.
const minSweep = 64

// forgotten is the count below which a child's past does not matter any more.
const forgotten = 0.01

// NewOneForOne returns the strategy. A limit or window of zero or less means
// the default (5 failures, 30 s); a nil decider restarts always.
func NewOneForOne(limit int, window time.Duration, decide func(reason any) kernel.Directive) *OneForOne {
	if limit <= 0 {
		limit = DefaultFailureLimit
	}
	if window <= 0 {
		window = DefaultFailureWindow
	}
	if decide == nil {
		decide = func(any) kernel.Directive { return kernel.Restart }
	}
	return &OneForOne{limit: float64(limit), window: window, decide: decide, record: map[string]failureRecord{}, sweepAt: minSweep}
}

// Decide returns the decider's directive, or [kernel.Escalate] where the child would
// go on living (resumed or restarted) and has failed more than limit times.
// A child that is stopped or escalated starts with a clean slate. The child is
// the name under which its failures are counted, reason the panic's value.
func (s *OneForOne) Decide(child string, reason any, now time.Time) kernel.Directive {
	d := s.decide(reason)
	if d != kernel.Resume && d != kernel.Restart {
		delete(s.record, child)
		return d
	}
	r := s.record[child]
	r.failures = s.decayed(r, now) + 1
	r.last = now
	if r.failures > s.limit {
		delete(s.record, child)
		return kernel.Escalate
	}
	if len(s.record) >= s.sweepAt {
		s.sweep(now)
	}
	s.record[child] = r
	return d
}

func (s *OneForOne) decayed(r failureRecord, now time.Time) float64 {
	if r.failures == 0 {
		return 0
	}
	age := max(now.Sub(r.last), 0)
	return r.failures * math.Pow(0.5, float64(age)/float64(s.window))
}

func (s *OneForOne) sweep(now time.Time) {
	for child, r := range s.record {
		if s.decayed(r, now) < forgotten {
			delete(s.record, child)
		}
	}
	s.sweepAt = max(minSweep, 2*len(s.record))
}
