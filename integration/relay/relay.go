package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

// The bounds of a relay.
const (
	// DefaultWait is how long a request waits for a host that is away.
	DefaultWait = 15 * time.Second
	// maxHeld and maxHeldBytes bound the requests that wait.
	maxHeld      = 1024
	maxHeldBytes = 8 << 20
	// maxInFlight bounds the requests that a host has.
	maxInFlight = 16 << 10
	// maxKept bounds the bytes of requests that are kept to be sent again.
	maxKept = 4 << 20
	// maxAsked bounds the requests of a host that wait for the client.
	maxAsked = 1024
	// maxRepeats is how often a request that only reads is sent again: one that
	// ends every host must not go on doing so.
	maxRepeats = 2

	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
	// handshakePatience is how long a new host may take for the handshake.
	handshakePatience = 15 * time.Second
	// sayAfter is how long a host is away before that is said.
	sayAfter = 3 * time.Second
)

// Options say what a relay connects.
type Options struct {
	// In and Out are the client's. Both are left open.
	In  io.Reader
	Out io.Writer
	// Connect attaches to the host that there is, once; resumed is true from
	// the second time on.
	Connect func(ctx context.Context, resumed bool) (*attach.Conn, error)
	// Wait is how long a request waits for a host; 0: [DefaultWait].
	Wait time.Duration
	// Say tells the person behind the client what happened; it does not block.
	Say func(text string)
}

// request is one request of the client. Its fields are guarded by relay.mu.
type request struct {
	id     string
	method string
	modern bool
	line   []byte // to be sent again; nil: it must not be, or is too long

	link    *link // that has it; nil: it waits
	sent    bool  // the host may have seen the whole line
	repeats int
	timer   *time.Timer // while it waits
}

// waiting is a line that waits for a host.
type waiting struct {
	line []byte
	req  *request // nil: it wants no answer
}

// link is a connection with one host.
type link struct {
	conn     *attach.Conn
	draining bool        // the host ends soon
	drains   atomic.Bool // the same, for who does not hold relay.mu
	dead     bool
	ended    bool          // nothing more is written to it
	whole    bool          // it cannot be closed in one direction
	inFlight int           // requests that it has or is being sent, without subscriptions
	gone     chan struct{} // closed when it is dead
	// asked are the requests of the host that the client has not answered.
	asked map[string]bool
	// moved are the subscriptions that the next host has; nil: none.
	moved map[string]bool
	// handshake takes the answers to the relay's own requests.
	handshake chan []byte
}

// relay is one client's.
type relay struct {
	o   Options
	ctx context.Context // ends the search for a host

	out    sync.Mutex // held while a line is written
	outErr chan error // capacity 1

	mu       sync.Mutex // guards what follows; nobody writes or waits with it
	cur      *link      // takes new requests; nil: none does
	links    map[*link]struct{}
	table    map[string]*request
	held     []waiting
	heldSize int
	kept     int
	search   bool // somebody looks for a host
	busy     int  // answers and requests that are about to be written
	eof      bool // the client says nothing more
	done     chan struct{}
	over     bool
	reason   string // why the last attempt failed

	// What a new host is told.
	initialize  []byte // params; nil: there was no handshake
	initialized bool
	level       []byte            // params of the last logging/setLevel
	listens     map[string][]byte // lines of subscriptions, by id
	number      int               // of the relay's own requests
}

// Run copies until the client's input ends and what it asked for is answered,
// its output cannot be written, or ctx is done, which ends it like its input
// does. The error says why the client lost something.
func Run(ctx context.Context, first *attach.Conn, o Options) error {
	if o.Wait <= 0 {
		o.Wait = DefaultWait
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	searching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r := &relay{
		o: o, ctx: searching, outErr: make(chan error, 1), done: make(chan struct{}),
		links: map[*link]struct{}{}, table: map[string]*request{}, listens: map[string][]byte{},
	}
	for _, n := range first.Welcome.Notes {
		o.Say(n)
	}
	r.open(first, true)
	go r.readClient() // ends with the client's input, or with the program
	var err error
	select {
	case <-r.done:
		return nil
	case err = <-r.outErr:
	case <-ctx.Done():
		r.endInput()
		select {
		case <-r.done:
			return nil
		case err = <-r.outErr:
		}
	}
	stop()
	r.mu.Lock()
	r.over = true
	for l := range r.links {
		_ = l.conn.Close() // the client has gone
	}
	r.mu.Unlock()
	return err
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

// readClient takes the client's lines.
func (r *relay) readClient() {
	lines := newLineReader(r.o.In)
	for {
		p, err := lines.next()
		switch {
		case err != nil:
			r.endInput()
			return
		case p.last:
			r.line(p.text)
		default:
			r.long(lines, p)
		}
	}
}

// endInput says that the client asks for nothing more.
func (r *relay) endInput() {
	r.mu.Lock()
	r.eof = true
	ending := r.settle()
	r.mu.Unlock()
	r.endWrites(ending)
}

// settle looks what there is nothing more to do for: the links that are
// returned get no more requests. It ends the relay when there is nothing at
// all. r.mu is held.
func (r *relay) settle() (ending []*link) {
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
		if l.conn.CloseWrite() {
			continue
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

// line takes a whole line of the client, whose bytes are the reader's.
func (r *relay) line(line []byte) {
	m := parse(line)
	if m.answers != "" {
		r.answer(m.answers, line)
		return
	}
	if m.id == "" {
		r.notification(&m, line)
		return
	}
	req := &request{id: m.id, method: m.method, modern: m.modern}
	r.mu.Lock()
	r.remember(&m, line)
	if m.repeatable() && r.kept+len(line) <= maxKept {
		req.line = bytes.Clone(line)
		r.kept += len(line)
	}
	l := r.cur
	if l == nil {
		answers := r.hold(req, bytes.Clone(line))
		r.mu.Unlock()
		r.write(answers)
		return
	}
	if !r.register(req, l) {
		r.mu.Unlock()
		r.write([][]byte{failure(req, fmt.Sprintf("%d requests are in flight, which is the most", maxInFlight), "Wait for answers, and send it again.", true)})
		return
	}
	r.mu.Unlock()
	r.send(l, req, line)
}

// answer passes an answer of the client on to the host that asked. A host that
// comes after it may have asked something else under the same id.
func (r *relay) answer(id string, line []byte) {
	r.mu.Lock()
	var to *link
	for l := range r.links {
		if l.asked[id] && (to == nil || l.draining) {
			to = l
		}
	}
	if to != nil {
		delete(to.asked, id)
	}
	r.mu.Unlock()
	if to != nil {
		r.send(to, nil, line)
	}
}

// remember keeps what the next host has to be told. r.mu is held.
func (r *relay) remember(m *message, line []byte) {
	switch m.method {
	case methodInitialize:
		r.initialize, r.initialized = bytes.Clone(m.params), false
	case methodSetLevel:
		r.level = bytes.Clone(m.params)
	case methodListen:
		const most = 64
		if len(r.listens) < most {
			r.listens[m.id] = bytes.Clone(line)
		}
	}
}

// register puts a request on a link's account. r.mu is held.
func (r *relay) register(req *request, l *link) bool {
	if old := r.table[req.id]; old != nil {
		if old == req {
			return true
		}
		// The host refuses the second of two requests with one id; the first
		// keeps its place here.
		r.forget(req)
		return true
	}
	if len(r.table) >= maxInFlight {
		r.forget(req)
		return false
	}
	r.table[req.id] = req
	r.assign(req, l)
	return true
}

func (r *relay) assign(req *request, l *link) {
	req.link, req.sent = l, false
	if req.method != methodListen {
		l.inFlight++
	}
}

// leave takes a request off its link's account. r.mu is held.
func (r *relay) leave(req *request) {
	if req.link != nil && req.method != methodListen {
		req.link.inFlight--
	}
	req.link = nil
}

// forget gives back what is kept of a request. r.mu is held.
func (r *relay) forget(req *request) {
	r.kept -= len(req.line)
	req.line = nil
	if req.timer != nil {
		req.timer.Stop()
		req.timer = nil
	}
}

// drop takes a request out of all books. r.mu is held.
func (r *relay) drop(req *request) {
	if r.table[req.id] == req {
		delete(r.table, req.id)
	}
	r.leave(req)
	r.forget(req)
}

// hold lets a request wait for a host; the lines that are returned are answers
// for the client. r.mu is held.
func (r *relay) hold(req *request, line []byte) (answers [][]byte) {
	if other := r.table[req.id]; other != nil && other != req {
		r.forget(req)
		return [][]byte{failure(req, "another request with this id is still in flight", "Use each id once.", false)}
	}
	if len(r.held) >= maxHeld || r.heldSize+len(line) > maxHeldBytes {
		r.drop(req)
		return [][]byte{failure(req, "the host is away and too many requests wait for it; this one was not carried out"+r.why(), "Send it again later.", true)}
	}
	r.table[req.id] = req
	r.leave(req)
	req.sent = false
	if req.method == methodInitialize {
		r.held = append([]waiting{{line, req}}, r.held...) // nothing comes before it
	} else {
		r.held = append(r.held, waiting{line, req})
	}
	r.heldSize += len(line)
	if req.timer == nil {
		req.timer = time.AfterFunc(r.o.Wait, func() { r.expire(req) })
	}
	r.look()
	return nil
}

// why is the reason of the last failed attempt. r.mu is held.
func (r *relay) why() string {
	if r.reason == "" {
		return ""
	}
	return " (" + r.reason + ")"
}

// expire answers a request that waited long enough.
func (r *relay) expire(req *request) {
	r.mu.Lock()
	if r.table[req.id] != req || req.link != nil {
		r.mu.Unlock()
		return
	}
	r.unhold(req)
	r.drop(req)
	text := fmt.Sprintf("the host that this client is attached to is not running, and did not come back within %v; the request was not carried out%s", r.o.Wait, r.why())
	r.busy++
	r.mu.Unlock()
	r.write([][]byte{failure(req, text, "Ask the user to run `metamcp host start`; requests work again as soon as it runs.", true)})
	r.written()
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

// unhold takes a request out of the queue. r.mu is held.
func (r *relay) unhold(req *request) {
	for i, w := range r.held {
		if w.req == req {
			r.heldSize -= len(w.line)
			r.held = append(r.held[:i:i], r.held[i+1:]...)
			return
		}
	}
}

// notification passes on what wants no answer.
func (r *relay) notification(m *message, line []byte) {
	r.mu.Lock()
	l := r.cur
	switch m.method {
	case methodInitialized:
		r.initialized = true
	case methodCancelled:
		req := r.table[m.cancels]
		delete(r.listens, m.cancels)
		if req != nil && req.link == nil {
			r.unhold(req)
			r.drop(req)
			r.mu.Unlock()
			return // it never reached a host
		}
		if req != nil {
			l = req.link
			r.drop(req)
		}
	}
	if l == nil {
		// It goes with the requests that wait, so that it comes in its turn. A
		// cancellation for a host that was lost has nobody to hear it.
		// What is said in a handshake is said again by the relay.
		told := m.method == methodInitialized && !r.waitsFor(methodInitialize)
		if m.method != methodCancelled && !told && len(r.held) < maxHeld && r.heldSize+len(line) <= maxHeldBytes {
			r.held = append(r.held, waiting{bytes.Clone(line), nil})
			r.heldSize += len(line)
		}
		r.mu.Unlock()
		return
	}
	r.mu.Unlock()
	r.send(l, nil, line)
	r.mu.Lock()
	ending := r.settle()
	r.mu.Unlock()
	r.endWrites(ending)
}

// send writes a whole line to a host. Only one goroutine writes to a link.
func (r *relay) send(l *link, req *request, line []byte) {
	n, err := l.conn.Write(line)
	r.sentLine(l, req, n, len(line), err, func() []byte { return bytes.Clone(line) })
}

// sentLine takes note of n bytes of a line of size that were written; whole
// returns the line, or nil where it is not there any more.
func (r *relay) sentLine(l *link, req *request, n, size int, err error, whole func() []byte) {
	var answers [][]byte
	r.mu.Lock()
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
	broken := err != nil && !l.ended
	r.mu.Unlock()
	r.write(answers)
	r.written()
	if broken {
		r.lost(l)
	}
}

// long passes on a line that is too long to be taken as a whole.
func (r *relay) long(lines *lineReader, p piece) {
	r.mu.Lock()
	l := r.cur
	if l != nil {
		l.inFlight++ // until it is known what this is
	}
	r.mu.Unlock()
	var scan scanner
	var failed error
	for {
		scan.feed(p.text)
		if p.last {
			break
		}
		if l != nil && failed == nil {
			_, failed = l.conn.Write(p.text)
		}
		var err error
		if p, err = lines.next(); err != nil {
			return // not before the line has ended
		}
	}
	method, id := string(scan.method), string(scan.id)
	var req *request
	if id != "" && method != "" && id != "null" {
		req = &request{id: id, method: unquoted(method)}
	}
	r.mu.Lock()
	if l != nil {
		l.inFlight--
		if method == "" {
			delete(l.asked, id) // it was an answer
		}
	}
	if l == nil || failed != nil || l.dead {
		r.mu.Unlock()
		if req != nil {
			r.write([][]byte{failure(req, "the host was away when this request came, and it is too long to wait for one; it was not carried out", "Send it again.", true)})
		}
		if failed != nil {
			r.lost(l)
		}
		return
	}
	if req != nil && !r.register(req, l) {
		// What was sent of it cannot be taken back; its answer passes.
		req = nil
	}
	r.mu.Unlock()
	n, err := l.conn.Write(p.text)
	r.sentLine(l, req, n, len(p.text), err, func() []byte { return nil })
}

func unquoted(raw string) string {
	if len(raw) < 2 {
		return raw
	}
	return raw[1 : len(raw)-1]
}

// lostRequest settles a request whose host was lost. r.mu is held.
func (r *relay) lostRequest(req *request) (answers [][]byte) {
	if req.method == methodListen && r.listens[req.id] != nil {
		r.leave(req) // the next host is told of it in the handshake
		return nil
	}
	if line := req.line; line != nil && req.repeats < maxRepeats && !r.eof {
		req.repeats++
		r.leave(req)
		return r.hold(req, line)
	}
	r.drop(req)
	if req.line != nil || req.repeats > 0 {
		return [][]byte{failure(req, "the host ended while it worked on this request, which changes nothing", "Send it again.", true)}
	}
	return [][]byte{failure(req, "the host ended before the answer came; whether the request took effect is unknown",
		"Check what it has done before you repeat it.", false)}
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
	l.draining = true
	l.drains.Store(true)
	if r.cur == l {
		r.cur = nil
	}
	r.look()
	ending := r.settle()
	r.mu.Unlock()
	r.endWrites(ending)
}

// write sends whole lines to the client.
func (r *relay) write(lines [][]byte) {
	if len(lines) == 0 {
		return
	}
	r.out.Lock()
	defer r.out.Unlock()
	for _, line := range lines {
		r.put(line)
	}
}

// put writes to the client; r.out is held.
func (r *relay) put(text []byte) {
	if _, err := r.o.Out.Write(text); err != nil {
		select {
		case r.outErr <- fmt.Errorf("writing to the client: %w", err):
		default:
		}
	}
}

// readHost copies a host's lines to the client until the connection ends.
func (r *relay) readHost(l *link) {
	defer r.lost(l)
	lines := newLineReader(l.conn)
	for {
		p, err := lines.next()
		if err != nil {
			return
		}
		if p.last {
			r.hostLine(l, p.text)
			continue
		}
		if !r.hostLong(l, lines, p) {
			return
		}
	}
}

// hostLine takes a whole line of a host.
func (r *relay) hostLine(l *link, line []byte) {
	var scan scanner
	scan.feed(line)
	switch {
	case scan.id == nil && unquoted(string(scan.method)) == attach.DrainingMethod:
		r.draining(l)
		return
	case scan.id != nil && scan.method == nil && bytes.HasPrefix(scan.id, []byte(`"`+ownPrefix)):
		select {
		case l.handshake <- scan.id:
		default:
		}
		return
	}
	if scan.id != nil && scan.method != nil && !r.asks(l, string(scan.id)) {
		return
	}
	if !r.moved(l, &scan) {
		r.write([][]byte{line})
	}
	r.answered(l, &scan)
}

// asks takes note of a request of a host for the client. Where too many wait, it
// is refused in the client's name.
func (r *relay) asks(l *link, id string) bool {
	r.mu.Lock()
	if len(l.asked) < maxAsked {
		if l.asked == nil {
			l.asked = map[string]bool{}
		}
		l.asked[id] = true
		r.mu.Unlock()
		return true
	}
	r.mu.Unlock()
	r.send(l, nil, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"%d requests wait for the client"}}`+"\n", id, maxAsked))
	return false
}

// moved tells whether a host answers a subscription that the next one has by
// now.
func (r *relay) moved(l *link, scan *scanner) bool {
	if !l.drains.Load() || scan.id == nil || scan.method != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := string(scan.id)
	defer delete(l.moved, id)
	return l.moved[id]
}

// hostLong passes on a line that is too long to be taken as a whole. It returns
// false where the host was lost meanwhile: the client sees a broken line then,
// and the answer that its request gets.
func (r *relay) hostLong(l *link, lines *lineReader, p piece) bool {
	var scan scanner
	r.out.Lock()
	for {
		scan.feed(p.text)
		r.put(p.text)
		if p.last {
			r.out.Unlock()
			if scan.depth != 0 {
				return false // the end of the stream has made it a line
			}
			r.answered(l, &scan)
			return true
		}
		var err error
		if p, err = lines.next(); err != nil {
			r.put([]byte("\n"))
			r.out.Unlock()
			return false
		}
	}
}

// answered takes the request that was answered out of the books.
func (r *relay) answered(l *link, scan *scanner) {
	if scan.id == nil || scan.method != nil {
		return
	}
	r.mu.Lock()
	req := r.table[string(scan.id)]
	if req == nil || req.link != l {
		r.mu.Unlock()
		return
	}
	delete(r.listens, req.id)
	r.drop(req)
	ending := r.settle()
	last := l.whole && l.inFlight == 0
	r.mu.Unlock()
	r.endWrites(ending)
	if last {
		_ = l.conn.Close() // see endWrites
	}
}

// look looks for a host, where none takes requests. r.mu is held.
func (r *relay) look() {
	if r.search || r.cur != nil || r.over || r.eof && len(r.held) == 0 {
		return
	}
	r.search = true
	go r.find()
}

// find looks for a host until there is one, or none is needed any more.
func (r *relay) find() {
	pause, began, said := firstPause, time.Now(), false
	for {
		err := r.attempt()
		if err == nil {
			if said {
				r.o.Say("the host is back")
			}
			return
		}
		r.mu.Lock()
		r.reason = err.Error()
		if errors.Is(err, attach.ErrNoHost) {
			r.reason = ""
		}
		if r.eof && len(r.held) == 0 {
			r.search = false
			r.settle()
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		if !said && time.Since(began) > sayAfter {
			said = true
			r.o.Say("the host is away: " + err.Error() + "; looking for it goes on")
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return
		}
		pause = min(pause*3/2, lastPause)
	}
}

// attempt connects with a host, tells it of the session, and sends what waits.
func (r *relay) attempt() error {
	conn, err := r.o.Connect(r.ctx, true)
	if err != nil {
		return err
	}
	l := r.open(conn, false)
	if err := r.resume(l); err != nil {
		r.lost(l)
		return err
	}
	for {
		r.mu.Lock()
		switch {
		case l.dead || l.draining:
			r.mu.Unlock()
			return errors.New("the host ended again at once")
		case len(r.held) == 0:
			r.cur, r.search, r.reason = l, false, ""
			changed := r.changed()
			ending := r.settle()
			r.mu.Unlock()
			r.write(changed)
			r.endWrites(ending)
			return nil
		}
		w := r.held[0]
		r.held = r.held[1:]
		r.heldSize -= len(w.line)
		if w.req != nil {
			if w.req.timer != nil {
				w.req.timer.Stop()
				w.req.timer = nil
			}
			r.assign(w.req, l)
		}
		r.busy++
		r.mu.Unlock()
		r.send(l, w.req, w.line)
		r.written()
	}
}

// changed tells the client that the tools may be others. r.mu is held.
func (r *relay) changed() (lines [][]byte) {
	if r.initialized {
		return [][]byte{[]byte(`{"jsonrpc":"2.0",` + toolsListChanged + "}\n")}
	}
	for id, line := range r.listens {
		if bytes.Contains(line, []byte(`"toolsListChanged"`)) {
			lines = append(lines, fmt.Appendf(nil, `{"jsonrpc":"2.0",%s,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`+"\n", toolsListChanged, id))
		}
	}
	return lines
}

// ownPrefix begins the ids of the relay's own requests.
const ownPrefix = "metamcp-relay/handshake-"

// resume tells a new host of the session that the client has.
func (r *relay) resume(l *link) error {
	r.mu.Lock()
	greeted := r.initialize != nil && !r.waitsFor(methodInitialize)
	params, initialized, level := r.initialize, r.initialized, r.level
	var listens [][]byte
	for id, line := range r.listens {
		if req := r.table[id]; req != nil && (req.link == nil && !r.isHeld(req) || req.link != nil && req.link.draining) {
			if old := req.link; old != nil {
				if old.moved == nil {
					old.moved = map[string]bool{}
				}
				old.moved[id] = true
			}
			r.assign(req, l)
			req.sent = true
			listens = append(listens, line)
		}
	}
	r.mu.Unlock()
	if greeted {
		if err := r.ask(l, methodInitialize, params); err != nil {
			return err
		}
		if initialized {
			if _, err := l.conn.Write([]byte(`{"jsonrpc":"2.0","method":"` + methodInitialized + `"}` + "\n")); err != nil {
				return err
			}
		}
		if level != nil {
			if err := r.ask(l, methodSetLevel, level); err != nil {
				return err
			}
		}
	}
	for _, line := range listens {
		if _, err := l.conn.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// waitsFor tells whether a request of a method is in the queue. r.mu is held.
func (r *relay) waitsFor(method string) bool {
	for _, w := range r.held {
		if w.req != nil && w.req.method == method {
			return true
		}
	}
	return false
}

func (r *relay) isHeld(req *request) bool {
	for _, w := range r.held {
		if w.req == req {
			return true
		}
	}
	return false
}

// ask sends a request of the relay's own and waits for the answer.
func (r *relay) ask(l *link, method string, params []byte) error {
	r.mu.Lock()
	r.number++
	id := fmt.Sprintf(`"%s%d"`, ownPrefix, r.number)
	r.mu.Unlock()
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q`, id, method)
	if params != nil {
		line = append(append(line, `,"params":`...), params...)
	}
	if _, err := l.conn.Write(append(line, "}\n"...)); err != nil {
		return err
	}
	timer := time.NewTimer(handshakePatience)
	defer timer.Stop()
	for {
		select {
		case got := <-l.handshake:
			if string(got) == id {
				return nil
			}
		case <-timer.C:
			return fmt.Errorf("the host did not answer %s within %v", method, handshakePatience)
		case <-l.gone:
			return errors.New("the host ended during the handshake")
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
}
