package metamcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/metamcp/metamcp/integration/askpage"
	"github.com/metamcp/metamcp/messages"
)

// A call may fail for something that its user can mend in a browser: a login, or a
// secret that is not stored. Then the user is sent there by the client, and the call
// is made anew. What is mended at the moment is a cure, of which each server has one
// at a time, whoever needs it.

// mostCures is how often one call is made anew.
const mostCures = 3

// cures are those of a host.
type cures struct {
	mu     sync.Mutex
	closed bool
	open   map[string]*cure
	ctx    context.Context
	stop   context.CancelFunc
	work   sync.WaitGroup
}

func newCures() *cures {
	c := &cures{open: map[string]*cure{}}
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
	key     string // of the cure
	local   bool   // only a browser on this machine can do it
	message string // for the user
	// mend mends it until ctx ends, and tells the address to go to once there is one.
	mend func(ctx context.Context, ready func(address string)) error
}

// cure is a remedy at work.
type cure struct {
	c      *cures
	r      *remedy
	cancel context.CancelFunc
	ready  chan struct{} // closed when the address is known, or there will be none
	done   chan struct{} // closed when it is over
	turn   chan struct{} // held by who asks its client, or whose client accepted
	at     invitation    // once ready
	err    error         // once done

	mu      sync.Mutex
	waiting int // calls
	// accepted is whose user goes there; the cure then outlives the calls, since
	// many clients give up sooner than people are done.
	accepted *asker
	over     bool
	after    []func() // to be done when it is over
}

// join returns the cure that is at work for a remedy, or begins it; nil: the host
// ends.
func (c *cures) join(r *remedy) *cure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if f := c.open[r.key]; f != nil {
		f.mu.Lock()
		f.waiting++
		f.mu.Unlock()
		return f
	}
	f := &cure{c: c, r: r, waiting: 1, ready: make(chan struct{}), done: make(chan struct{}), turn: make(chan struct{}, 1)}
	f.at.ID, f.at.Message = rand.Text(), r.message
	ctx, cancel := context.WithTimeout(c.ctx, askpage.TimeLimit)
	f.cancel = cancel
	c.open[r.key] = f
	c.work.Go(func() {
		defer cancel()
		var once sync.Once
		ready := func(address string) {
			once.Do(func() {
				f.at.Address = address
				close(f.ready)
			})
		}
		f.err = r.mend(ctx, ready)
		c.mu.Lock()
		delete(c.open, r.key)
		c.mu.Unlock()
		ready("")
		close(f.done)
		f.finish()
	})
	return f
}

// then does something when the cure is over. It must not block.
func (f *cure) then(do func()) {
	f.mu.Lock()
	over := f.over
	if !over {
		f.after = append(f.after, do)
	}
	f.mu.Unlock()
	if over {
		do()
	}
}

func (f *cure) finish() {
	f.mu.Lock()
	f.over = true
	after := f.after
	f.after = nil
	f.mu.Unlock()
	for _, do := range after {
		do()
	}
}

// leave says that a call does not wait any more. Nobody is left: the cure ends.
func (f *cure) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting--
	f.unwanted()
}

// unwanted ends the cure where nobody wants it. f.mu is held.
func (f *cure) unwanted() {
	if f.waiting == 0 && f.accepted == nil {
		f.cancel()
	}
}

// accept says that the user of a client goes there, for as long as that client is
// there.
func (f *cure) accept(s *asker) {
	f.mu.Lock()
	f.accepted = s
	f.mu.Unlock()
	stop := context.AfterFunc(s.ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.accepted = nil
		<-f.turn // another client may be asked
		f.unwanted()
	})
	f.then(func() { stop() })
}

// wait waits until the cure is over, and asks the client of a call to send its user
// there where no other one was asked. nil: it is mended. errPending says that the
// client has to be told so with the answer to its request.
func (f *cure) wait(ctx context.Context, s *asker, w *curable) error {
	select {
	case <-f.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	case f.turn <- struct{}{}:
	}
	if !takesStream(w.client) {
		f.accept(s)
		f.then(func() { f.at.over(w.client, w.call) }) // the request is over by then
		return errPending
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	f.then(cancel) // it may be over before the client answers
	client := s.session.Client(w.client, w.call)
	err := s.invite(asking, client, w.call, w.modern, &f.at)
	switch {
	case err == nil:
		f.accept(s)
	case errors.Is(err, errDeclined):
		f.decline()
		return err
	default:
		<-f.turn
		select {
		case <-f.done:
			return f.err
		default:
			return err
		}
	}
	select {
	case <-f.done:
		f.at.over(client, w.call)
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decline ends the cure for all who wait: their user does not want it.
func (f *cure) decline() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancel()
}

var errPending = errors.New("the user was sent to an address")

// curable is a call of a client that can send its user to an address. It takes the
// answer in the call's place.
type curable struct {
	s      *asker
	call   uint64
	client messages.ClientPort
	modern bool
	next   messages.ReplyPort
	// again makes the call anew, to be answered to the port.
	again  func(reply messages.ReplyPort)
	rounds int
}

// watch puts itself in the place of the port that takes the answer to a call, where
// its client can send its user to an address.
func (s *asker) watch(w curable, can messages.ClientCan) messages.ReplyPort {
	if s == nil || !can.URL || w.client == nil {
		return w.next
	}
	w.s = s
	return &w
}

// Answer implements messages.ReplyPort. It does not block.
func (w *curable) Answer(a *messages.Answer) {
	r := w.remedy(a)
	if r == nil || !w.s.begin(w.call, func(ctx context.Context) { w.cure(ctx, a, r) }) {
		w.next.Answer(a)
	}
}

// Flush implements messages.FlushPort.
func (w *curable) Flush() {
	if p, ok := w.next.(messages.FlushPort); ok {
		p.Flush()
	}
}

// cure waits for the cure, and answers or makes the call anew.
func (w *curable) cure(ctx context.Context, a *messages.Answer, r *remedy) {
	err := errEnded
	if f := w.s.e.cures.join(r); f != nil {
		err = f.wait(ctx, w.s, w)
		f.leave()
		if errors.Is(err, errPending) {
			w.next.Answer(&messages.Answer{Call: w.call, Server: a.Server, RPCError: f.at.required()})
			return
		}
	}
	if err == nil {
		w.rounds++
		w.again(w)
		return
	}
	own, failure := *a, *a.Err
	own.More = false
	if said := w.uncured(err); said != "" {
		failure.Details = append(slices.Clone(failure.Details), said)
	}
	own.Err = &failure
	w.next.Answer(&own)
}

var errEnded = errors.New("metamcp ends")

// uncured says for the model why nothing was mended; "": nobody tried.
func (w *curable) uncured(err error) string {
	switch {
	case errors.Is(err, errDeclined), errors.Is(err, askpage.ErrDeclined):
		return "The user was asked in the client, and declined."
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("The user was asked in the client, and was not done within %v.", askpage.TimeLimit)
	case errors.Is(err, errNoAnswer), errors.Is(err, errEnded), errors.Is(err, context.Canceled):
		return ""
	}
	return "What the user was asked for in the client failed: " + w.s.e.scrubbed(asError(err)).Message
}
