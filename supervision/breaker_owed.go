package supervision

import (
	"slices"

	"github.com/metamcp/metamcp/messages"
)

// lists reports whether the instance is one whose listing counts for those to come.
func (in *instance) lists() bool {
	return !in.retire && (in.phase == phaseReady || in.phase == phaseIdle)
}

// owed is what the catalog has not seen yet of what its children have announced: by
// instance, how many changes of it have to be listed. nil: there is nothing.
func (b *breakerActor) owed() (owed map[uint64]uint64) {
	for n, in := range b.instances {
		changes := in.gauge.Changes.Load()
		if !in.lists() || in.gauge.Listed.Load() >= changes {
			continue
		}
		if owed == nil {
			owed = map[uint64]uint64{}
		}
		owed[n] = changes
	}
	return owed
}

// owes reports whether the instance has still not listed what its child had announced when
// a contact was asked for.
func (in *instance) owes(c *messages.Contact) bool {
	return in.lists() && in.gauge.Listed.Load() < c.Needs[in.n]
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

// sooner reports whether in is to list its tools rather than other: one that is waited for,
// else the one with the least to do.
func (b *breakerActor) sooner(in, other *instance) bool {
	waited := slices.ContainsFunc(b.contacts, in.owes)
	if waited != slices.ContainsFunc(b.contacts, other.owes) {
		return waited
	}
	return lessToDo(in, other)
}

// answerListed follows a listing that the catalog has taken in. Who came after a change was
// announced that is in none yet, since that one had begun before, waits on.
func (b *breakerActor) answerListed() {
	b.answerSome(func(c *messages.Contact) bool { return !b.owe(c) }, nil)
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
