package metamcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/askpage"
)

// What is mended at the moment is a cure. Each belongs to one client: its address, its
// page and the name on that are nobody else's. Where several clients need the same
// thing each of them is asked, and what the first one brings serves all.

const (
	// maxCures bounds the cures of a host, and maxCuresEach those of one principal.
	maxCures, maxCuresEach = 48, 16
	// cureLook is how often a cure looks whether its client is still let in.
	cureLook = time.Second
	// mendedFor is how long it is known that something was mended: longer than a call
	// takes that failed for it.
	mendedFor = time.Hour
)

// Why a cure ended before its user was done.
var (
	errMended    = errors.New("somebody else has done it meanwhile")
	errAbandoned = errors.New("the call for which the user was asked is over")
	errLeft      = errors.New("the client is not let in any more")
)

// cures are those of a host.
type cures struct {
	mu     sync.Mutex // guards what follows, and the changing parts of each cure
	closed bool
	open   []*cure
	mended map[string]time.Time // subjects that were lately, and when
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup
}

func newCures() *cures {
	c := &cures{mended: map[string]time.Time{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

func (c *cures) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.work.Wait()
}

// remedy says how a failure is mended.
type remedy struct {
	subject string // what is mended, for all who need it
	local   bool   // only a browser on this machine can do it
	// single says that there is room for one user at a time; the others wait for as
	// long as patience, where their call does not say how long.
	single   bool
	patience time.Duration
	message  string // for the user
	// mend mends it until ctx ends, and tells the address to go to once there is one.
	mend func(ctx context.Context, ready func(address string)) error
}

// cure is a remedy at work for one client.
type cure struct {
	c     *cures
	r     *remedy
	s     *asker
	ctx   context.Context //nolint:containedctx // of the remedy's work
	stop  context.CancelCauseFunc
	ready chan struct{} // closed when the address is known, or there will be none
	done  chan struct{} // closed when it is over
	at    invitation    // once ready
	err   error         // once done; errAbandoned: who still waits begins a new one

	waiting int // calls
	// accepted says that the user goes there; the cure then outlives the calls, since
	// many clients give up sooner than people are done.
	accepted bool
	over     bool
	after    []func() // to be done when it is over
}

// place is where a call has come to that needs a remedy.
type place int

const (
	placeAsks  place = iota // the cure is new, and the call's client is to be asked
	placeJoins              // the call's client was asked for another call
	placeWaits              // another client was asked, and this one can be afterwards
)

// join returns the cure that is at work for a client, or begins it. Where there is
// room for one user alone it may be that of another client.
func (c *cures) join(s *asker, r *remedy) (*cure, place, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, 0, errEnded
	}
	var others *cure
	each, mine := 0, s.principal()
	for _, f := range c.open {
		switch {
		case f.r.subject == r.subject && f.s == s:
			f.waiting++
			return f, placeJoins, nil
		case f.r.subject == r.subject:
			others = f
		}
		if f.s.principal() == mine {
			each++
		}
	}
	if others != nil && r.single {
		others.waiting++
		return others, placeWaits, nil
	}
	if len(c.open) >= maxCures || each >= maxCuresEach {
		if mine == "" {
			return nil, 0, fmt.Errorf("users are being asked for %d things already, %d of them by clients without a token of their own, such as this one; call again when some are answered", len(c.open), each)
		}
		return nil, 0, fmt.Errorf("users are being asked for %d things already, %d of them by this client; answer those first", len(c.open), each)
	}
	return c.begin(s, r), placeAsks, nil
}

// begin begins a cure; c.mu is held.
func (c *cures) begin(s *asker, r *remedy) *cure {
	f := &cure{c: c, r: r, s: s, waiting: 1, ready: make(chan struct{}), done: make(chan struct{})}
	f.at.ID, f.at.Message = rand.Text(), r.message
	inTime, cancel := context.WithTimeout(s.ctx, askpage.TimeLimit)
	f.ctx, f.stop = context.WithCancelCause(inTime)
	ended := context.AfterFunc(c.ctx, func() { f.stop(errEnded) })
	c.open = append(c.open, f)
	c.work.Go(func() { f.lookAfter() })
	c.work.Go(func() {
		defer cancel()
		defer ended()
		f.work()
	})
	return f
}

// work mends, and tells who waits.
func (f *cure) work() {
	var once sync.Once
	ready := func(address string) {
		once.Do(func() {
			f.at.Address = address
			close(f.ready)
		})
	}
	err := f.r.mend(f.ctx, ready)
	if why := context.Cause(f.ctx); err != nil && why != nil {
		if err = why; errors.Is(why, errMended) {
			err = nil
		}
	}
	f.err = err
	f.c.remove(f, err == nil)
	f.stop(context.Canceled) // for lookAfter
	ready("")
	close(f.done)
	f.c.mu.Lock()
	f.over = true
	after := f.after
	f.after = nil
	f.c.mu.Unlock()
	for _, do := range after {
		do()
	}
}

// mendedSince says whether one of the subjects was mended after a time that is not long
// ago. Where nothing is lacking any more, it was by a cure that is still at work, too:
// what a user brings is in force before the cure that asked for it is over.
func (c *cures) mendedSince(t time.Time, nothingLacks bool, subjects ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, subject := range subjects {
		if at, ok := c.mended[subject]; ok && !at.Before(t) {
			return true
		}
		if nothingLacks && slices.ContainsFunc(c.open, func(f *cure) bool { return f.r.subject == subject }) {
			return true
		}
	}
	return false
}

// remove takes a cure out, so that the next call begins a new one. What was mended is
// mended for all: the others that were at it end.
func (c *cures) remove(f *cure, mended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if mended {
		now := time.Now()
		maps.DeleteFunc(c.mended, func(_ string, at time.Time) bool { return now.Sub(at) > mendedFor })
		c.mended[f.r.subject] = now
	}
	rest := c.open[:0]
	for _, o := range c.open {
		switch {
		case o == f:
			continue
		case mended && o.r.subject == f.r.subject:
			o.stop(errMended)
			continue
		}
		rest = append(rest, o)
	}
	clear(c.open[len(rest):])
	c.open = rest
}

// lookAfter ends the cure of a client that is not let in any more, until it is over.
func (f *cure) lookAfter() {
	look := time.NewTicker(cureLook)
	defer look.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-look.C:
			if !f.s.letIn() {
				f.end(errLeft)
			}
		}
	}
}

// end ends the cure for all who wait for it, at once.
func (f *cure) end(why error) {
	f.c.remove(f, false)
	f.stop(why)
}

// then does something when the cure is over. It must not block.
func (f *cure) then(do func()) {
	f.c.mu.Lock()
	over := f.over
	if !over {
		f.after = append(f.after, do)
	}
	f.c.mu.Unlock()
	if over {
		do()
	}
}

// accept says that the user goes there.
func (f *cure) accept() {
	f.c.mu.Lock()
	f.accepted = true
	f.c.mu.Unlock()
}

// leave says that a call does not wait any more. Nobody is left, and nobody went
// there: the cure ends.
func (f *cure) leave() {
	f.c.mu.Lock()
	f.waiting--
	unwanted := f.waiting == 0 && !f.accepted
	f.c.mu.Unlock()
	if unwanted {
		f.end(errAbandoned)
	}
}
