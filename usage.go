package metamcp

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/proctree"
	"github.com/metamcp/metamcp/messages"
)

// timesKept is how many calls of a server its latencies are of.
const timesKept = 256

// callTimes counts the calls of each server, and how long the last ones took.
// Its zero value is ready.
type callTimes struct{ by sync.Map } // server → *serverTimes

type serverTimes struct {
	mu            sync.Mutex
	total, failed uint64
	last          []time.Duration // a ring, once it is full
}

// ended takes note of a call, if there is its server: a call may also end before
// anybody has looked, and its name is whatever the client sent.
func (t *callTimes) ended(r *actors.CallReport, thereIs func(server string) bool) {
	value, ok := t.by.Load(r.Call.Server)
	if !ok {
		if !thereIs(r.Call.Server) {
			return
		}
		value, _ = t.by.LoadOrStore(r.Call.Server, &serverTimes{})
	}
	s := value.(*serverTimes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) < timesKept {
		s.last = append(s.last, r.Took)
	} else {
		s.last[s.total%timesKept] = r.Took
	}
	s.total++
	if r.Outcome != actors.OutcomeOK {
		s.failed++
	}
}

// keepOnly forgets the servers that are there no more.
func (t *callTimes) keepOnly(thereIs func(server string) bool) {
	t.by.Range(func(server, _ any) bool {
		if !thereIs(server.(string)) {
			t.by.Delete(server)
		}
		return true
	})
}

// of says how the calls of a server went.
func (t *callTimes) of(server string) messages.ServerCalls {
	value, ok := t.by.Load(server)
	if !ok {
		return messages.ServerCalls{}
	}
	s := value.(*serverTimes)
	s.mu.Lock()
	c := messages.ServerCalls{Total: s.total, Failed: s.failed}
	last := slices.Clone(s.last)
	s.mu.Unlock()
	slices.Sort(last)
	const half, nearlyAll = 50, 99 // percent
	at := func(percent int) float64 {
		return float64(last[(len(last)-1)*percent/100]) / float64(time.Millisecond)
	}
	if len(last) > 0 {
		c.P50, c.P99 = at(half), at(nearlyAll)
	}
	return c
}

// measure fills in what the processes of a status take.
func (e *Engine) measure(st *messages.HostStatus) {
	sample := e.procs.Take()
	if sample == nil {
		return
	}
	st.Usage = usage(sample.Only(os.Getpid()))
	for i := range st.Servers {
		var pids []int
		for _, in := range st.Servers[i].Instances {
			if in.PID != 0 {
				pids = append(pids, in.PID)
			}
		}
		if pids != nil {
			st.Servers[i].Usage = usage(sample.Of(pids...))
		}
	}
}

func usage(u proctree.Use) *messages.ProcessUsage {
	return &messages.ProcessUsage{Processes: u.Processes, Memory: u.Memory, CPU: u.CPU.Milliseconds()}
}
