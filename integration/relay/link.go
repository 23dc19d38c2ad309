package relay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

// link is a connection with one host.
type link struct {
	conn     *attach.Conn
	draining bool        // the host ends soon, or is broken
	drains   atomic.Bool // the same, for who does not hold relay.mu
	broken   atomic.Bool // nothing more can be written to it
	heard    atomic.Bool // it has said something since the watch looked last
	writing  atomic.Bool // a line is on its way to it, behind which the end of the client's input may be
	hangs    bool        // the watch, which alone knows this, has given it up
	dead     bool
	ended    bool          // nothing more is written to it
	whole    bool          // it cannot be closed in one direction
	inFlight int           // requests that it has or is being sent, without subscriptions
	gone     chan struct{} // closed when it is dead
	// asked are the requests of the host that the client has not answered.
	asked map[string]bool
	// moved are the subscriptions that the next host has; nil: none.
	moved map[string]bool
	// repeated are the URIs of subscriptions by the ids of the relay's own requests
	// for them, which the host has not answered yet.
	repeated map[string]string
	// handshake takes the answers to the relay's other requests.
	handshake chan []byte
}

// open begins to read from a host; takes says that new requests go there.
func (r *relay) open(conn *attach.Conn, takes bool) *link {
	l := &link{conn: conn, handshake: make(chan []byte, 1), gone: make(chan struct{})}
	r.mu.Lock()
	r.links[l] = struct{}{}
	if takes {
		r.cur = l
	}
	if r.over {
		_ = conn.Close() // nobody needs it any more
	}
	r.mu.Unlock()
	go r.readHost(l)
	return l
}

// settle looks what there is nothing more to do for: the links that are
// returned get no more requests. It ends the relay when there is nothing at
// all. What wants no answer keeps it for no host once the client has gone. r.mu is held.
func (r *relay) settle() (ending []*link) {
	if r.eof && !slices.ContainsFunc(r.held, func(w waiting) bool { return w.req != nil }) {
		r.held, r.heldSize = nil, 0
	}
	for l := range r.links {
		if l.ended || l.dead {
			continue
		}
		if r.eof && len(r.held) == 0 && r.busy == 0 || l.draining && l.inFlight == 0 {
			l.ended = true
			ending = append(ending, l)
			if r.cur == l {
				r.cur = nil
			}
		}
	}
	if r.eof && len(r.links) == 0 && len(r.held) == 0 && r.busy == 0 && !r.over {
		r.over = true
		close(r.done)
	}
	return ending
}

// endWrites tells hosts that nothing more comes: they answer what they have,
// and end the connection. Where the system cannot say so, the connection is
// closed after the last answer.
func (r *relay) endWrites(links []*link) {
	for _, l := range links {
		if l.conn.CloseWrite() || l.broken.Load() {
			continue // a broken one ends by itself
		}
		r.mu.Lock()
		l.whole = true
		idle := l.inFlight == 0
		r.mu.Unlock()
		if idle {
			_ = l.conn.Close()
		}
	}
}

// written ends what began with busy, and looks whether that was the last thing
// to do.
func (r *relay) written() {
	r.mu.Lock()
	r.busy--
	ending := r.settle()
	r.mu.Unlock()
	r.endWrites(ending)
}

// send writes a whole line to a host. Only one goroutine writes to a link.
func (r *relay) send(l *link, req *request, line []byte) {
	n, err := l.pass(line)
	r.sentLine(l, req, n, len(line), err, func() []byte { return bytes.Clone(line) })
}

// pass writes to a host what the client sent.
func (l *link) pass(p []byte) (int, error) {
	l.writing.Store(true)
	defer l.writing.Store(false)
	return l.conn.Write(p)
}

// sentLine takes note of n bytes of a line of size that were written; whole
// returns the line, or nil where it is not there any more.
func (r *relay) sentLine(l *link, req *request, n, size int, err error, whole func() []byte) {
	var answers [][]byte
	r.mu.Lock()
	if err != nil {
		r.unwritable(l)
	}
	if req != nil && r.table[req.id] == req && req.link == l {
		// A host takes the last line without its line feed, too.
		if n >= size-1 {
			req.sent = true
			if l.dead {
				answers = r.lostRequest(req)
			}
		} else if text := whole(); text != nil {
			answers = r.hold(req, text)
		} else {
			r.drop(req)
			answers = [][]byte{failure(req, "the host ended while it was sent this request, which was not carried out", "Send it again.", true)}
		}
	}
	r.busy++
	r.mu.Unlock()
	r.write(answers)
	r.written()
}

// lastWords is how long a host to which nothing can be written may be silent.
const lastWords = 2 * time.Second

// unwritable takes note that nothing more can be written to a host. What it has said
// is read to its end all the same, since answers may be among it that the client is
// to get; only then is the host lost. r.mu is held.
func (r *relay) unwritable(l *link) {
	if l.ended || l.dead || l.broken.Swap(true) {
		return
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(lastWords)) // what takes none has ended
	r.retire(l)
}

// hostWords are what a host says. Of one to which nothing can be written they end
// with a silence.
type hostWords struct{ *link }

// Read implements io.Reader. How long the client takes for what was read is no silence.
func (h hostWords) Read(p []byte) (int, error) {
	if h.broken.Load() {
		_ = h.conn.SetReadDeadline(time.Now().Add(lastWords)) // what takes none has ended
	}
	n, err := h.conn.Read(p)
	if n > 0 {
		h.heard.Store(true)
	}
	return n, err
}

// watch loses hosts that hang once the client has gone, since nobody else would end the
// relay. A silence alone says nothing: a host may work on what it has for as long as its
// configuration lets it. While the client is there, a host that is stopped is waited for.
func (r *relay) watch() {
	tick := time.NewTicker(r.o.Silence)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.ctx.Done():
			return
		}
		for _, l := range r.silent() {
			_, err := r.o.Answers(r.ctx, l.conn.Host)
			var hangs *attach.HangsError
			if !errors.As(err, &hangs) || l.heard.Load() {
				continue // it goes on, perhaps since it was asked
			}
			l.hangs = true
			r.o.Say(err.Error())
			_ = l.conn.Close() // whoever reads it, or writes to it, finds that it is lost
		}
	}
}

// silent are the hosts that a client which has gone has left, and that have said nothing
// since the last call.
func (r *relay) silent() (list []*link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		// Whoever waits for a write does not see the end of the input.
		left := r.eof || l.writing.Load() && inputOver(r.o.In)
		if left && !l.hangs && !l.heard.Swap(false) {
			list = append(list, l)
		}
	}
	return list
}

// lost takes note that a host's connection has ended.
func (r *relay) lost(l *link) {
	r.mu.Lock()
	if l.dead {
		r.mu.Unlock()
		return
	}
	l.dead = true
	close(l.gone)
	delete(r.links, l)
	if r.cur == l {
		r.cur = nil
	}
	var answers [][]byte
	for id := range l.asked {
		answers = append(answers, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{"requestId":%s,"reason":"the host that asked has ended"}}`+"\n", methodCancelled, id))
	}
	for _, req := range r.table {
		if req.link == l && req.sent {
			answers = append(answers, r.lostRequest(req)...)
		}
	}
	r.look()
	r.busy++
	r.mu.Unlock()
	_ = l.conn.Close() // it has ended
	r.write(answers)
	r.written()
}

// draining takes note that a host ends soon.
func (r *relay) draining(l *link) {
	r.mu.Lock()
	r.retire(l)
	ending := r.settle()
	r.mu.Unlock()
	r.endWrites(ending)
}

// retire gives what is new to the next host. r.mu is held.
func (r *relay) retire(l *link) {
	l.draining = true
	l.drains.Store(true)
	if r.cur == l {
		r.cur = nil
	}
	r.look()
}
