package actors

import (
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// scoped says whether each session has instances of its own of a server.
func (a *noticesActor) scoped(server string) bool {
	entry, ok := a.e.dir.Lookup(server)
	return ok && entry.Spec().Scope == messages.ScopeSession
}

// owner is whose instance a session's subscription is made at: what the breaker
// finds for a call of the session.
func (a *noticesActor) owner(server string, session uint64) uint64 {
	if session == 0 || !a.scoped(server) {
		return 0
	}
	if _, open := a.e.open.Load(session); !open {
		return 0
	}
	return session
}

// misplaced says whether somebody has a topic whose own instance is another place's.
func (a *noticesActor) misplaced(of topicAt, t *topic) bool {
	if of.owner == 0 && !a.scoped(of.Server) {
		return false
	}
	for s := range t.who {
		if a.owner(of.Server, s.session) != of.owner {
			return true
		}
	}
	return false
}

// ownerOf is whose instance a child is, as far as it is known yet.
func (a *noticesActor) ownerOf(server string, child *kernel.PID) uint64 {
	if entry, ok := a.e.dir.Lookup(server); ok {
		for _, in := range entry.Instances() {
			if in.Actor == child.GetId() {
				return in.Session
			}
		}
	}
	return 0
}

// Bounds of the search for what a changed resource is a part of.
const (
	maxBorders = 64
	longestURI = 8 << 10
)

// concern is a topic that an update is for.
type concern struct {
	topic  *topic
	uri    string // of the topic
	within bool   // the update is of a part of that
}

// concerned are the topics that a child's update is for: those of this very resource,
// and those of which it is a part, since a server may tell of parts of what was
// subscribed to.
func (a *noticesActor) concerned(m *childNotice, uri string) (who []concern) {
	owner := uint64(0)
	if c := a.child(m.server, m.instance); c != nil {
		owner = c.owner
	}
	if a.places[place{m.server, 0}] == 0 && a.places[place{m.server, owner}] == 0 {
		return nil
	}
	who = a.concernedWith(nil, m, owner, uri)
	if len(uri) > longestURI {
		return who
	}
	exact, borders := len(who), 0
	for i := len(uri) - 1; i > 0 && borders < maxBorders; i-- {
		switch uri[i] {
		case '/', '?', '#':
			borders++
			if i+1 < len(uri) {
				who = a.concernedWith(who, m, owner, uri[:i+1])
			}
			if last := uri[i-1]; last != '/' && last != '?' && last != '#' { // else it is looked for next
				who = a.concernedWith(who, m, owner, uri[:i])
			}
		}
	}
	for i := range who[exact:] {
		who[exact+i].within = true
	}
	return who
}

// concernedWith appends the topics of one URI. What an instance of a session tells
// is for that session alone; a shared server's instances all speak of the same
// resources.
func (a *noticesActor) concernedWith(who []concern, m *childNotice, owner uint64, uri string) []concern {
	of := topicAt{Topic: Topic{m.server, uri}}
	if t := a.topics[of]; t != nil && (t.at == m.instance || !a.scoped(m.server)) {
		who = append(who, concern{topic: t, uri: uri})
	}
	if of.owner = owner; owner != 0 {
		if t := a.topics[of]; t != nil && t.at == m.instance {
			who = append(who, concern{topic: t, uri: uri})
		}
	}
	return who
}

func (a *noticesActor) add(of topicAt) *topic {
	t := &topic{who: map[subscriber]bool{}}
	a.topics[of] = t
	a.places[of.place()]++
	return t
}

// remove forgets a topic, and how often its server was lost with the last one that
// there is of it.
func (a *noticesActor) remove(of topicAt) {
	delete(a.topics, of)
	at := of.place()
	if a.places[at]--; a.places[at] > 0 {
		return
	}
	delete(a.places, at)
	if r := a.renewal[at]; r != nil {
		r.timer.Stop()
		delete(a.renewal, at)
	}
}
