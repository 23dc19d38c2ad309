package actors

import (
	"slices"
	"time"

	"github.com/metamcp/metamcp/supervision/kernel"
)

func (a *noticesActor) onGone(ctx *kernel.Context, m *childGone) {
	a.running[m.server] = slices.DeleteFunc(a.running[m.server], func(c runningChild) bool { return c.instance == m.instance })
	if len(a.running[m.server]) == 0 {
		delete(a.running, m.server)
	}
	a.lost(ctx, m.server, m.instance)
}

// lost takes notice that a child does not have its subscriptions any more.
func (a *noticesActor) lost(ctx *kernel.Context, server string, instance uint64) {
	for of, t := range a.topics {
		if of.Server == server && t.at == instance {
			t.at = 0
			a.lostTopic(ctx, of, t)
		}
	}
}

func (a *noticesActor) onLost(ctx *kernel.Context, m *childLost) {
	owners := []uint64{0}
	if c := a.child(m.server, m.instance); c != nil && c.owner != 0 {
		owners = append(owners, c.owner)
	}
	for _, uri := range m.uris {
		for _, owner := range owners {
			of := topicAt{Topic{m.server, uri}, owner}
			if t := a.topics[of]; t != nil && t.at == m.instance {
				t.at = 0
				a.lostTopic(ctx, of, t)
			}
		}
	}
}

// lostTopic makes a subscription that no child has be renewed, if anybody has
// it.
func (a *noticesActor) lostTopic(ctx *kernel.Context, of topicAt, t *topic) {
	if len(t.who) == 0 {
		a.drop(ctx, of, t)
		return
	}
	r := a.renewal[of.place()]
	if r == nil {
		r = &renewal{}
		a.renewal[of.place()] = r
	}
	if r.timer == nil {
		if !r.since.IsZero() && time.Since(r.since) > lastRenewal {
			r.pause = 0 // it is no server that is lost again and again
		}
		r.since = time.Time{}
		r.pause = min(max(2*r.pause, firstRenewal), lastRenewal)
		r.timer = ctx.After(r.pause, &renewDue{of.place()})
	}
}

// renewed ends the wait for a renewal: the server runs.
func (a *noticesActor) renewed(at place) {
	if r := a.renewal[at]; r != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// onRenewDue asks again for what was lost; that starts the server.
func (a *noticesActor) onRenewDue(ctx *kernel.Context, m *renewDue) {
	r := a.renewal[m.place]
	if r == nil || r.timer == nil {
		return
	}
	r.timer = nil
	if _, configured := a.e.dir.Lookup(m.server); configured {
		if !a.renew(ctx, m.place) {
			delete(a.renewal, m.place)
		}
		return
	}
	for of, t := range a.topics {
		if of.place() != m.place || t.at != 0 || t.asking {
			continue
		}
		for s := range t.who {
			a.less(s.port, s.session)
		}
		a.remove(of)
	}
	delete(a.renewal, m.place)
}

// renew asks for what no child of a place has, and says whether there is any of
// that.
func (a *noticesActor) renew(ctx *kernel.Context, at place) (lost bool) {
	if a.places[at] == 0 {
		return false
	}
	for of, t := range a.topics {
		if of.place() != at || t.at != 0 || t.asking {
			continue
		}
		lost = true
		a.regroup(ctx, of, t)
		if len(t.who) == 0 {
			a.remove(of)
			continue
		}
		a.ask(ctx, of, t)
	}
	return lost
}

// regroup moves who is subscribed to where it has its instance now, which is
// somewhere else after a change of the server's scope.
func (a *noticesActor) regroup(ctx *kernel.Context, of topicAt, t *topic) {
	for s := range t.who {
		to := topicAt{of.Topic, a.owner(of.Server, s.session)}
		if to == of {
			continue
		}
		delete(t.who, s)
		next := a.topics[to]
		if next == nil {
			next = a.add(to)
		}
		if next.who[s] {
			a.less(s.port, s.session) // it asked there as well
			continue
		}
		next.who[s] = true
		if next.at == 0 && !next.asking {
			a.ask(ctx, to, next)
		}
	}
}
