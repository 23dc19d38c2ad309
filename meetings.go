package metamcp

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// meetings are the contacts of all searches with servers that nothing is known of. A
// server is contacted once for all who search meanwhile, and once more for those who name
// it, and not more than most are at a time: a search that contacted thousands would have
// the pool refuse most of them and end every idle child for the rest. It is safe for any
// goroutine.
type meetings struct {
	contact func(server string, named bool, port messages.ContactPort)
	most    int

	mu     sync.Mutex
	under  map[string]*meeting // way, by server
	askers map[*meetingAsker]struct{}
	last   string    // server that was contacted: the next search begins behind it, so that each has its turn
	full   time.Time // when the pool refused a contact
}

// meeting is a contact that is under way.
type meeting struct {
	at     time.Time
	named  bool // so that no call has its place
	askers []*meetingAsker
}

// maxMeetings is how many servers searches contact at a time: enough to always have
// some to start, and never fewer than users have who wait for the first of them to be
// downloaded.
func maxMeetings(p config.PoolSettings) int {
	const least, times = 64, 4
	return max(least, times*maxStarts(p))
}

func newMeetings(most int, contact func(server string, named bool, port messages.ContactPort)) *meetings {
	return &meetings{contact: contact, most: most, under: map[string]*meeting{}, askers: map[*meetingAsker]struct{}{}}
}

// meetingAsker is one search. Its methods are for one goroutine.
type meetingAsker struct {
	m     *meetings
	named bool
	heard func(server string, err *Error)
	more  chan struct{} // gets one where it may go on to begin
	left  []string      // to be contacted; under mu
	gone  bool          // under mu
}

// ask is for a search that wants to meet the servers, which are sorted: it contacts them
// with each begin, as far as it may, and hears of each once, from any goroutine and not
// after leave. heard must not block. One that names its server is not held up by others, and
// waits for no contact that calls may end.
func (m *meetings) ask(servers []string, named bool, heard func(server string, err *Error)) *meetingAsker {
	a := &meetingAsker{m: m, named: named, heard: heard, more: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	const forgotten = 10 * time.Minute // what has not answered for so long is no longer counted
	maps.DeleteFunc(m.under, func(_ string, one *meeting) bool { return time.Since(one.at) > forgotten })
	m.askers[a] = struct{}{}
	first, found := slices.BinarySearch(servers, m.last)
	if found {
		first++
	}
	for _, server := range slices.Concat(servers[first:], servers[:first]) {
		if !m.join(a, server) {
			a.left = append(a.left, server)
		}
	}
	return a
}

// join has a hear of a contact that is under way, if one is that will do. m.mu is held.
func (m *meetings) join(a *meetingAsker, server string) bool {
	one := m.under[server]
	if one == nil || a.named && !one.named {
		return false
	}
	one.askers = append(one.askers, a)
	return true
}

// leave is for a search that waits no longer. What is under way goes on until it is
// over, or a call needs its place.
func (a *meetingAsker) leave() {
	m := a.m
	m.mu.Lock()
	defer m.mu.Unlock()
	a.gone = true
	delete(m.askers, a)
	for _, one := range m.under {
		one.askers = slices.DeleteFunc(one.askers, func(other *meetingAsker) bool { return other == a })
	}
}

// begin contacts as many servers as may be now.
func (a *meetingAsker) begin() {
	for {
		server, one := a.next()
		if one == nil {
			return
		}
		a.m.contact(server, a.named, contactFunc(func(err *Error) { a.m.end(server, one, err) }))
	}
}

// next is the server to contact; a nil meeting: none is now.
func (a *meetingAsker) next() (string, *meeting) {
	m := a.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(a.left) > 0 {
		server := a.left[0]
		switch {
		case m.join(a, server):
			a.left = a.left[1:]
			continue
		case a.named:
		case time.Since(m.full) < fullPause:
			for _, server := range a.left {
				a.heard(server, errMeetingFull(server))
			}
			a.left = nil
			return "", nil
		case len(m.under) >= m.most:
			return "", nil
		}
		one := &meeting{at: time.Now(), named: a.named, askers: []*meetingAsker{a}}
		m.under[server], m.last, a.left = one, server, a.left[1:]
		return server, one
	}
	return "", nil
}

// fullPause is how long no search contacts another server after the pool has refused
// one.
const fullPause = 5 * time.Second

func errMeetingFull(server string) *Error {
	return &Error{
		Code: messages.CodePoolSaturated, Server: server, Retryable: true,
		Message: "the pool had no place for another server a moment ago", Hint: "Try again in some seconds.",
	}
}

// end is for a contact that was answered.
func (m *meetings) end(server string, one *meeting, err *Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.under[server] == one {
		delete(m.under, server)
	}
	if err != nil && err.Code == messages.CodePoolSaturated {
		m.full = time.Now()
	}
	for _, a := range one.askers {
		if !a.gone {
			a.heard(server, err)
		}
	}
	for a := range m.askers {
		if len(a.left) == 0 {
			continue
		}
		select {
		case a.more <- struct{}{}:
		default: // it was told already
		}
	}
}
