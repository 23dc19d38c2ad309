package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := testkit.Leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const patience = time.Minute

func parse(text []byte, f *messages.Frame) error {
	m, err := jsonrpc.Parse(text)
	f.ID, f.Method, f.Params, f.Result, f.Error = m.ID, m.Method, m.Params, m.Result, m.Error
	return err
}

// heard is one call of the ear.
type heard struct {
	what string // frame, noise, broken, too large, renewed, unheard, eof, exited
	f    *messages.Frame
	id   string
	text string
	err  error
	exit *messages.Exit
}

// earTrumpet keeps what it is told, in order.
type earTrumpet struct{ all chan heard }

func (e *earTrumpet) Frame(f *messages.Frame)     { e.all <- heard{what: "frame", f: f, id: string(f.ID)} }
func (*earTrumpet) Flush()                        {}
func (e *earTrumpet) Noise(text []byte)           { e.all <- heard{what: "noise", text: string(text)} }
func (e *earTrumpet) TooLarge(id json.RawMessage) { e.all <- heard{what: "too large", id: string(id)} }
func (e *earTrumpet) Renewed(r json.RawMessage)   { e.all <- heard{what: "renewed", text: string(r)} }
func (e *earTrumpet) Unheard()                    { e.all <- heard{what: "unheard"} }
func (e *earTrumpet) EOF(err error)               { e.all <- heard{what: "eof", err: err} }
func (e *earTrumpet) Exited(x *messages.Exit)     { e.all <- heard{what: "exited", exit: x} }
func (e *earTrumpet) Broken(id json.RawMessage, text []byte, why error) {
	e.all <- heard{what: "broken", id: string(id), text: string(text), err: why}
}

// talk is a link under test.
type talk struct {
	*Link
	t   *testing.T
	ear *earTrumpet
}

// next returns what the ear heard next, which must be of that kind.
func (k *talk) next(what string) heard {
	k.t.Helper()
	h := k.anything()
	if h.what != what {
		k.t.Fatalf("heard %+v, want %s", h, what)
	}
	return h
}

// anything returns what the ear heard next.
func (k *talk) anything() heard {
	k.t.Helper()
	select {
	case h := <-k.ear.all:
		return h
	case <-time.After(patience):
		k.t.Fatal("nothing was heard")
		return heard{}
	}
}

func (k *talk) say(line string) {
	k.t.Helper()
	// A link may have ended already, that of an old server for example, whose stream
	// it opens by itself. What the ear hears next says so.
	if err := k.Send([]byte(line)); err != nil && !errors.Is(err, ErrClosed) {
		k.t.Fatalf("%s: %v", line, err)
	}
}

// open makes a link to a handler. maxMessage 0: the default.
func open(t *testing.T, transport messages.Transport, h http.Handler, o Options, with ...func(*messages.ServerSpec)) *talk {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return openURL(t, transport, s.URL+"/mcp?key=s3cret", o, with...)
}

func openURL(t *testing.T, transport messages.Transport, url string, o Options, with ...func(*messages.ServerSpec)) *talk {
	t.Helper()
	o.Parse = parse
	if o.Reconnect == 0 {
		o.Reconnect = time.Millisecond
	}
	if o.hold == 0 {
		o.hold = patience // on a machine that is busy a stream may come late
	}
	if o.deaf == 0 {
		o.deaf = patience
	}
	l, err := NewLauncher(o)
	if err != nil {
		t.Fatal(err)
	}
	ear := &earTrumpet{make(chan heard, 4096)}
	spec := &messages.ServerSpec{Name: "x", Transport: transport, URL: url, Headers: map[string]string{"Authorization": "Bearer t0ken"}}
	for _, change := range with {
		change(spec)
	}
	k, err := l.Launch(spec, ear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Release()
		l.Close()
	})
	return &talk{k, t, ear}
}

// ask is what the fake server was asked.
type ask struct {
	http   string // method
	method string // of JSON-RPC
	id     string
	body   string
	header http.Header
}

// fakeServer is a fake of an MCP server over Streamable HTTP with sessions: a
// test says what it answers to which method, the rest it does as the protocol
// has it.
type fakeServer struct {
	mu       sync.Mutex
	asked    []ask
	sessions int
	live     map[string]bool
	on       map[string]http.HandlerFunc // by JSON-RPC method, or HTTP method for GET and DELETE
	modern   bool
	changed  chan struct{}
}

func newFake() *fakeServer {
	return &fakeServer{live: map[string]bool{}, on: map[string]http.HandlerFunc{}, changed: make(chan struct{}, 4096)}
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &m)
	s.mu.Lock()
	s.asked = append(s.asked, ask{r.Method, m.Method, string(m.ID), string(body), r.Header.Clone()})
	key := m.Method
	if r.Method != http.MethodPost {
		key = r.Method
	}
	handler := s.on[key]
	known := s.live[r.Header.Get(headerSession)] || s.modern
	modern := s.modern
	s.mu.Unlock()
	s.changed <- struct{}{}
	switch {
	case handler != nil:
		r.Header.Set("X-Id", string(m.ID))
		handler(w, r)
	case m.Method == methodDiscover && modern:
		answer(w, m.ID, `{"supportedVersions":["2026-07-28"]}`)
	case m.Method == methodInitialize:
		s.mu.Lock()
		s.sessions++
		session := "session-" + string(rune('0'+s.sessions))
		s.live[session] = true
		s.mu.Unlock()
		w.Header().Set(headerSession, session)
		answer(w, m.ID, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodDelete:
		s.mu.Lock()
		delete(s.live, r.Header.Get(headerSession))
		s.mu.Unlock()
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	default:
		answer(w, m.ID, `{"ok":"`+m.Method+`"}`)
	}
}

func answer(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", jsonType)
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+result+`}`) //nolint:gosec // no browser reads it
}

// saw waits until the server was asked n times for something.
func (s *fakeServer) saw(t *testing.T, n int, is func(a ask) bool) []ask {
	t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		var found []ask
		for _, a := range s.asked {
			if is(a) {
				found = append(found, a)
			}
		}
		s.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-s.changed:
		case <-deadline:
			t.Fatalf("the server was asked %d times of %d: %+v", len(found), n, found)
		}
	}
}

func calls(method string) func(ask) bool { return func(a ask) bool { return a.method == method } }

func (k *talk) greet() {
	k.t.Helper()
	k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	if h := k.next("frame"); h.id != "1" || len(h.f.Result) == 0 {
		k.t.Fatalf("%+v", h)
	}
	k.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// greetModern makes the server one of the newer era, and greets it.
func (k *talk) greetModern(s *fakeServer) {
	k.t.Helper()
	s.mu.Lock()
	s.modern = true
	s.mu.Unlock()
	k.say(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`)
	if h := k.next("frame"); h.id != "1" || len(h.f.Result) == 0 {
		k.t.Fatalf("%+v", h)
	}
}

// events writes a stream and flushes it.
func events(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", streamType)
	_, _ = strings.NewReader(text).WriteTo(w)
	_ = http.NewResponseController(w).Flush()
}
