package traceview

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// chromeEvent is one event of the Trace Event format, which Perfetto and
// chrome://tracing read.
type chromeEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	At       json.Number    `json:"ts,omitempty"`  // microseconds
	Duration json.Number    `json:"dur,omitempty"` // microseconds
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	ID       string         `json:"id,omitempty"`
	Scope    string         `json:"s,omitempty"`
	Bind     string         `json:"bp,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// chrome writes events one by one.
type chrome struct {
	w       *bufio.Writer
	first   bool
	err     error
	begin   time.Time
	threads map[actorKey]int
	ids     int
}

// chromeStart is what the events of every version begin with; a new line follows.
const chromeStart = `{"displayTimeUnit":"ns","traceEvents":[`

// IsChrome says whether a file that begins so is one that [WriteChrome] wrote.
func IsChrome(beginning []byte) bool {
	return bytes.HasPrefix(beginning, []byte(chromeStart+"\n"))
}

// WriteChrome writes requests as JSON in the Trace Event format: a process for
// each host, a thread for each actor, a slice for each handling, an async
// slice for each wait in a mailbox and for each request, a flow from the
// handling that sent a message to the one of the message, and an instant for
// each event.
func WriteChrome(out io.Writer, t *Trace, requests []*Request) error {
	c := &chrome{w: bufio.NewWriterSize(out, 64<<10), first: true, begin: t.Begin(), threads: map[actorKey]int{}}
	c.raw(chromeStart)
	for run, name := range t.Runs {
		if name == "" {
			name = "metamcp"
		}
		c.put(chromeEvent{Name: "process_name", Phase: "M", Process: run + 1, Args: map[string]any{"name": name}})
	}
	c.actors(requests)
	for _, r := range requests {
		c.request(r)
	}
	c.raw("\n]}\n")
	if c.err != nil {
		return c.err
	}
	return c.w.Flush()
}

func (c *chrome) raw(text string) {
	if c.err == nil {
		_, c.err = c.w.WriteString(text)
	}
}

func (c *chrome) put(e chromeEvent) {
	line, err := json.Marshal(e)
	if err != nil && c.err == nil {
		c.err = err
	}
	sep := ",\n"
	if c.first {
		sep, c.first = "\n", false
	}
	c.raw(sep)
	c.raw(string(line))
}

// actors names the threads, in the order of the actors' paths.
func (c *chrome) actors(requests []*Request) {
	var all []actorKey
	add := func(run int, actor string) {
		k := actorKey{run, actor}
		if _, known := c.threads[k]; !known {
			c.threads[k] = 0
			all = append(all, k)
		}
	}
	for _, r := range requests {
		add(r.Run, "")
		for _, rec := range r.Records {
			add(r.Run, rec.To)
			if rec.From != "" {
				add(r.Run, rec.From)
			}
		}
	}
	slices.SortFunc(all, func(x, y actorKey) int {
		if x.run != y.run {
			return x.run - y.run
		}
		return comparePaths(x.actor, y.actor)
	})
	for i, k := range all {
		c.threads[k] = i + 1
		name := k.actor
		if name == "" {
			name = edge
		}
		c.put(chromeEvent{Name: "thread_name", Phase: "M", Process: k.run + 1, Thread: i + 1, Args: map[string]any{"name": name}})
		c.put(chromeEvent{Name: "thread_sort_index", Phase: "M", Process: k.run + 1, Thread: i + 1, Args: map[string]any{"sort_index": i + 1}})
	}
}

func (c *chrome) request(r *Request) {
	if r.ID > 0 {
		c.async("request", r.Title(), r.Run, "", r.Start, r.Duration, map[string]any{"outcome": r.Outcome, "request": r.Name})
	}
	spans := map[uint64]bool{}
	for i := range r.Hops {
		if r.Hops[i].Span > 0 {
			spans[r.Hops[i].Span] = true
		}
	}
	hop := 0
	for _, rec := range r.Records {
		if !rec.Message() {
			c.put(chromeEvent{Name: rec.Kind, Category: "event", Phase: "i", At: c.micros(rec.Time), Process: r.Run + 1, Thread: c.threads[actorKey{r.Run, rec.To}], Scope: "t",
				Args: map[string]any{"text": eventText(rec), "request": r.Name}})
			continue
		}
		h := &r.Hops[hop]
		hop++
		c.message(r, h, spans[h.Parent] || h.Span == 0 && h.Depth > 0)
	}
}

func (c *chrome) message(r *Request, h *Hop, flow bool) {
	from, _ := h.handled()
	if h.WaitNs > 0 {
		c.async("wait", "wait "+h.Type, r.Run, h.To, h.Time, time.Duration(h.WaitNs), map[string]any{"request": r.Name})
	}
	args := map[string]any{"request": r.Name, "from": h.From, "waitNs": h.WaitNs, "selfNs": h.Self.Nanoseconds()}
	if h.Before != "" {
		args["state"] = h.Before + " → " + h.After
	}
	if h.Outcome != "" {
		args["outcome"] = h.Outcome
	}
	thread := c.threads[actorKey{r.Run, h.To}]
	c.put(chromeEvent{Name: h.Type, Category: "message", Phase: "X", At: c.micros(from), Duration: microseconds(h.RanNs), Process: r.Run + 1, Thread: thread, Args: args})
	if !flow || h.From == "" {
		return
	}
	c.ids++
	id := fmt.Sprintf("flow%d", c.ids)
	c.put(chromeEvent{Name: h.Type, Category: "send", Phase: "s", At: c.micros(h.Time), Process: r.Run + 1, Thread: c.threads[actorKey{r.Run, h.From}], ID: id})
	c.put(chromeEvent{Name: h.Type, Category: "send", Phase: "f", Bind: "e", At: c.micros(from), Process: r.Run + 1, Thread: thread, ID: id})
}

// async writes a slice that may overlap with others.
func (c *chrome) async(category, name string, run int, actor string, at time.Time, took time.Duration, args map[string]any) {
	c.ids++
	e := chromeEvent{Name: name, Category: category, Phase: "b", At: c.micros(at), Process: run + 1, Thread: c.threads[actorKey{run, actor}], ID: fmt.Sprintf("%s%d", category, c.ids), Args: args}
	c.put(e)
	e.Phase, e.At, e.Args = "e", c.micros(at.Add(took)), nil
	c.put(e)
}

// micros is a moment in microseconds since the trace's begin: since 1970 it
// would lose its nanoseconds in the readers' floats.
func (c *chrome) micros(at time.Time) json.Number { return microseconds(at.Sub(c.begin).Nanoseconds()) }

func microseconds(ns int64) json.Number {
	ns = max(ns, 0)
	return json.Number(fmt.Sprintf("%d.%03d", ns/1000, ns%1000))
}
