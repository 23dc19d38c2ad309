package metamcp

import (
	"sync/atomic"

	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

// scriptScrub takes secrets out of what a script says. What its calls brought
// is without them already; a script may still put together what is one, or read
// one that stands in pieces. Once a script has called a server whose answers
// are not scrubbed, what it says is not either.
type scriptScrub struct {
	e   *Engine
	off atomic.Bool

	counts scrub.Counts // of the goroutine of Run
}

// called is told of each call, on the script's actor.
func (c *scriptScrub) called(server string) {
	if spec := c.e.Config().Server(server); spec != nil && spec.Unscrubbed {
		c.off.Store(true)
	}
}

// secrets is nil where nothing is taken out.
func (c *scriptScrub) secrets() *scrub.Set {
	if c.off.Load() {
		return nil
	}
	return c.e.secrets.Load()
}

func (c *scriptScrub) text(text string) string {
	clean, counts := c.secrets().Counted(text)
	c.counts = scrub.Add(c.counts, counts)
	return clean
}

// outcome cleans what a script came to; the report's own parts stay as they
// are, since others may read them.
func (c *scriptScrub) outcome(r *messages.RunReport) {
	secrets := c.secrets()
	if secrets == nil {
		return
	}
	r.Err = secrets.Error(r.Err)
	if r.Outcome == nil {
		return
	}
	own := *r.Outcome
	var counts scrub.Counts
	own.Value, counts = secrets.Result(own.Value)
	c.counts = scrub.Add(c.counts, counts)
	if own.Failure != nil {
		f := *own.Failure
		f.Message, f.Hint, f.Stack = c.text(f.Message), c.text(f.Hint), c.text(f.Stack)
		if f.Thrown != nil {
			t := *f.Thrown
			t.Message, t.Hint = c.text(t.Message), c.text(t.Hint)
			t.Details = make([]string, len(f.Thrown.Details))
			for i, d := range f.Thrown.Details {
				t.Details[i] = c.text(d)
			}
			f.Thrown = &t
		}
		own.Failure = &f
	}
	r.Outcome = &own
}
