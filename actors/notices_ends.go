package actors

import (
	"slices"

	"github.com/metamcp/metamcp/supervision/kernel"
)

func (a *noticesActor) onGone(ctx *kernel.Context, m *childGone) {
	a.running[m.server] = slices.DeleteFunc(a.running[m.server], func(c runningChild) bool { return c.instance == m.instance })
	if len(a.running[m.server]) == 0 {
		delete(a.running, m.server)
	}
	for of, t := range a.topics {
		if of.Server == m.server && t.at == m.instance {
			t.at = 0
			a.lostTopic(ctx, of, t)
		}
	}
}

// lostTopic makes a subscription that no child has be renewed, if anybody has
// it.
func (a *noticesActor) lostTopic(ctx *kernel.Context, of Topic, t *topic) {
	if len(t.who) == 0 {
		a.drop(ctx, of, t)
		return
	}
	r := a.renewal[of.Server]
	if r == nil {
		r = &renewal{}
		a.renewal[of.Server] = r
	}
	if r.timer == nil {
		r.pause = min(max(2*r.pause, firstRenewal), lastRenewal)
		r.timer = ctx.After(r.pause, &renewDue{of.Server})
	}
}

// renewed forgets a pause: the server runs.
func (a *noticesActor) renewed(server string) {
	if r := a.renewal[server]; r != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// onRenewDue asks again for what was lost; that starts the server.
func (a *noticesActor) onRenewDue(ctx *kernel.Context, m *renewDue) {
	r := a.renewal[m.server]
	if r == nil || r.timer == nil {
		return
	}
	r.timer = nil
	_, configured := a.e.dir.Lookup(m.server)
	lost := false
	for of, t := range a.topics {
		if of.Server != m.server || t.at != 0 || t.asking {
			continue
		}
		if !configured {
			for s := range t.who {
				a.less(s.port)
			}
			delete(a.topics, of)
			continue
		}
		lost = true
		a.ask(ctx, of, t)
	}
	if !lost {
		delete(a.renewal, m.server)
	}
}
