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

// concerned are the topics that a child's update is for. What an instance of a
// session tells is for that session alone; a shared server's instances all speak of
// the same resources.
func (a *noticesActor) concerned(m *childNotice, uri string) (who []*topic) {
	of := topicAt{Topic: Topic{m.server, uri}}
	if t := a.topics[of]; t != nil && (t.at == m.instance || !a.scoped(m.server)) {
		who = append(who, t)
	}
	if c := a.child(m.server, m.instance); c != nil && c.owner != 0 {
		of.owner = c.owner
		if t := a.topics[of]; t != nil && t.at == m.instance {
			who = append(who, t)
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
