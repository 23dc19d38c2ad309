package front

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// httpFront is a running front over HTTP.
type httpFront struct {
	t      testing.TB
	h      *HTTP
	l      *Listener
	engine *fakeEngine
	client *http.Client

	mu    sync.Mutex
	peers []*Peer
	ended int // sessions of the engine
}

// startHTTP serves on a port of its own; opts may lack what it adds.
func startHTTP(t testing.TB, o HTTPOptions) *httpFront {
	t.Helper()
	return startHTTPWithin(t, o, patience)
}

// startHTTPWithin is startHTTP with a time for the headers of a request, which is also
// that of a connection which a client has opened and does not use yet.
func startHTTPWithin(t testing.TB, o HTTPOptions, headerTime time.Duration) *httpFront {
	t.Helper()
	f := &httpFront{t: t, engine: &fakeEngine{signal: make(chan struct{}, 1000)}}
	if o.MCP == nil {
		o.MCP = newMCP(nil)
	}
	if o.Open == nil {
		o.Open = func(Principal) (Opened, error) {
			return Opened{
				Session: NextSession(), Engine: f.engine,
				Ready: func(p *Peer) { f.mu.Lock(); f.peers = append(f.peers, p); f.mu.Unlock() },
				Close: func() { f.mu.Lock(); f.ended++; f.mu.Unlock() },
			}, nil
		}
	}
	o.ServerInfo, o.LoopbackOnly = []byte(testInfo), true
	f.h = NewHTTP(o)
	var err error
	if f.l, err = f.h.Listen(t.Context(), ListenOptions{Addr: ":0", headerTime: headerTime}); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	f.client = &http.Client{Transport: transport, Timeout: 2 * patience}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		transport.CloseIdleConnections()
		_ = f.l.Close(ctx) // what it says is a test's of its own
	})
	return f
}

// reply is a response whose body was read whole.
type reply struct {
	*http.Response
	body string
}

type headers map[string]string

// request makes a request; body "" is none. A header of "" is left out.
func (f *httpFront) request(ctx context.Context, method, body string, hs headers) *http.Request {
	f.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, f.l.URL(), strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	set := headers{"Accept": "application/json, text/event-stream"}
	if body != "" {
		set["Content-Type"] = "application/json"
	}
	for k, v := range hs {
		set[k] = v
	}
	for k, v := range set {
		switch {
		case k == "Host":
			r.Host = v
		case v != "":
			r.Header.Set(k, v)
		}
	}
	return r
}

// try sends a request and reads the answer whole.
func (f *httpFront) try(method, body string, hs headers) (*reply, error) {
	f.t.Helper()
	res, err := f.client.Do(f.request(context.Background(), method, body, hs))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(res.Body)
	return &reply{res, string(text)}, errors.Join(err, res.Body.Close())
}

func (f *httpFront) do(method, body string, hs headers) *reply {
	f.t.Helper()
	r, err := f.try(method, body, hs)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *httpFront) post(body string, hs headers) *reply { f.t.Helper(); return f.do("POST", body, hs) }

// open shakes hands as a legacy client and returns the headers of its session.
func (f *httpFront) open(more ...headers) headers {
	f.t.Helper()
	hs := headers{}
	for _, m := range more {
		for k, v := range m {
			hs[k] = v
		}
	}
	r := f.post(initLine("2025-11-25"), hs)
	id := r.Header.Get("Mcp-Session-Id")
	if r.StatusCode != http.StatusOK || len(id) < 40 {
		f.t.Fatalf("initialize: %d, session %q, %s", r.StatusCode, id, r.body)
	}
	hs["Mcp-Session-Id"], hs["Mcp-Protocol-Version"] = id, "2025-11-25"
	if r := f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, hs); r.StatusCode != http.StatusAccepted || r.body != "" {
		f.t.Fatalf("initialized: %d, %s", r.StatusCode, r.body)
	}
	return hs
}

func (f *httpFront) peer(i int) *Peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peers[i]
}

func (f *httpFront) endedSessions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// eventually waits until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-deadline.C:
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

func initLine(version string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`, version)
}

// sse is one event of a stream.
type sse struct{ id, data string }

// eventStream is an open stream.
type eventStream struct {
	f      *httpFront
	res    *http.Response
	lines  *bufio.Reader
	cancel context.CancelFunc
}

// stream opens a stream, and does not wait for more than its headers.
func (f *httpFront) stream(method, body string, hs headers) *eventStream {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	res, err := f.client.Do(f.request(ctx, method, body, hs))
	if err != nil {
		cancel()
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { cancel(); _ = res.Body.Close() })
	if kind := res.Header.Get("Content-Type"); kind != "text/event-stream" {
		text, err := io.ReadAll(res.Body)
		f.t.Fatalf("%d, Content-Type %q: %s, %v", res.StatusCode, kind, text, err)
	}
	return &eventStream{f, res, bufio.NewReader(res.Body), cancel}
}

// next returns the next event that has data; ok is false at the end.
func (s *eventStream) next() (e sse, ok bool) {
	s.f.t.Helper()
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, false
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "id: "):
			e.id = line[4:]
		case strings.HasPrefix(line, "data: "):
			e.data = line[6:]
		case line == "" && e.data != "":
			return e, true
		}
	}
}

func (s *eventStream) want(part string) sse {
	s.f.t.Helper()
	e, ok := s.next()
	if !ok || !strings.Contains(e.data, part) || !json.Valid([]byte(e.data)) {
		s.f.t.Fatalf("event %+v, %v; want %s", e, ok, part)
	}
	return e
}

func (s *eventStream) ends() {
	s.f.t.Helper()
	if e, ok := s.next(); ok {
		s.f.t.Fatalf("the stream goes on with %+v", e)
	}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// modernHeaders are those of a modern request.
func modernHeaders(method, name string) headers {
	return headers{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name}
}

func modernCall(id any, args, token string) string {
	meta := modernMeta
	if token != "" {
		meta = strings.TrimSuffix(meta, "}") + `,"progressToken":` + token + `}`
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"tools/call","params":{"name":"mcp_call","arguments":%s,%s}}`, id, args, meta)
}
