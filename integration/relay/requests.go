package relay

import "time"

// request is one request of the client. Its fields are guarded by relay.mu.
type request struct {
	id     string
	method string
	modern bool
	line   []byte // to be sent again; nil: it must not be, or is too long

	link    *link // that has it; nil: it waits
	sent    bool  // the host may have seen the whole line
	repeats int
	told    bool        // of a subscription: the client knows that it is in force
	timer   *time.Timer // while it waits
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
