package front

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// post takes one message of a client.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, who Principal) {
	object, stream := accepts(r)
	if !object && !stream {
		refuseHTTP(w, nil, &refusal{
			status: http.StatusNotAcceptable, code: codeInvalid,
			why: "an answer is application/json or text/event-stream; name both in the Accept header",
		})
		return
	}
	body, f := h.body(w, r)
	if f != nil {
		refuseHTTP(w, nil, f)
		return
	}
	if start := bytes.TrimLeft(body, " \t"); len(start) > 0 && start[0] == '[' {
		refuseHTTP(w, nil, &refusal{
			status: http.StatusBadRequest, code: codeInvalid,
			why: "batches are not taken, which only revision 2025-03-26 had; send each message as a request of its own",
		})
		return
	}
	in, err := parseIncoming(body)
	if err != nil {
		refuseHTTP(w, in.ID, &refusal{status: http.StatusBadRequest, code: codeOf(err), why: err.Error()})
		return
	}
	if in.IsRequest() && string(in.ID) == nullID {
		refuseHTTP(w, nil, &refusal{status: http.StatusBadRequest, code: codeInvalid, why: "the id of a request must not be null; use a string or a number"})
		return
	}
	x := &exchange{h: h, w: w, r: r, id: in.ID, object: object, sse: stream}
	if _, ok := in.era(); ok {
		x.spliced = in.calls(h.toolName())
	}
	if in.slots[slotVersion] != nil || r.Header.Get(mcp.HeaderProtocolVersion) >= modernVersion {
		h.modern(x, who, &in, body)
		return
	}
	h.legacy(x, who, &in, body)
}

func (h *HTTP) toolName() string {
	if h.o.Tool == "" {
		return DefaultTool
	}
	return h.o.Tool
}

// modern takes a message of a client without a session.
func (h *HTTP) modern(x *exchange, who Principal, in *incoming, body []byte) {
	if !in.IsRequest() {
		if !in.IsNotification() {
			x.refuse(&refusal{
				status: http.StatusBadRequest, code: codeInvalid,
				why: "since revision " + modernVersion + " a client answers nothing: repeat the request with inputResponses instead",
			})
			return
		}
		x.w.WriteHeader(http.StatusAccepted) // there is none that means anything here
		return
	}
	if f := h.mismatch(x.r, in); f != nil {
		x.refuse(f)
		return
	}
	scope := scopeOf(who, in)
	h.mu.Lock()
	s := h.scopes[scope]
	h.mu.Unlock()
	for s == nil || !s.enter() {
		var f *refusal
		if s, f = h.open(who, scope); f != nil {
			x.refuse(f)
			return
		}
	}
	defer s.leave()
	if f := s.full(true); f != nil {
		x.refuse(f)
		return
	}
	x.modern, x.s, x.st = true, s, newStream(1)
	x.st.answered = !x.sse
	x.e = s.c.begin(in, body, x.st)
	x.serve()
}

// The JSON-RPC error codes of revision 2026-07-28.
const (
	codeMismatch    = mcp.HEADER_MISMATCH
	codeUnsupported = mcp.UNSUPPORTED_PROTOCOL_VERSION
)

// mismatch judges the headers of a modern request, which repeat what stands in
// its body.
func (h *HTTP) mismatch(r *http.Request, in *incoming) *refusal {
	bad := func(code int, why string) *refusal {
		return &refusal{status: http.StatusBadRequest, code: code, why: why}
	}
	for _, name := range []string{mcp.HeaderProtocolVersion, mcp.HeaderMethod, mcp.HeaderName} {
		if len(r.Header.Values(name)) > 1 {
			return bad(codeMismatch, "header mismatch: "+name+" was sent more than once")
		}
	}
	header := r.Header.Get(mcp.HeaderProtocolVersion)
	version, err := jsonrpc.Unquote(in.slots[slotVersion])
	switch {
	case in.slots[slotVersion] == nil:
		return bad(mcp.INVALID_PARAMS, "missing _meta field "+mcp.MetaKeyProtocolVersion)
	case err != nil:
		return bad(mcp.INVALID_PARAMS, "the _meta field "+mcp.MetaKeyProtocolVersion+" is no string")
	case header == "":
		return bad(codeMismatch, "header mismatch: "+mcp.HeaderProtocolVersion+" is missing")
	case header != version:
		return bad(codeMismatch, fmt.Sprintf("header mismatch: %s is %.40q, and the body says %.40q", mcp.HeaderProtocolVersion, header, version))
	case version != modernVersion:
		data, err := json.Marshal(mcp.UnsupportedProtocolVersionData{Supported: mcp.ValidProtocolVersions, Requested: version[:min(len(version), 40)]})
		if err != nil {
			return bad(codeInternal, err.Error())
		}
		f := bad(codeUnsupported, fmt.Sprintf("unsupported protocol version %.40q", version))
		f.data = data
		return f
	}
	if err := mcp.ValidateStandardHeaders(r.Header.Get, version, mcp.MCPMethod(in.Method), in.Params); err != nil {
		return bad(codeMismatch, err.Error())
	}
	if in.Method == "tools/call" && h.o.CheckParams != nil {
		name, err := jsonrpc.Unquote(in.slots[slotName])
		if err == nil {
			err = h.o.CheckParams(name, in.Params, func(name string) (string, bool) {
				values := r.Header.Values(name)
				return strings.Join(values, ", "), len(values) > 0 // several of one name are one (RFC 9110, 5.3)
			})
		}
		if err != nil {
			return bad(codeMismatch, err.Error())
		}
	}
	return nil
}

// legacy takes a message of a client with a session.
func (h *HTTP) legacy(x *exchange, who Principal, in *incoming, body []byte) {
	if in.Method == "initialize" && in.IsRequest() {
		h.initialize(x, who, in, body)
		return
	}
	s, f := h.session(x.r, who)
	if f == nil && !s.enter() {
		f = refuseUnknown
	}
	if f != nil {
		x.refuse(f)
		return
	}
	defer s.leave()
	if f := s.full(in.IsRequest()); f != nil {
		x.refuse(f)
		return
	}
	if !in.IsRequest() {
		s.c.begin(in, body, s.general)
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	x.s, x.st = s, s.stream()
	x.st.answered = !x.sse
	x.e = s.c.begin(in, body, x.st)
	x.serve()
}

// initialize opens a session, which there is only once the handshake has
// succeeded.
func (h *HTTP) initialize(x *exchange, who Principal, in *incoming, body []byte) {
	s, f := h.open(who, "")
	if f == nil && !s.enter() {
		f = refuseUnknown
	}
	if f != nil {
		x.refuse(f)
		return
	}
	defer s.leave()
	x.s, x.st = s, s.stream()
	x.e = s.c.begin(in, body, x.st) // answered from memory, before it returns
	if events, _, _ := x.st.next(0); len(events) == 1 && events[0].code(in.ID) == 0 {
		x.w.Header().Set(mcp.HeaderSessionID, s.id)
	} else {
		h.mu.Lock()
		h.forget(s)
		h.mu.Unlock()
		defer s.close("the handshake failed")
	}
	x.serve()
}

// full refuses a client that sends too much at once, or too fast. What it says
// to requests that are in flight is taken all the same. A legacy client's
// requests stay in flight when it has closed their connections.
func (s *httpSession) full(request bool) *refusal {
	s.mu.Lock()
	busy := s.busy
	s.mu.Unlock()
	if request && max(busy, s.c.inFlight()+1) > s.h.o.MaxEach {
		return &refusal{
			status: http.StatusTooManyRequests, code: codeTooMany, retry: time.Second,
			why: fmt.Sprintf("%d requests of this client are open, which is the most; wait for answers", s.h.o.MaxEach),
		}
	}
	if now := time.Now(); !s.rate.AllowN(now, 1) {
		wait := time.Second
		if missing := 1 - s.rate.TokensAt(now); missing > 0 {
			wait = max(wait, time.Duration(missing/float64(s.h.o.MaxRate)*float64(time.Second)))
		}
		return &refusal{
			status: http.StatusTooManyRequests, code: codeTooMany, retry: wait,
			why: fmt.Sprintf("this client sends more than %d requests a second; send them slower", s.h.o.MaxRate),
		}
	}
	return nil
}

// get opens the stream of what belongs to no request, or resumes one that its
// client lost.
func (h *HTTP) get(w http.ResponseWriter, r *http.Request, who Principal) {
	if _, stream := accepts(r); !stream || r.Header.Get("Accept") == "" {
		refuseHTTP(w, nil, &refusal{
			status: http.StatusNotAcceptable, code: codeInvalid,
			why: "this is an endpoint of the Model Context Protocol, for programs: a GET accepts text/event-stream",
		})
		return
	}
	s, f := h.session(r, who)
	if f == nil && !s.enter() {
		f = refuseUnknown
	}
	if f != nil {
		refuseHTTP(w, nil, f)
		return
	}
	defer s.leave()
	if f := s.full(true); f != nil {
		refuseHTTP(w, nil, f)
		return
	}
	x := &exchange{h: h, w: w, r: r, s: s, st: s.general, sse: true, resumed: true, unread: true}
	if last := r.Header.Get(mcp.HeaderLastEventID); last != "" {
		number, event, ok := eventOf(last)
		if ok {
			x.st, x.from, x.unread = s.kept(number), event, false
		}
		if !ok || x.st == nil {
			refuseHTTP(w, nil, &refusal{
				status: http.StatusBadRequest, code: codeInvalid,
				why: "the stream of this Last-Event-ID is not kept any more; what was on it is lost, so ask again",
			})
			return
		}
	}
	x.serve()
}

// eventID is what a client is told of an event: its stream and its number.
func eventID(stream, event uint64) string {
	return strconv.FormatUint(stream, 10) + "-" + strconv.FormatUint(event, 10)
}

func eventOf(id string) (stream, event uint64, ok bool) {
	a, b, ok := strings.Cut(id, "-")
	stream, err := strconv.ParseUint(a, 10, 64)
	event, err2 := strconv.ParseUint(b, 10, 64)
	return stream, event, ok && errors.Join(err, err2) == nil
}

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
	spliced bool   // a child's errors are answers like others
	resumed bool   // a stream from the start
	unread  bool   // from what nobody has read yet
	from    uint64 // else behind the event with this number

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
	reader := x.st.attach(x.r.Context())
	defer x.left(reader)
	if x.unread {
		x.from = x.st.lastSent()
	}
	// A request that takes a while becomes a stream: so that nobody between
	// takes the silence for an end, and a client that is cut off can come back.
	quiet := x.h.o.KeepAlive
	if x.resumable() && !x.resumed {
		quiet = min(quiet, primeAfter)
	}
	timer := time.NewTimer(quiet)
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
			return
		case <-x.r.Context().Done():
			x.lost()
			return
		case <-timer.C:
			timer.Reset(x.h.o.KeepAlive)
			if _, err := x.h.o.Authorize(x.r); err != nil {
				x.lost()
				return
			}
			if !x.sse {
				continue
			}
			if !x.streaming && !x.begin() || !x.write([]byte(": \n\n")) {
				x.lost()
				return
			}
		}
	}
}

// left ends the reader.
func (x *exchange) left(r *reader) {
	x.st.detach(r)
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
// since 2026-07-28, and before only where the message is none.
func (x *exchange) status(e *event) int {
	code := e.code(x.id)
	switch {
	case code == 0 || !x.modern:
		return http.StatusOK
	case code == mcp.MISSING_REQUIRED_CLIENT_CAPABILITY:
		return http.StatusBadRequest
	case x.spliced && x.e != nil:
		return http.StatusOK // it is between the client and the child
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
