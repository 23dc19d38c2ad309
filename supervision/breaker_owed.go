package supervision

import (
	"slices"

	"github.com/metamcp/metamcp/messages"
)

// lists reports whether the instance is one whose listing counts for those to come.
func (in *instance) lists() bool {
	return !in.retire && (in.phase == phaseReady || in.phase == phaseIdle)
}

// owed is what a contact has to wait for of what the children have announced: by instance,
// how many changes of it have to be listed. nil: there is nothing. What has failed to be
// listed is asked for again for a contact that is there for that.
func (b *breakerActor) owed(c *messages.Contact) (owed map[uint64]uint64) {
	for n, in := range b.instances {
		changes := in.gauge.Changes.Load()
		if !c.Refresh {
			changes = in.gauge.announced()
		}
		if !in.lists() || in.done(c) >= changes {
			continue
		}
		if owed == nil {
			owed = map[uint64]uint64{}
		}
		owed[n] = changes
	}
	return owed
}

// done is how many of an instance's changes a contact does not wait for.
func (in *instance) done(c *messages.Contact) uint64 {
	if c.Retry {
		return in.gauge.Listed.Load()
	}
	return in.gauge.Tried.Load()
}

// owes reports whether the instance has still not listed what its child had announced when
// a contact was asked for.
func (in *instance) owes(c *messages.Contact) bool {
	return in.lists() && in.done(c) < c.Needs[in.n]
}

// tried takes notice of how a listing of an instance has ended. One of an older configuration
// says nothing of any change.
func (b *breakerActor) tried(in *instance, m *messages.Cataloged) {
	if m.Changes == 0 {
		return
	}
	g := &in.gauge
	if m.Err == nil {
		g.Unlisted.Store(nil)
		g.Listed.Store(max(m.Changes, g.Listed.Load()))
	} else {
		g.Unlisted.Store(b.deps.Scrub(m.Err))
	}
	g.Tried.Store(max(m.Changes, g.Tried.Load())) // last: who finds that it is over finds the rest
}

// owe is owes for all instances.
func (b *breakerActor) owe(c *messages.Contact) bool {
	for n := range c.Needs {
		if in := b.instances[n]; in != nil && in.owes(c) {
			return true
		}
	}
	return false
}

// waited reports whether somebody waits for a listing of this very instance.
func (b *breakerActor) waited(in *instance) bool { return slices.ContainsFunc(b.contacts, in.owes) }

// sooner reports whether in is to list its tools rather than other: one that is waited for,
// else one whose last listing has not failed, else the one with the least to do.
func (b *breakerActor) sooner(in, other *instance) bool {
	if waited := b.waited(in); waited != b.waited(other) {
		return waited
	}
	if failed := in.gauge.Unlisted.Load() != nil; failed != (other.gauge.Unlisted.Load() != nil) {
		return !failed
	}
	return lessToDo(in, other)
}

// answerListed follows a listing that the catalog has taken in. Who came after a change was
// announced that is in none yet, since that one had begun before, waits on.
func (b *breakerActor) answerListed() {
	b.answerSome(func(c *messages.Contact) bool { return !b.owe(c) }, nil)
}

// answerUnlisted follows a listing that has failed, of a server of which the catalog has one.
// For who wanted to know what came of a change that was announced, what a child that runs has
// listed stands. Others wait on where there is a child that has not failed to list, too.
func (b *breakerActor) answerUnlisted(err *messages.Error) {
	another, stands := false, false
	for _, in := range b.instances {
		if in.lists() {
			another = another || in.gauge.Unlisted.Load() == nil
			stands = stands || in.gauge.listed()
		}
	}
	b.answerSome(func(c *messages.Contact) bool { return c.Retry || !another && (!c.Announced || !stands) }, err)
	if stands {
		b.answerSome(func(c *messages.Contact) bool { return c.Announced && !b.owe(c) }, nil)
	}
}

// answerSome answers those of whom over is true.
func (b *breakerActor) answerSome(over func(c *messages.Contact) bool, err *messages.Error) {
	var answered []*messages.Contact
	b.contacts = slices.DeleteFunc(b.contacts, func(c *messages.Contact) bool {
		if !over(c) {
			return false
		}
		answered = append(answered, c)
		return true
	})
	for _, c := range answered {
		b.contacted(c, err)
	}
}
