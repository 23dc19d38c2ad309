package front

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// exchange is one request over HTTP and the response to it.
type exchange struct {
	h  *HTTP
	w  http.ResponseWriter
	r  *http.Request
	id json.RawMessage
	s  *httpSession
	st *stream
	e  *Entry // nil: nothing is in flight

	modern  bool
	object  bool   // the client takes one JSON object
	sse     bool   // and a stream
	resumed bool   // a stream from the start
	unread  bool   // from what nobody has read yet
	from    uint64 // else behind the event with this number

	reader    *reader
	streaming bool
	control   *http.ResponseController
}

func (x *exchange) refuse(f *refusal) { refuseHTTP(x.w, x.id, f) }

// serve writes what the stream holds until it is over, the client is gone, or
// another connection has taken the stream over.
func (x *exchange) serve() {
	x.control = http.NewResponseController(x.w)
	// The bounds of the server are for requests that are no streams.
	x.disarm()
	_ = x.control.SetReadDeadline(time.Time{})
	reader := x.st.attach(x.r.Context(), func() { _ = x.control.SetWriteDeadline(time.Unix(1, 0)) })
	x.reader = reader
	defer x.left(reader)
	if x.unread {
		x.from = x.st.lastSent()
	}
	timer := time.NewTimer(x.quiet())
	defer timer.Stop()
	at := x.from
	if x.resumed && !x.begin() {
		return
	}
	for {
		events, first, over := x.st.next(at)
		switch {
		case len(events) == 0 && over:
			x.finish()
			return
		case len(events) == 0:
		case !x.streaming && x.object && events[0].answer:
			x.answer(&events[0])
			x.st.written(first)
			return
		default:
			if !x.streaming && !x.begin() || !x.events(events, first) {
				x.lost()
				return
			}
			at = first + uint64(len(events)) - 1
			x.st.written(at)
			continue
		}
		select {
		case <-reader.wake:
		case <-reader.gone:
			if x.st.lostToBound() {
				x.lost()
			}
			return
		case <-x.r.Context().Done():
			x.lost()
			return
		case <-timer.C:
			timer.Reset(x.h.o.KeepAlive)
			if !x.keepAlive() {
				x.lost()
				return
			}
		}
	}
}

// quiet is how long nothing need be said at first. A request that takes a while
// becomes a stream: so that nobody between takes the silence for an end, and a
// client that is cut off can come back.
func (x *exchange) quiet() time.Duration {
	if x.resumable() && !x.resumed {
		return min(x.h.o.KeepAlive, primeAfter)
	}
	return x.h.o.KeepAlive
}

// keepAlive breaks a silence; false: the client may have no more of this, or has
// gone.
func (x *exchange) keepAlive() bool {
	if _, err := x.h.o.Authorize(x.r); err != nil {
		if !x.streaming {
			// No 4xx: that says that nothing was carried out, and clients repeat it.
			x.refuse(&refusal{status: http.StatusInternalServerError, code: codeInternal, why: err.Error() + "; the request was let in when it came, and may have been carried out"})
		}
		return false
	}
	return !x.sse || (x.streaming || x.begin()) && x.write([]byte(": \n\n"))
}

// left ends the reader.
func (x *exchange) left(r *reader) {
	x.st.detach(r)
	x.s.release(x.st)
	if x.streaming && !x.modern {
		x.s.sweepNow()
	}
}

// primeAfter is when the response to a request that runs becomes a stream to
// which a client can come back.
const primeAfter = time.Second

// resumable says whether the client can come back for the stream: legacy
// streams have ids, which clients since 2025-11-25 expect at their start.
func (x *exchange) resumable() bool {
	return !x.modern && x.sse && x.s.c.peer.ProtocolVersion() >= "2025-11-25"
}

// begin starts the stream.
func (x *exchange) begin() bool {
	x.streaming = true
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	x.w.WriteHeader(http.StatusOK)
	if x.modern {
		return x.write(nil)
	}
	if x.st.number != 0 && !x.resumed {
		x.s.keep(x.st)
	}
	if x.resumable() {
		return x.write([]byte("id: " + eventID(x.st.number, x.from) + "\ndata: \n\n"))
	}
	return x.write(nil)
}

// events writes events, the first of which has that number.
func (x *exchange) events(events []event, first uint64) bool {
	for i := range events {
		head := "data: "
		if !x.modern {
			head = "id: " + eventID(x.st.number, first+uint64(i)) + "\ndata: "
		}
		if !x.put([]byte(head)) {
			return false
		}
		for _, p := range events[i].parts {
			if !x.put(p) {
				return false
			}
		}
		if !x.put([]byte("\n\n")) {
			return false
		}
	}
	return x.write(nil)
}

// arm bounds the writes that follow, until disarm. What cannot be bounded is
// written all the same.
func (x *exchange) arm() { _ = x.control.SetWriteDeadline(time.Now().Add(x.h.o.Patience)) }

func (x *exchange) disarm() { _ = x.control.SetWriteDeadline(time.Time{}) }

// put writes without making sure that it is on its way.
func (x *exchange) put(p []byte) bool {
	x.arm()
	select {
	case <-x.reader.gone:
		return false // after arm, so that a write is ended in either order
	default:
	}
	_, err := x.w.Write(p)
	return err == nil
}

// write writes p, and makes sure that all is on its way.
func (x *exchange) write(p []byte) bool {
	if len(p) > 0 && !x.put(p) {
		return false
	}
	x.arm()
	defer x.disarm()
	return x.control.Flush() == nil
}

// answer writes the answer as one object.
func (x *exchange) answer(e *event) {
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(e.size))
	x.w.WriteHeader(x.status(e))
	for _, p := range e.parts {
		if !x.put(p) {
			return
		}
	}
	x.write(nil)
}

// status is what an answer is in HTTP: an error of ours has one of its own
// since 2026-07-28, and before only where the message is none. A child's error,
// whose code means nothing here, must not make a layer of HTTP repeat the request.
func (x *exchange) status(e *event) int {
	code := e.code(x.id)
	switch {
	case code == 0 || !x.modern:
		return http.StatusOK
	case code == mcp.MISSING_REQUIRED_CLIENT_CAPABILITY:
		return http.StatusBadRequest
	case x.st.isForeign():
		return http.StatusOK
	case code == mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case code == codeTooMany:
		return http.StatusTooManyRequests
	case code == codeShuttingDown:
		return http.StatusServiceUnavailable
	case code == codeMismatch, code == codeUnsupported, code == codeInvalid, code == codeParse, code == mcp.INVALID_PARAMS:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// finish ends a response without a further message: the request was cancelled,
// or the stream is over.
func (x *exchange) finish() {
	switch {
	case x.streaming:
	case x.s.over():
		x.refuse(refuseUnknown)
	default:
		x.w.WriteHeader(http.StatusAccepted)
	}
}

// lost is a client that closed the connection, or does not read: since
// 2026-07-28 that cancels the request.
func (x *exchange) lost() {
	if x.modern && x.e != nil {
		x.s.c.giveUp(x.e, "the client closed the response")
	}
}
