package relay

import (
	"fmt"
	"slices"
	"time"
)

// waiting is a line that waits for a host.
type waiting struct {
	line  []byte
	req   *request // nil: it wants no answer
	ready bool     // it says that the client has taken the answer to its initialize
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
		r.held = append([]waiting{{line: line, req: req}}, r.held...) // nothing comes before it
	} else {
		r.held = append(r.held, waiting{line: line, req: req})
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
	r.write([][]byte{failure(req, text, "Ask the user to run `metamcp host start`, with the --config and --state-dir of this client's entry where it has them; requests work again as soon as it runs.", true)})
	r.written()
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

// unholdReady takes what a handshake says out of the queue. r.mu is held.
func (r *relay) unholdReady() {
	r.held = slices.DeleteFunc(r.held, func(w waiting) bool {
		if w.ready {
			r.heldSize -= len(w.line)
		}
		return w.ready
	})
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
