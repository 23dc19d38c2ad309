package front

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

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
	body, f := h.body(w, r, who)
	if f != nil {
		refuseHTTP(w, nil, f)
		return
	}
	if start := bytes.TrimLeft(body, " \t\r\n"); len(start) > 0 && start[0] == '[' {
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
	flatten(body) // what is read out of it goes on as one line
	if in.IsRequest() && string(in.ID) == nullID {
		refuseHTTP(w, nil, &refusal{status: http.StatusBadRequest, code: codeInvalid, why: "the id of a request must not be null; use a string or a number"})
		return
	}
	if in.IsRequest() && len(body) > smallBody {
		each, all := h.o.maxOpenEach, h.o.maxOpen
		if in.slots[slotState] != nil {
			each, all = 2*each, 2*all
		}
		if in.free, f = h.bodies.hold(who.Key, body, each, all); f != nil {
			refuseHTTP(w, in.ID, f)
			return
		}
		defer in.let()
	}
	x := &exchange{h: h, w: w, r: r, id: in.ID, object: object, sse: stream}
	if in.slots[slotVersion] != nil || r.Header.Get(mcp.HeaderProtocolVersion) >= modernVersion {
		h.modern(x, who, &in)
		return
	}
	h.legacy(x, who, &in)
}

// modern takes a message of a client without a session.
func (h *HTTP) modern(x *exchange, who Principal, in *incoming) {
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
		s.introduce(in)
	}
	defer s.leave()
	if f := s.full(in); f != nil {
		x.refuse(f)
		return
	}
	x.modern, x.s, x.st = true, s, s.single()
	x.st.answered = !x.sse
	x.e = s.c.begin(in, x.st)
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
			err = h.o.CheckParams(r.Context(), name, in.Params, func(name string) (string, bool) {
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
func (h *HTTP) legacy(x *exchange, who Principal, in *incoming) {
	if in.Method == "initialize" && in.IsRequest() {
		h.initialize(x, who, in)
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
	if f := s.full(in); f != nil {
		x.refuse(f)
		return
	}
	if !in.IsRequest() {
		s.c.begin(in, s.general)
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	x.s, x.st = s, s.stream()
	x.st.answered = !x.sse
	x.e = s.c.begin(in, x.st)
	x.serve()
}

// initialize opens a session, which there is only once the handshake has
// succeeded.
func (h *HTTP) initialize(x *exchange, who Principal, in *incoming) {
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
	x.e = s.c.begin(in, x.st) // answered from memory, before it returns
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
