package actors

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// unsent is a call that no breaker has yet: its arguments are being checked, or
// its server's listing is on the way. Its deadline and its caller's Cancel
// reach it here. Whoever claims it answers it or hands it on.
type unsent struct {
	e     *Engine
	call  *messages.Call
	timer atomic.Pointer[time.Timer] // nil: none, or not set yet
	done  atomic.Bool
	over  chan struct{} // closed once it is claimed
}

// hold puts a call on record. late is what it is answered with when its deadline comes.
func (e *Engine) hold(call *messages.Call, late func() *messages.Error) *unsent {
	u := &unsent{e: e, call: call, over: make(chan struct{})}
	e.unsent.Store(call.ID, u)
	if call.Cancelled != nil && call.Cancelled.Load() { // perhaps before it was on record
		u.giveUp(supervision.Cancelled(call))
		return u
	}
	if !call.Deadline.IsZero() {
		u.timer.Store(time.AfterFunc(time.Until(call.Deadline), func() { u.giveUp(late()) }))
	}
	return u
}

// outOfTime is the error for a call whose deadline came before what had to be done for it.
func outOfTime(call *messages.Call, what string) *messages.Error {
	return &messages.Error{
		Code: messages.CodeExecutionTimeout, Server: call.Server, Tool: call.Tool, Class: messages.ClassOffline, Retryable: true,
		Message: what + " in the time that the call allowed; the call was not sent",
		Hint:    "Call again with a longer timeoutMs.",
	}
}

// claim takes the call off the record; false: somebody else has done so.
func (u *unsent) claim() bool {
	if !u.done.CompareAndSwap(false, true) {
		return false
	}
	u.e.unsent.CompareAndDelete(u.call.ID, u)
	if timer := u.timer.Load(); timer != nil {
		timer.Stop()
	}
	close(u.over)
	return true
}

// giveUp answers the call unless somebody has claimed it.
func (u *unsent) giveUp(err *messages.Error) {
	if u.claim() {
		u.e.refuse(u.call, err)
	}
}

// maxLater bounds the calls that are checked by a worker or wait for that, half of
// them of one client; maxJudges bounds those workers.
const (
	maxLater  = 32768
	maxJudges = 4
)

// later checks a call on a worker. check returns what to do with the call then;
// that is left out where the call was given up meanwhile.
func (e *Engine) later(call *messages.Call, check func() (then func())) {
	began, over, err := e.judges.Queue(call.Of())
	if err != nil {
		e.refuse(call, &messages.Error{
			Code: messages.CodePoolSaturated, Retryable: true,
			Message: strconv.Itoa(maxLater/2) + " calls of this client, or twice as many of all, already wait for their arguments to be checked",
			Hint:    "Send fewer calls at a time.",
		})
		return
	}
	u := e.hold(call, func() *messages.Error { return outOfTime(call, "the call was not checked") })
	e.sys.Go(func(ctx context.Context) {
		select {
		case <-began: // each is bounded in time, so the turn comes
		case <-u.over:
			over()
			return
		case <-ctx.Done():
			over()
			u.giveUp(e.gone(call.Server))
			return
		}
		then := func() func() {
			defer over()
			if u.done.Load() {
				return nil
			}
			return check()
		}()
		if u.claim() {
			then()
		}
	}, func(reason any) {
		if reason == any(kernel.ErrShutDown) {
			over() // it has not begun
			u.giveUp(e.gone(call.Server))
			return
		}
		u.giveUp(&messages.Error{
			Code: messages.CodeToolExecution, Message: "checking the call broke inside metamcp; it was not sent",
			Hint: "Please report this with the log of the host.",
		})
	})
}

// callAfterContact gets the server's listing first; announced: the one that there is lacks at
// most what children have announced; again: what it listed the first time is gone.
func (e *Engine) callAfterContact(entry *supervision.Entry, call *messages.Call, announced, again bool) {
	u := e.hold(call, func() *messages.Error {
		if !entry.Placed() {
			return notStarted(call.Server, call.Tool, entry.Status())
		}
		return outOfTime(call, strconv.Quote(call.Server)+" was not ready")
	})
	if !u.done.Load() {
		e.contact(entry, &messages.Contact{Meta: call.Meta, Refresh: !announced, Announced: announced, ForCall: true, Reply: &firstContact{u, entry, again}})
	}
}

// firstContact goes on with a call once its server's listing is there.
type firstContact struct {
	*unsent
	entry *supervision.Entry
	again bool
}

// Contacted implements messages.ContactPort.
func (f *firstContact) Contacted(_ uint64, err *messages.Error) {
	if err != nil {
		f.giveUp(err)
		return
	}
	if !f.claim() {
		return
	}
	e, call := f.e, f.call
	e.later(call, func() func() {
		call.Checked = e.view.Version()
		known := e.view.Load().Server(call.Server)
		if known == nil {
			return func() { e.callUnlisted(call, f.again) }
		}
		tool, err, _ := e.check(f.entry.Spec(), call, known)
		if err != nil {
			return func() { e.refuse(call, e.doubted(call.Server, err)) }
		}
		return func() { e.send(f.entry, call, tool, known) }
	})
}

// callUnlisted goes on with a call whose server has listed its tools, and is not in the
// catalog: an entry that changes is taken out of that first. It is contacted once more.
func (e *Engine) callUnlisted(call *messages.Call, again bool) {
	entry, ok := e.dir.Lookup(call.Server)
	if !ok || again {
		e.refuse(call, e.Unlisted(call.Server))
		return
	}
	e.callAfterContact(entry, call, false, true)
}

// Unlisted is the error where a server was contacted and the catalog has nothing of it
// after that: its entry was changed or removed.
func (e *Engine) Unlisted(server string) *messages.Error {
	if _, ok := e.dir.Lookup(server); !ok {
		return supervision.NotFound(server, "it was removed while it was asked for its tools")
	}
	return &messages.Error{
		Code: messages.CodeConnection, Server: server, Class: messages.ClassOffline, Retryable: true,
		Message: "the server's configuration changed while it was asked for its tools; nothing was sent", Hint: "Try again.",
	}
}
