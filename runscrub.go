package metamcp

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

// scriptScrub takes secrets out of what a script says. What its calls brought
// is without them already; a script may still put together what is one, or read
// one that stands in pieces. Once a script has called a server whose answers
// are not scrubbed, what it says is not either.
type scriptScrub struct {
	e    *Engine
	off  atomic.Bool
	code string // of the script

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

// excerpt is the excerpt of a line that holds no secret. Of another one it would be cut
// anywhere, within the secret too, and its caret would point elsewhere: then it is the
// beginning of the line without that.
func (c *scriptScrub) excerpt(f *messages.ScriptFailure) string {
	lines := strings.Split(c.code, "\n")
	if f.Excerpt == "" || f.Line < 1 || f.Line > len(lines) {
		return c.text(f.Excerpt)
	}
	line := strings.TrimRight(lines[f.Line-1], "\r")
	clean := c.text(line)
	if clean == line {
		return c.text(f.Excerpt)
	}
	return strconv.Itoa(f.Line) + " | " + messages.Cut(clean, maxLineShown)
}

// calls cleans the names of calls that failed: what there is not was named by the
// script alone.
func (c *scriptScrub) calls(list []messages.RunCall) []messages.RunCall {
	known := map[string]string{}
	clean := func(name string) string {
		if _, ok := known[name]; !ok {
			known[name] = c.text(name)
		}
		return known[name]
	}
	own := slices.Clone(list)
	for i := range own {
		if own[i].Outcome != outcomeOK {
			own[i].Server, own[i].Tool = clean(own[i].Server), clean(own[i].Tool)
		}
	}
	return own
}

// outcome cleans what a script came to; the report's own parts stay as they
// are, since others may read them.
func (c *scriptScrub) outcome(r *messages.RunReport) {
	secrets := c.secrets()
	if secrets == nil {
		return
	}
	r.Err = secrets.Error(r.Err)
	r.Calls = c.calls(r.Calls)
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
		f.Excerpt = c.excerpt(&f)
		if f.Thrown != nil {
			t := *f.Thrown
			// A script can call what there is not, by any name.
			for _, text := range []*string{&t.Message, &t.Hint, &t.Server, &t.Tool, &t.Class, &t.Code} {
				*text = c.text(*text)
			}
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
