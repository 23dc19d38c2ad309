package messages

import "sync/atomic"

// Burst is requests that came in one read of a client. What is written to
// children for them may wait for the last of them, so that each child gets its part
// in one write. The zero value is a burst that goes on; a nil *Burst is over. Its
// methods may be called from any goroutine.
type Burst struct {
	held atomic.Pointer[corked]
}

// Corked is who holds something back until a burst is over.
type Corked interface {
	// Uncork writes what is held back. It never blocks.
	Uncork()
}

// corked is a list of those who wait.
type corked struct {
	who  Corked
	next *corked
}

// over stands at the front of the list of a burst that is.
var over = new(corked)

// Hold has who uncorked at the end of the burst. It returns false where that has
// come: nothing may be held back then.
func (b *Burst) Hold(who Corked) bool {
	if b == nil {
		return false
	}
	c := &corked{who: who}
	for {
		c.next = b.held.Load()
		if c.next == over {
			return false
		}
		if b.held.CompareAndSwap(c.next, c) {
			return true
		}
	}
}

// End uncorks, before it returns, all who hold something back, in the order in which
// they began to, and once for each Hold that returned true.
func (b *Burst) End() {
	if b == nil {
		return
	}
	var first *corked
	for c := b.held.Swap(over); c != nil && c != over; {
		c.next, first, c = first, c, c.next
	}
	for c := first; c != nil; c = c.next {
		c.who.Uncork()
	}
}
