package supervision

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Directory tells anyone, without asking an actor, which servers there are and
// where their breakers live. The pool actor alone changes it, by replacing the
// whole snapshot.
type Directory struct {
	snapshot atomic.Pointer[map[string]*Entry]
}

// Entry is one server in the directory. Its fields are safe to read from any
// goroutine.
type Entry struct {
	Breaker *kernel.PID
	spec    atomic.Pointer[messages.ServerSpec]
	status  atomic.Pointer[messages.Status]
	live    atomic.Pointer[[]live]
	active  atomic.Bool
	tally   Tally
}

// Spec is the server's present configuration.
func (e *Entry) Spec() *messages.ServerSpec { return e.spec.Load() }

// Status is what the server's breaker last said of it.
func (e *Entry) Status() messages.Status {
	s := *e.status.Load()
	if s.State == messages.StateIdle && s.Connected && e.active.Load() {
		s.State = messages.StateActive
	}
	return s
}

// Lookup finds a server by its exact name.
func (d *Directory) Lookup(name string) (*Entry, bool) {
	m := d.snapshot.Load()
	if m == nil {
		return nil, false
	}
	e, ok := (*m)[name]
	return e, ok
}

// Names returns all servers' names, sorted.
func (d *Directory) Names() []string {
	m := d.snapshot.Load()
	if m == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(*m))
}

// Each calls do with every server, in no order.
func (d *Directory) Each(do func(e *Entry)) {
	if m := d.snapshot.Load(); m != nil {
		for _, e := range *m {
			do(e)
		}
	}
}

func (d *Directory) replace(change func(m map[string]*Entry)) {
	next := map[string]*Entry{}
	if m := d.snapshot.Load(); m != nil {
		next = maps.Clone(*m)
	}
	change(next)
	d.snapshot.Store(&next)
}
