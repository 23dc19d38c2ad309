package metamcp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/metamcp/metamcp/integration/askpage"
	"github.com/metamcp/metamcp/messages"
)

// A call may fail for something that its user can mend in a browser: a login, or a
// secret that is not stored. Then the user is sent there by the client, and the call
// is made anew.

// mostCures is how often one call is made anew.
const mostCures = 3

// Why a call goes on without what its user was to mend.
var (
	errPending = errors.New("the user was sent to an address")
	errEnded   = errors.New("metamcp ends")
	errBusy    = errors.New("the time of the call is over; the user is still being asked for it, on behalf of another call of this client. Call again when that is done")
	errTurn    = errors.New("the time of the call is over; another client was asked first, and there is room for one at a time. Call again in a while")
	errNoPlace = errors.New("the time of the call is over, and the address to send the user to is not known yet. Call again with a longer timeoutMs")
)

// wait waits until the cure is over; a call that began it asks its client to send its
// user there. nil: it is mended. errPending says that the client has to be told so
// with the answer to its request, and errAbandoned that a new cure is needed.
func (f *cure) wait(ctx context.Context, w *curable, at place) error {
	if at == placeAsks {
		if err := f.ask(ctx, w); err != nil {
			return err
		}
	}
	late, why := w.late(f, at)
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return why
	}
	switch {
	case at == placeAsks:
		f.at.over(f.s.session.Client(w.client, w.call), w.call)
	case at == placeWaits && f.err != nil:
		return errAbandoned // now its own user is asked
	}
	return f.err
}

// late is when a call that waits for another one gives up, and what it says then. The
// time of a call stands still while its own client is asked.
func (w *curable) late(f *cure, at place) (<-chan time.Time, error) {
	until, why := w.until, errBusy
	if at == placeWaits {
		why = errTurn
		if until.IsZero() {
			until = w.began.Add(f.r.patience)
		}
	}
	if at == placeAsks || until.IsZero() {
		return nil, nil
	}
	return time.After(time.Until(until)), why
}

// ask asks the client to send its user to the address of the cure; nil: the user goes.
// Otherwise the cure is over, but with errPending.
func (f *cure) ask(ctx context.Context, w *curable) error {
	var late <-chan time.Time
	if !w.until.IsZero() {
		late = time.After(time.Until(w.until))
	}
	select {
	case <-f.ready:
	case <-ctx.Done():
		f.end(errAbandoned)
		return ctx.Err()
	case <-late:
		f.end(errAbandoned)
		return errNoPlace
	}
	if f.at.Address == "" {
		<-f.done
		return f.err
	}
	if !takesStream(w.client) {
		f.accept()
		f.then(func() { f.at.over(w.client, w.call) }) // the request is over by then
		return errPending
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	f.then(cancel) // it may be over before the client answers
	err := f.s.invite(asking, f.s.session.Client(w.client, w.call), w.call, w.modern, &f.at)
	switch {
	case err == nil:
		f.accept()
		return nil
	case ctx.Err() != nil:
		f.end(errAbandoned)
		return err
	case errors.Is(err, errDeclined), errors.Is(err, errNoAnswer):
		f.end(err) // for all calls of this client, and of no other
		return err
	}
	<-f.done
	return f.err
}

// curable is a call of a client that can send its user to an address. It takes the
// answer in the call's place.
type curable struct {
	s      *asker
	call   uint64
	client messages.ClientPort
	modern bool
	next   messages.ReplyPort
	// began is when the call came, until when it has to be answered; zero: it does not
	// say so.
	began, until time.Time
	tried        time.Time // when the call was made, last
	// again makes the call anew, to be answered to the port.
	again  func(reply messages.ReplyPort)
	rounds int
}

// cures says whether the calls of a client may be curable: it can send its user to an
// address. A nil asker cures nothing.
func (s *asker) cures(client messages.ClientPort, can messages.ClientCan) bool {
	return s != nil && can.URL && client != nil
}

// watch is the port that takes the answer to a curable call, for its own next one.
func (s *asker) watch(w *curable) messages.ReplyPort {
	w.s, w.began = s, time.Now()
	w.tried = w.began
	return w
}

// Answer implements messages.ReplyPort. It does not block: what a server lacks is looked
// for in files, and perhaps in a keyring that asks its user first, so that is none of the
// actors' that answer.
func (w *curable) Answer(a *messages.Answer) {
	spec := w.mayBeCured(a)
	if spec == nil || !w.s.begin(w.call, func(ctx context.Context) { w.mend(ctx, a, spec) }) {
		w.next.Answer(a)
	}
}

// anew makes the call again.
func (w *curable) anew() {
	w.rounds++
	w.tried = time.Now()
	w.again(w)
}

// Flush implements messages.FlushPort.
func (w *curable) Flush() {
	if p, ok := w.next.(messages.FlushPort); ok {
		p.Flush()
	}
}

// cure waits for the cure, and answers or makes the call anew.
func (w *curable) cure(ctx context.Context, a *messages.Answer, r *remedy) {
	err, begun := errAbandoned, time.Now()
	for errors.Is(err, errAbandoned) && ctx.Err() == nil {
		var f *cure
		var at place
		if f, at, err = w.s.e.cures.join(w.s, r); err != nil {
			break
		}
		err = f.wait(ctx, w, at)
		f.leave()
		if errors.Is(err, errPending) {
			w.next.Answer(&messages.Answer{Call: w.call, Server: a.Server, RPCError: f.at.required()})
			return
		}
	}
	if err == nil {
		if !w.until.IsZero() { // the user may be needed again
			w.until = w.until.Add(time.Since(begun))
		}
		w.anew()
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

// uncured says for the model why nothing was mended; "": nobody tried.
func (w *curable) uncured(err error) string {
	switch {
	case errors.Is(err, errDeclined), errors.Is(err, askpage.ErrDeclined):
		return "The user was asked in the client, and declined."
	case errors.Is(err, context.DeadlineExceeded):
		return notDone(askpage.TimeLimit)
	case errors.Is(err, errNoAnswer), errors.Is(err, errEnded), errors.Is(err, context.Canceled), errors.Is(err, errAbandoned):
		return ""
	case errors.Is(err, errBusy), errors.Is(err, errTurn), errors.Is(err, errNoPlace):
		return "This was not mended in time: " + err.Error() + "."
	}
	return "What the user was asked for in the client failed: " + w.s.e.scrubbed(asError(err)).Message
}
