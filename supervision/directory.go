package supervision

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Directory tells anyone, without asking an actor, which servers there are and
// where their breakers live. The pool actor alone changes which there are, by
// replacing the whole snapshot. An [Entry] changes in place: its configuration by the
// pool, how the server does by its breaker.
type Directory struct {
	snapshot  atomic.Pointer[known]
	version   atomic.Uint64
	connected atomic.Int64
}

// known is one snapshot. It never changes.
type known struct {
	servers map[string]*Entry
	sorting sync.Once
	names   []string // sorted when they are asked for first
}

// Entry is one server in the directory. Its fields are safe to read from any
// goroutine.
type Entry struct {
	Breaker   *kernel.PID
	spec      atomic.Pointer[messages.ServerSpec]
	status    atomic.Pointer[messages.Status]
	live      atomic.Pointer[[]live]
	active    atomic.Bool
	tally     Tally
	refreshed atomic.Pointer[time.Time]
	retried   atomic.Pointer[time.Time]
	// instances is the number of the newest connection of the server, or of one
	// that was removed and had its name: what those say late is told apart by it.
	instances *atomic.Uint64
	// connected counts the servers with a connection; it is the directory's.
	connected *atomic.Int64
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

// MayRefresh says whether who asks is the first within pause, and may have the
// server list its tools anew.
func (e *Entry) MayRefresh(now time.Time, pause time.Duration) bool {
	return first(&e.refreshed, now, pause)
}

// MayRetry is MayRefresh for a listing that has failed, and is asked for more often.
func (e *Entry) MayRetry(now time.Time, pause time.Duration) bool {
	return first(&e.retried, now, pause)
}

// first says whether last is so long ago, and has it be now for one of those who ask.
func first(last *atomic.Pointer[time.Time], now time.Time, pause time.Duration) bool {
	before := last.Load()
	return (before == nil || now.Sub(*before) >= pause) && last.CompareAndSwap(before, &now)
}

// Lookup finds a server by its exact name.
func (d *Directory) Lookup(name string) (*Entry, bool) {
	k := d.snapshot.Load()
	if k == nil {
		return nil, false
	}
	e, ok := k.servers[name]
	return e, ok
}

// Names returns all servers' names, sorted. Whoever asks gets the same list and
// must not change it.
func (d *Directory) Names() []string {
	k := d.snapshot.Load()
	if k == nil {
		return nil
	}
	k.sorting.Do(func() { k.names = slices.Sorted(maps.Keys(k.servers)) })
	return k.names
}

// Version is another one after each change of the servers or of what is configured
// of them, for those who keep what they worked out of that.
func (d *Directory) Version() uint64 { return d.version.Load() }

// Connected is how many servers have a connection.
func (d *Directory) Connected() int { return int(d.connected.Load()) }

// Each calls do with every server, in no order.
func (d *Directory) Each(do func(e *Entry)) {
	if k := d.snapshot.Load(); k != nil {
		for _, e := range k.servers {
			do(e)
		}
	}
}

func (d *Directory) replace(change func(m map[string]*Entry)) {
	next := &known{servers: map[string]*Entry{}}
	if k := d.snapshot.Load(); k != nil {
		next.servers = maps.Clone(k.servers)
	}
	change(next.servers)
	d.snapshot.Store(next)
	d.version.Add(1)
}

// respec gives a server another configuration.
func (d *Directory) respec(e *Entry, spec *messages.ServerSpec) {
	e.spec.Store(spec)
	d.version.Add(1)
}

// tell says how a server does.
func (e *Entry) tell(s *messages.Status) {
	if old := e.status.Swap(s); old.Connected != s.Connected {
		if s.Connected {
			e.connected.Add(1)
		} else {
			e.connected.Add(-1)
		}
	}
}
