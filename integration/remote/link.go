package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/messages"
)

const (
	// maxPosts is how many calls are with one server at once; more wait here.
	maxPosts = messages.RemoteInFlight
	// maxAsks is the same for what the host itself asks, a few at a time. None of it
	// waits for calls: one of it is whether a server lives that has not answered one.
	maxAsks = 16
	// maxWaiting bounds the requests of one link, each of which has a goroutine.
	maxWaiting = 16 << 10

	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodDiscover    = "server/discover"
	methodListChanged = "notifications/tools/list_changed"
	methodListen      = "subscriptions/listen"
)

// What Send reports; they are compared with errors.Is.
var (
	// ErrBacklog: too much is on its way to the server; nothing of the line was
	// taken.
	ErrBacklog = errors.New("the server does not take requests fast enough: too many are queued for it")
	// ErrClosed: the link has ended, or failed, which EOF tells.
	ErrClosed = errors.New("the connection to the server is closed")
)

// Ear is told what a server says and how the link ends. The methods are called
// one at a time, none may block or call [Link.Release]; Send may be called from
// within.
type Ear interface {
	// Frame is one JSON-RPC message. The frame belongs to the receiver.
	Frame(f *messages.Frame)
	// Flush follows each Frame.
	Flush()
	// Noise is the beginning of what came in the place of a message.
	Noise(text []byte)
	// Broken says that the request with this id has no answer, or one that is
	// none; why may be a *[Error]. The slices belong to the receiver.
	Broken(id json.RawMessage, text []byte, why error)
	// TooLarge says that a message over the cap was thrown away; id is that of
	// the request which it answers.
	TooLarge(id json.RawMessage)
	// Renewed says that the server has forgotten the session, and whatever it had been
	// told in it, and that there is a new one. Its lists may be others. welcome is the result
	// of the greeting that made it, which belongs to the receiver.
	Renewed(welcome json.RawMessage)
	// Unheard says that for a while nobody heard what the server says on its own: its
	// lists may be others.
	Unheard()
	// EOF says that no more frames come, exactly once: io.EOF where the end was
	// asked for, else a *[Error].
	EOF(err error)
	// Exited follows EOF.
	Exited(exit *messages.Exit)
}

// Link is the way to one server. Its methods may be called from any goroutine.
type Link struct {
	l    *Launcher
	own  bool // l is of this link alone
	spec *messages.ServerSpec
	auth Authorizer // nil: nobody
	ear  Ear

	ctx    context.Context //nolint:containedctx // the life of the link's goroutines
	cancel context.CancelFunc
	posts  chan struct{}
	asks   chan struct{}
	earMu  sync.Mutex // one call of ear at a time
	work   sync.WaitGroup
	done   chan struct{} // Exited was called
	// repaired is done once text came that is no UTF-8.
	repaired sync.Once
	// renewing is taken by who makes a new session, reaching by who looks whether
	// the server is there.
	renewing, reaching chan struct{}
	streams            atomic.Bool  // it has had a stream for what the server says on its own
	hearings           atomic.Int32 // how many of these there are; one takes another's place

	mu        sync.Mutex
	base      *url.URL
	sse       *sseState // nil: Streamable HTTP
	session   string
	renewedAt time.Time // when the session took the place of one that was forgotten
	version   string    // of the protocol, once it is agreed upon
	modern    bool
	settled   bool                // the connection above goes on in one of the eras that it greeted in
	mirrors   map[string][]mirror // by tool
	mirrored  int                 // in all of them
	proven    bool                // the server has answered over Streamable HTTP
	listed    bool                // and has listed its tools: the start is over
	hush      context.CancelFunc  // ends the stream that listen keeps; nil: none
	reached   time.Time           // when a look began that found the server there
	mismatch  time.Time           // when the tools were last to be listed again for their headers
	greeting  []byte              // initialize
	discover  []byte              // server/discover
	gate      chan struct{}       // closed once the server is initialized and what it says on its own is heard; nil: no need to wait
	inflight  map[string]*exchange
	queued    int               // bytes
	unsent    []json.RawMessage // requests that the end of the link has kept from being sent
	ended     bool
	endErr    error
	asked     bool // for the end
}

// exchange is one line on its way, and the answer to it.
type exchange struct {
	line   []byte
	id     json.RawMessage // nil: a notification, or an answer of ours
	method string
	params json.RawMessage
	// version is that of the session that it begins, which is not the present one yet;
	// "": it begins none.
	version string
	ctx     context.Context //nolint:containedctx // ends with the request
	cancel  context.CancelFunc
	sent    atomic.Bool // the server may have seen it
	begun   bool        // its turn has come, and it is being sent; Link.mu
	// opened tells who waits for a subscription that the server has answered it,
	// however; nil: nobody does.
	opened func()
}

func newLink(l *Launcher, spec *messages.ServerSpec, base *url.URL, ear Ear) *Link {
	k := &Link{
		l: l, spec: spec, base: base, ear: ear, posts: make(chan struct{}, maxPosts), asks: make(chan struct{}, maxAsks),
		done: make(chan struct{}), renewing: make(chan struct{}, 1), reaching: make(chan struct{}, 1), inflight: map[string]*exchange{},
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// Pid returns 0: the process is somebody else's.
func (k *Link) Pid() int { return 0 }

// Stderr returns nothing: a server behind a URL has none for us.
func (k *Link) Stderr() []string { return nil }

// Sendv is [Link.Send] for a line in three parts.
func (k *Link) Sendv(head, body, tail []byte) error {
	line := make([]byte, 0, len(head)+len(body)+len(tail))
	return k.Send(append(append(append(line, head...), body...), tail...))
}

// Send hands over one JSON-RPC message, with or without a final line feed, and
// never blocks. The slice is handed over. Requests are sent side by side; none
// overtakes the notification that the session is initialized, nor the first
// subscription of a modern server, so that what they cause can be heard. Cancelling a
// request ends what waits for its answer.
//
// It returns [ErrBacklog] where too much is on its way, [ErrClosed] after the end.
func (k *Link) Send(line []byte) error {
	line = bytes.TrimRight(line, "\n")
	var f messages.Frame
	if err := k.l.o.Parse(line, &f); err != nil {
		return err
	}
	x := &exchange{line: line, method: f.Method, params: f.Params}
	if f.Method != "" {
		x.id = f.ID
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ended:
		return ErrClosed
	case k.queued > 0 && k.queued+len(line) > k.l.o.MaxQueue, len(k.inflight) >= maxWaiting:
		return ErrBacklog
	}
	if f.Method == methodCancelled && k.abort(f.Params) {
		return nil
	}
	x.ctx, x.cancel = context.WithCancel(k.ctx)
	gate := k.gate
	switch f.Method {
	case methodInitialize:
		k.greeting = line
	case methodDiscover:
		k.discover = line
	case methodInitialized:
		k.gate = make(chan struct{})
		k.settle(false)
	default:
		if x.id != nil && k.modern && !k.settled {
			k.settle(true)
		}
		if f.Method == methodListen && k.modern && k.gate == nil {
			k.holdFor(x)
		}
	}
	if x.id != nil {
		k.inflight[string(x.id)] = x
	}
	k.queued += len(line)
	opens := k.gate
	k.work.Go(func() {
		k.run(x, gate)
		if x.method == methodInitialized {
			k.awaitListening(k.listen())
			close(opens)
		}
	})
	return nil
}

// holdFor holds back the requests that follow a subscription. k.mu is held.
func (k *Link) holdFor(x *exchange) {
	opens, answered := make(chan struct{}), make(chan struct{})
	k.gate, x.opened = opens, sync.OnceFunc(func() { close(answered) })
	k.work.Go(func() {
		k.awaitListening(answered)
		close(opens)
	})
}

// heard says that the server has answered a subscription, or cannot be reached.
func (x *exchange) heard() {
	if x.opened != nil {
		x.opened()
	}
}

// abort ends the request that a notification cancels, and says whether nothing
// else is to be done: a modern server takes the end of the request as word. The
// notification to a legacy one follows; what it still answers is not read.
// k.mu is held.
func (k *Link) abort(params json.RawMessage) bool {
	var p struct {
		ID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return k.modern
	}
	if x := k.inflight[string(p.ID)]; x != nil {
		x.cancel()
	}
	return k.modern
}

// run sees one line through.
func (k *Link) run(x *exchange, gate <-chan struct{}) {
	defer k.forget(x)
	if gate != nil {
		select {
		case <-gate:
		case <-x.ctx.Done():
			return
		}
	}
	// What is no request is short, and must not wait for requests: it may be
	// the cancellation of one.
	if x.id != nil {
		places := k.posts
		if asksOnly(x.method) {
			places = k.asks
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-x.ctx.Done():
			return
		}
	}
	if k.begins(x) {
		k.exchange(x)
	}
}

// begins says whether a line whose turn has come is still to be sent.
func (k *Link) begins(x *exchange) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	x.begun = k.waits(x)
	return x.begun
}

func (k *Link) forget(x *exchange) {
	x.cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.queued -= len(x.line)
	if k.inflight[string(x.id)] != x {
		return
	}
	delete(k.inflight, string(x.id))
	if k.ended && !x.sent.Load() {
		k.unsent = append(k.unsent, x.id)
	}
}

// Retract gives up the requests whose turn to be sent has not come, and returns their
// ids and those of others that the end of the link has kept from being sent: the server
// has not seen them, and will not. Once EOF was told these are all that it has not seen.
func (k *Link) Retract() []json.RawMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	requests := k.unsent
	k.unsent = nil
	for id, x := range k.inflight {
		if !x.begun {
			x.cancel()
			delete(k.inflight, id)
			requests = append(requests, x.id)
		}
	}
	return requests
}

// waits says whether somebody still wants the answer to x.
func (k *Link) waits(x *exchange) bool { return x.ctx.Err() == nil }

// CloseInput ends the link: a session is given back, requests are let go.
func (k *Link) CloseInput() { k.end(io.EOF, true) }

// Signal ends the link like CloseInput; SignalKill does not wait for the server
// to take the session back.
func (k *Link) Signal(s messages.Signal) {
	k.end(io.EOF, true)
	if s == messages.SignalKill {
		k.cancel()
	}
}

// TreeAlive reports whether the link has not ended yet.
func (k *Link) TreeAlive() bool {
	select {
	case <-k.done:
		return false
	default:
		return true
	}
}

// Release ends the link where it has not, and waits until nothing of it is left.
// It must not be called from a method of the Ear.
func (k *Link) Release() {
	k.Signal(messages.SignalKill)
	<-k.done
}

func (k *Link) fail(f *Error) { k.end(f, false) }

// end ends the link, once.
func (k *Link) end(err error, asked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	k.ended, k.endErr, k.asked = true, err, asked
	for _, x := range k.inflight {
		x.cancel()
	}
	if k.hush != nil {
		k.hush() // a session that is being given back is not one that the server forgot
	}
	go k.finish(asked && k.session != "")
}

// finish is the end of the link, in a goroutine of its own that nobody waits for
// but Release.
func (k *Link) finish(goodbye bool) {
	if goodbye {
		const patience = 2 * time.Second
		ctx, cancel := context.WithTimeout(k.ctx, patience)
		select {
		case k.renewing <- struct{}{}: // nobody makes a session that would be left behind
		case <-ctx.Done():
		}
		k.goodbye(ctx)
		cancel()
	}
	k.cancel()
	k.work.Wait()
	if k.own {
		k.l.Close()
	}
	k.earMu.Lock()
	defer k.earMu.Unlock()
	k.ear.EOF(k.endErr)
	close(k.done)
	k.ear.Exited(&messages.Exit{Requested: k.asked})
}
