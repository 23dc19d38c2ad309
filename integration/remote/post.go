package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "MCP-Protocol-Version"
	jsonType      = "application/json"
	streamType    = "text/event-stream"
)

// exchange sends a line and reads what comes back.
func (k *Link) exchange(x *exchange) {
	if x.method == methodListen && k.isModern() {
		k.subscribe(x)
		return
	}
	for first := true; ; first = false {
		if s := k.sseMode(); s != nil {
			k.exchangeSSE(x, s)
			return
		}
		session := k.sessionNow()
		resp, err := k.post(x.ctx, k.base, x, session)
		if err != nil {
			k.lost(x, err)
			return
		}
		again := k.answer(x, resp, session, first)
		drain(resp)
		if !again {
			return
		}
	}
}

// answer reads the response to a line. It reports, of the first attempt at most,
// that the line is to be sent once more: the session is a new one, or the
// transport is.
func (k *Link) answer(x *exchange, resp *http.Response, session string, first bool) (again bool) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		return k.refused(x, resp, kind, session, first)
	case x.id == nil:
		return false
	}
	k.mu.Lock()
	k.proven = true
	if x.method == methodInitialize && k.waits(x) {
		k.session = resp.Header.Get(headerSession)
	}
	k.mu.Unlock()
	switch kind {
	case jsonType:
		k.whole(x, resp.Body)
	case streamType:
		k.stream(x, resp.Body)
	default:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		k.broken(x.id, body, &Error{Said: fmt.Sprintf("it answered HTTP %d with %q where JSON or an event stream was due", resp.StatusCode, kind)})
	}
	return false
}

// whole reads an answer that is one JSON text.
func (k *Link) whole(x *exchange, r io.Reader) {
	body, err := readWhole(r, k.l.o.MaxMessage)
	switch {
	case errors.Is(err, errTooLarge):
		k.tooLarge(x.id)
		return
	case err != nil:
		k.lost(x, err)
		return
	}
	body = unmarked(body)
	if !k.frames(body, x) {
		k.broken(x.id, body, errors.New("the body of the response does not answer the request"))
	}
}

// frames hands on what a body or an event holds, and says whether the answer to x
// was there. An array of messages is a batch, which servers of 2025-03-26 may answer
// with. It is taken apart as it is read: one may hold tens of millions of messages, of a
// few bytes each.
func (k *Link) frames(body []byte, x *exchange) (answered bool) {
	take := func(text []byte) {
		over := k.frame(text, x)
		if over != nil && over != x {
			over.cancel() // it waits elsewhere for what came here
		}
		answered = answered || over != nil && over == x
	}
	text := bytes.TrimLeft(body, " \t\r\n")
	if len(text) == 0 || text[0] != '[' {
		take(body)
		return answered
	}
	messages := 0
	err := jsonrpc.Elements(text, func(element []byte) error {
		messages++
		take(element)
		return nil
	})
	if err != nil || messages == 0 {
		k.noise(text)
	}
	return answered
}

// refused takes an answer with an error status. JSON-RPC errors are answers; a
// session that the server has forgotten is made anew; anything else ends the
// request alone, or the link where it cannot start without.
func (k *Link) refused(x *exchange, resp *http.Response, kind, session string, first bool) (again bool) {
	const enough = 64 << 10
	body, err := io.ReadAll(io.LimitReader(resp.Body, enough))
	if err != nil {
		k.lost(x, err)
		return false
	}
	status := resp.StatusCode
	text, own := errorFor(x.id, body)
	// Without a credential that is taken nothing else was judged, whatever is said.
	answers := text != nil && kind == jsonType && x.id != nil && !noCredential(status)
	// Some servers have no use for the notification; whether there is a session shows
	// with the next request.
	begins := x.method == methodInitialize || x.method == methodInitialized
	if session != "" && !begins && (status == http.StatusNotFound || speaksOfSession(status, body)) {
		switch {
		case answers && own:
			// The tool may have run, and speak of a session of its own: it is not
			// repeated, but the next request shall not fail for the same reason.
			defer k.renewWhereForgotten(session)
		case first && (status == http.StatusNotFound || k.forgotten(x.ctx, session)):
			return k.renewed(x, session)
		}
	}
	if answers {
		k.mu.Lock()
		k.proven = true
		k.mu.Unlock()
		if !k.legible(text, x) {
			k.broken(x.id, body, k.refusal(resp, body))
		}
		return false
	}
	f := k.refusal(resp, body)
	k.mu.Lock()
	proven := k.proven
	k.mu.Unlock()
	switch {
	case !proven && x.method == methodInitialize && oldTransport(status) && !wantsTLS(status, body):
		return k.useSSE()
	case x.id == nil:
		return false // nobody waits, and what is wrong shows with the next request
	case x.method == methodDiscover && otherEra(status):
		k.broken(x.id, nil, f) // the older greeting follows
	case !proven, noCredential(status) && k.starts(x):
		k.fail(f)
	default:
		k.broken(x.id, nil, f)
	}
	return false
}

// noCredential says whether a status is that of a credential that is missing, or
// is not enough.
func noCredential(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired
}

// otherEra says whether a server that answers the modern greeting so may know
// the legacy one.
func otherEra(status int) bool {
	return status < http.StatusInternalServerError && status != http.StatusTooManyRequests && !noCredential(status)
}

// oldTransport says whether a server that answers a POST so may be one that
// knows HTTP+SSE only.
func oldTransport(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// errorFor returns a body that is a JSON-RPC error as the answer to the request that
// was refused with it: servers that refuse before they read the request do not know
// its id, and say null, or one of their own ("server-error"). own says that this one
// does.
func errorFor(id json.RawMessage, body []byte) (text []byte, own bool) {
	var e struct {
		ID    json.RawMessage `json:"id"`
		Error *struct {
			Code    *int64  `json:"code"`
			Message *string `json:"message"`
		} `json:"error"`
	}
	body = unmarked(body)
	if json.Unmarshal(body, &e) != nil || e.Error == nil || e.Error.Code == nil || e.Error.Message == nil {
		return nil, false
	}
	if len(id) > 0 && bytes.Equal(e.ID, id) {
		return body, true
	}
	var raw struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &raw) != nil {
		return nil, false
	}
	text = append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	return append(append(append(text, `,"error":`...), raw.Error...), '}'), false
}

// drain reads the rest of a response, so that its connection can be used again,
// unless that takes long.
func drain(resp *http.Response) {
	const (
		enough   = 64 << 10
		patience = 250 * time.Millisecond
	)
	timer := time.AfterFunc(patience, func() { _ = resp.Body.Close() })
	_, _ = io.CopyN(io.Discard, resp.Body, enough)
	timer.Stop()
	_ = resp.Body.Close()
}

// asksOnly says whether a request is one of the host's own that changes nothing.
func asksOnly(method string) bool {
	switch method {
	case methodPing, methodDiscover, methodTools, methodInitialize:
		return true
	}
	return false
}

// post makes one request. The caller closes the body.
func (k *Link) post(ctx context.Context, to *url.URL, x *exchange, session string) (*http.Response, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { x.sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(x.line))
	if err != nil {
		return nil, err
	}
	version := x.version
	if version == "" && x.method != methodInitialize { // with which it is agreed upon anew
		version = k.versionNow()
	}
	k.headers(req, session, version)
	if asksOnly(x.method) {
		// Without a value it is not sent, and says that a connection which was closed
		// while nobody used it may be replaced.
		req.Header["Idempotency-Key"] = nil
	}
	req.Header.Set("Content-Type", jsonType)
	req.Header.Set("Accept", jsonType+", "+streamType)
	name := subject(x)
	k.mu.Lock()
	modern := k.modern || x.method == methodDiscover
	var list []mirror
	if x.method == methodCall {
		list = k.mirrors[name]
	}
	k.mu.Unlock()
	if modern {
		req.Header.Set(headerVersion, mcp.LATEST_PROTOCOL_VERSION)
		if x.method != "" {
			req.Header.Set("Mcp-Method", x.method)
		}
		if name != "" {
			req.Header.Set("Mcp-Name", headerValue(name))
		}
		if len(list) > 0 {
			setMirrors(req.Header, list, x.params)
		}
	}
	return k.do(req)
}

// headers sets what every request carries; version is that of the protocol, "": none of
// ours, but the user may have configured one.
func (k *Link) headers(req *http.Request, session, version string) {
	req.Header.Set("User-Agent", "metamcp")
	for name, value := range k.spec.Headers {
		req.Header.Set(name, value)
	}
	if session != "" {
		req.Header.Set(headerSession, session)
	}
	if version != "" {
		req.Header.Set(headerVersion, version)
	}
}

// subject is what a modern request has in its Mcp-Name.
func subject(x *exchange) string {
	var p struct {
		Name string `json:"name"`
		URI  string `json:"uri"`
		Task string `json:"taskId"`
	}
	switch x.method {
	case methodCall, "prompts/get":
		_ = json.Unmarshal(x.params, &p)
		return p.Name
	case "resources/read":
		_ = json.Unmarshal(x.params, &p)
		return p.URI
	case "tasks/get", "tasks/update", "tasks/cancel":
		_ = json.Unmarshal(x.params, &p)
		return p.Task
	}
	return ""
}

// goodbye gives the session back. A server that does not want that says 405.
func (k *Link) goodbye(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, k.base.String(), nil)
	if err != nil {
		return
	}
	k.headers(req, k.sessionNow(), k.versionNow())
	resp, err := k.do(req)
	if err != nil {
		return
	}
	drain(resp)
}
