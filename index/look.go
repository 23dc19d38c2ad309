package index

import (
	"context"
	"sync"
	"time"
)

// A look is the time until the vectors that the store has are there: the store is
// opened, and the tools are looked up. A search waits for it a moment; that the others
// are embedded may take minutes, and is waited for by nobody.
type look struct {
	once sync.Once
	over chan struct{}
}

func newLook() *look { return &look{over: make(chan struct{})} }

// end ends the look; what comes later is no part of it. It does nothing with nil.
func (l *look) end() {
	if l != nil {
		l.once.Do(func() { close(l.over) })
	}
}

// wait waits until the look or ctx ends, for no longer than until. It does not wait
// with nil.
func (l *look) wait(ctx context.Context, until time.Time) {
	if l == nil {
		return
	}
	select {
	case <-l.over: // as for nearly all searches, which need no timer then
		return
	default:
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-l.over:
	case <-timer.C:
	case <-ctx.Done():
	}
}
