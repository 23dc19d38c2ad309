package metamcp

import (
	"context"
	"encoding/json"
	"os"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/integration/telemetry"
	"github.com/metamcp/metamcp/messages"
)

// beginAfter is when a host that serves prepares for searches, if none came
// before. A client greets and lists first, and a host that clients share has to be
// there first; opening the store in that moment would make them wait.
const beginAfter = time.Second

// beginLater prepares for searches once beginAfter is over, unless it is stopped.
func (e *Engine) beginLater() *time.Timer {
	return time.AfterFunc(beginAfter, func() {
		scrub.Prepare()
		e.core.BeginSearch()
	})
}

// ServeStdio speaks MCP with one client until its input ends or ctx is done,
// and drains what is in flight. It closes neither file and leaves the engine
// running. After [Engine.Close] the error is an *[Error], SHUTTING_DOWN; one of the files
// is no *[Error].
func (e *Engine) ServeStdio(ctx context.Context, in, out *os.File) error {
	return e.serveSession(ctx, in, out, client{pid: os.Getppid(), since: time.Now()})
}

// serveSession is ServeStdio for any client.
func (e *Engine) serveSession(ctx context.Context, in, out *os.File, cl client) error {
	// It is there before the first line is read, but the session may end before that.
	var peer atomic.Pointer[front.Peer]
	session, err := e.core.OpenSession(func() {
		if p := peer.Load(); p != nil {
			p.Release()
		}
	})
	if err != nil {
		return err
	}
	defer e.clients.Delete(session.ID())
	defer session.Close()
	ask := e.newAsker(session, true)
	passed := e.expose.passedFor(session)
	defer passed.close()
	defer ask.close()
	begin := e.beginLater()
	defer begin.Stop()
	info, err := json.Marshal(map[string]string{"name": "metamcp", "version": e.opts.Version})
	if err != nil {
		return err
	}
	return front.Serve(ctx, in, out, front.Options{
		MCP: e.newMCPServer(), Engine: &frontEngine{session, e.telemetry, ask}, Passed: passed, Tool: toolCall, Session: session.ID(), Via: session.Client,
		Ready: func(p *front.Peer) {
			peer.Store(p)
			cl.peer, cl.passed = p, passed
			session.HoldWhile(p.Full)
			e.clients.Store(session.ID(), cl)
			if cl.ready != nil {
				cl.ready(p)
			}
		}, ServerInfo: info, DrainLeft: e.drainLeft(cl), Hurry: e.hurry, Log: e.log, Listed: e.lists, InputEnded: ask.gone,
		Unread: &e.unread, Room: session.Room,
	})
}

// drainLeft is how long what is in flight for a client may take when its session
// begins to end: what the host that it is attached to has left, where that ends it, else
// what the configuration says then.
func (e *Engine) drainLeft(cl client) func(told bool) time.Duration {
	return func(told bool) time.Duration {
		if told && cl.drainLeft != nil {
			return cl.drainLeft()
		}
		return e.Config().Settings.DrainTimeout
	}
}

// frontEngine is a session's actor as the front sees it.
type frontEngine struct {
	s   *actors.Session
	t   *telemetry.Telemetry
	ask *asker
}

// Call implements front.Engine.
func (f *frontEngine) Call(r front.Request) {
	if f.ask.cures(r.Client, r.Can) {
		r.Reply = f.watch(r)
	}
	f.call(&r)
}

// watch is no part of Call, whose request would otherwise be allocated for each call.
func (f *frontEngine) watch(r front.Request) messages.ReplyPort {
	var until time.Time
	if r.Timeout > 0 {
		until = time.Now().Add(r.Timeout)
	}
	return f.ask.watch(&curable{
		until: until, call: r.Call, client: r.Client, modern: r.TakesInput, next: r.Reply,
		again: func(reply messages.ReplyPort) {
			own := r
			own.Reply = reply
			f.call(&own)
		},
	})
}

func (f *frontEngine) call(r *front.Request) {
	call := &messages.Call{
		Meta: messages.Meta{Trace: r.Call}, ID: r.Call, Server: r.Server, Tool: r.Tool, Args: r.Args,
		Timeout: r.Timeout, Burst: r.Burst, Cancelled: r.Cancelled, Reply: r.Reply, Progress: r.Progress,
		Client: r.Client, Can: r.Can, Log: r.Log, Shared: r.Shared, TakesInput: r.TakesInput, Input: r.Input,
	}
	if r.Timeout > 0 {
		call.Deadline = time.Now().Add(r.Timeout)
	}
	f.t.BeginRequest(call, r.Context, r.Era, r.Transport)
	f.s.Call(call)
}

// Cancel implements front.Engine.
func (f *frontEngine) Cancel(_, call uint64, reason string) {
	f.s.Cancel(call, reason)
	f.ask.cancel(call)
}
