package relay

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// bom is the byte order mark, with which some clients begin.
const bom = "\xef\xbb\xbf"

// readClient takes the client's lines. A byte order mark in front of them is left out,
// as a host does, since the first line is the one that the next host is told of.
func (r *relay) readClient() {
	lines := newLineReader(r.o.In)
	for begun := false; ; begun = true {
		p, err := lines.next()
		if !begun {
			p.text = bytes.TrimPrefix(p.text, []byte(bom)) // one that is there is in the first piece as a whole
		}
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

// endInput says that the client asks for nothing more. It may be called again.
func (r *relay) endInput() {
	r.mu.Lock()
	r.eof = true
	ending := r.settle()
	r.mu.Unlock()
	r.endWrites(ending)
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

// answer passes an answer of the client on to the host that asked. Where none
// waits for it (the question was taken back, or its host has ended), it is dropped.
func (r *relay) answer(id string, line []byte) {
	r.mu.Lock()
	to := r.asker(id)
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
		r.initialize, r.initialized, r.listed = bytes.Clone(m.params), false, nil
	case methodSetLevel:
		r.level = bytes.Clone(m.params)
	case methodListen:
		const most = 64
		if len(r.listens) < most {
			r.listens[m.id] = bytes.Clone(line)
		}
	case methodSubscribe:
		r.subscribed.add(m.params)
	case methodUnsubscribe:
		r.subscribed.remove(m.params)
	default:
		if method := noticeOf[m.method]; method != "" && !slices.Contains(r.listed, method) {
			r.listed = append(r.listed, method)
		}
	}
}

// notification passes on what wants no answer.
func (r *relay) notification(m *message, line []byte) {
	r.mu.Lock()
	l := r.cur
	said := r.initialized
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
		// What was said in a handshake before is said again by the relay.
		ready := m.method == methodInitialized
		if m.method != methodCancelled && (!ready || !said) && len(r.held) < maxHeld && r.heldSize+len(line) <= maxHeldBytes {
			r.held = append(r.held, waiting{line: bytes.Clone(line), ready: ready})
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

// longLine is what is known of a line of the client that passes in pieces.
type longLine struct {
	scanner
	text jsonrpc.Validator
}

func (l *longLine) feed(piece []byte) {
	l.scanner.feed(piece)
	l.text.Feed(piece)
}

// request is what the line asks for; nil: nothing.
func (l *longLine) request() *request {
	if len(l.id) == 0 || len(l.method) == 0 || string(l.id) == "null" {
		return nil
	}
	return &request{id: string(l.id), method: unquoted(string(l.method))}
}

// refused says that a host refuses the line, which is there to its end, by no id.
func (l *longLine) refused() bool {
	return !l.text.Valid() || l.unclear() || string(l.id) == "true" || string(l.id) == "false"
}

// long passes on a line that is too long to be taken as a whole.
func (r *relay) long(lines *lineReader, p piece) {
	var scan longLine
	scan.feed(p.text)
	r.mu.Lock()
	l := r.takesLong(&scan.scanner)
	if l != nil {
		l.inFlight++ // until it is known what this is
	}
	r.mu.Unlock()
	var failed error
	for !p.last {
		if l != nil && failed == nil {
			_, failed = l.pass(p.text)
		}
		var err error
		if p, err = lines.next(); err != nil {
			return // not before the line has ended
		}
		scan.feed(p.text)
	}
	req := scan.request()
	r.mu.Lock()
	if l != nil {
		l.inFlight--
		if scan.method == nil {
			delete(l.asked, string(scan.id)) // it was an answer
		}
	}
	if l == nil || failed != nil || l.dead {
		if failed != nil {
			r.unwritable(l)
		}
		r.busy++
		r.mu.Unlock()
		if req != nil {
			r.write([][]byte{failure(req, "the host was away when this request came, and it is too long to wait for one; it was not carried out", "Send it again.", true)})
		}
		r.written()
		return
	}
	if req != nil && (scan.refused() || !r.register(req, l)) {
		// What was sent of it cannot be taken back; its answer passes.
		req = nil
	}
	r.mu.Unlock()
	n, err := l.pass(p.text)
	r.sentLine(l, req, n, len(p.text), err, func() []byte { return nil })
}

// takesLong is the host for a long line of which the beginning is known: the one
// that asked where it is an answer. Many clients write the result first and the id
// last: where one host alone waits for answers, it is that one. r.mu is held.
func (r *relay) takesLong(scan *scanner) *link {
	if to := r.asker(string(scan.id)); to != nil && scan.method == nil {
		return to
	}
	if scan.id != nil || scan.method != nil || !scan.value || scan.key != `"result"` {
		return r.cur
	}
	var only *link
	for l := range r.links {
		switch {
		case len(l.asked) == 0:
		case only != nil:
			return r.cur
		default:
			only = l
		}
	}
	if only == nil {
		return r.cur
	}
	return only
}

func unquoted(raw string) string {
	if len(raw) < 2 {
		return raw
	}
	return raw[1 : len(raw)-1]
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
