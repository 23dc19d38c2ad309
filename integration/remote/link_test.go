package remote

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

const (
	callLine = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}`
	called   = `{"jsonrpc":"2.0","id":7,"result":{"sum":3}}`
)

func TestSession(t *testing.T) {
	t.Parallel()
	s := newFake()
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	if h := k.next("frame"); h.id != "7" || string(h.f.Result) != `{"ok":"tools/call"}` {
		t.Errorf("%+v", h)
	}
	a := s.saw(t, 1, calls("tools/call"))[0]
	for name, want := range map[string]string{
		headerSession: "session-1", headerVersion: "2025-06-18", "Authorization": "Bearer t0ken",
		"Accept": jsonType + ", " + streamType, "Content-Type": jsonType, "Mcp-Method": "",
	} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// The request did not overtake what makes the session one.
	s.mu.Lock()
	if order := s.asked[1].method; order != methodInitialized {
		t.Errorf("after the greeting came %s", order)
	}
	s.mu.Unlock()
	k.CloseInput()
	if h := k.next("eof"); !errors.Is(h.err, io.EOF) {
		t.Error(h.err)
	}
	if h := k.next("exited"); !h.exit.Requested {
		t.Error("the end was asked for")
	}
	s.saw(t, 1, func(a ask) bool { return a.http == http.MethodDelete && a.header.Get(headerSession) == "session-1" })
	if k.TreeAlive() {
		t.Error("it lives")
	}
	if err := k.Send([]byte(callLine)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// A session that the server has forgotten is made anew once, by one of those
// who noticed, and every request is answered.
func TestForgottenSession(t *testing.T) {
	t.Parallel()
	s := newFake()
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	s.saw(t, 1, calls(methodInitialized))
	s.mu.Lock()
	clear(s.live)
	s.mu.Unlock()
	const n = 20
	for i := range n {
		k.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":{"name":"add"}}`, i))
	}
	answered := map[string]bool{}
	changed := 0
	for len(answered) < n || changed == 0 {
		switch h := k.next("frame"); {
		case h.f.Method == methodListChanged:
			changed++
		case len(h.f.Result) == 0 || answered[h.id]:
			t.Fatalf("%+v", h)
		default:
			answered[h.id] = true
		}
	}
	if changed != 1 || len(s.saw(t, 2, calls(methodInitialize))) != 2 {
		t.Errorf("%d new sessions", changed)
	}
	for _, a := range s.saw(t, n, calls("tools/call")) {
		if got := a.header.Get(headerSession); got != "session-1" && got != "session-2" {
			t.Errorf("sent with %q", got)
		}
	}
}

// A server that forgets every session is given up after one renewal.
func TestSessionThatIsForgottenForEver(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	k.next("frame") // the tools may have changed
	h := k.next("broken")
	var f *Error
	if !errors.As(h.err, &f) || f.Status != http.StatusNotFound || h.id != "7" {
		t.Errorf("%+v", h)
	}
	if n := len(s.saw(t, 2, calls("tools/call"))); n != 2 {
		t.Errorf("the call was sent %d times", n)
	}
}

// What a server answers instead of an answer ends the request, or the link where
// it concerns every request.
func TestRefusals(t *testing.T) {
	t.Parallel()
	say := func(status int, kind, body string, more ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			for i := 0; i < len(more); i += 2 {
				w.Header().Set(more[i], more[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		what   string
		status int
		said   string
	}{
		{"429", say(429, "text/plain", "slow down", "Retry-After", "7"), "broken", 429, "slow down"},
		{"500", say(500, "text/html", "<html><p>oops</p></html>"), "broken", 500, "a page for people"},
		{"401", say(401, "text/plain", "", "WWW-Authenticate", `Bearer resource_metadata="x"`), "eof", 401, "Bearer authorization"},
		{"403", say(403, "text/plain", "not you"), "eof", 403, "not you"},
		{"html", say(200, "text/html", "<html>"), "broken", 0, "text/html"},
		{"nothing", say(202, "", ""), "broken", 0, "where JSON"},
		{"no JSON", say(200, jsonType, "{"), "noise", 0, ""},
		{"another id", say(200, jsonType, `{"jsonrpc":"2.0","id":99,"result":{}}`), "frame", 0, ""},
		{"elsewhere", say(307, "", "", "Location", "http://169.254.169.254/latest"), "eof", 0, "http://169.254.169.254/latest, which is not where"},
		{"not a POST any more", say(302, "", "", "Location", "/other"), "eof", 0, "drops the request"},
		{"for ever", say(307, "", "", "Location", "/mcp"), "eof", 0, "more than 5 times"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.on["tools/call"] = tt.answer
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			k.say(callLine)
			h := k.next(tt.what)
			switch tt.what {
			case "noise", "frame":
				h = k.next("broken")
				if h.id != "7" {
					t.Errorf("%+v", h)
				}
				return
			}
			var f *Error
			if !errors.As(h.err, &f) || f.Status != tt.status || !strings.Contains(f.Error(), tt.said) || strings.Contains(f.Error(), "s3cret") {
				t.Fatalf("%#v: %v", h.err, h.err)
			}
			ev := f.Evidence()
			if ev.HTTPStatus != tt.status || tt.status == 429 && ev.RetryAfter != 7*time.Second {
				t.Errorf("%+v", ev)
			}
			if tt.what == "broken" {
				k.say(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
				if h := k.next("frame"); h.id != "8" {
					t.Errorf("the link is of no more use: %+v", h)
				}
			}
		})
	}
}

// A JSON-RPC error with an HTTP status is the answer to the request, also where
// the server did not know its id.
func TestErrorsWithAStatus(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"7", "null"} {
		s := newFake()
		s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", jsonType)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32602,"message":"no <such> tool"}}`)
		}
		k := open(t, messages.TransportHTTP, s, Options{})
		k.greet()
		k.say(callLine)
		if h := k.next("frame"); h.id != "7" || string(h.f.Error) != `{"code":-32602,"message":"no <such> tool"}` {
			t.Errorf("%s: %+v", h.f.Error, h)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	k := openURL(t, messages.TransportHTTP, "http://"+addr+"/mcp?key=s3cret", Options{})
	k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	h := k.next("eof")
	var f *Error
	if !errors.As(h.err, &f) || !errors.Is(h.err, syscall.ECONNREFUSED) || strings.Contains(h.err.Error(), "s3cret") {
		t.Errorf("%v", h.err)
	}
	if h := k.next("exited"); h.exit.Requested {
		t.Error("nobody asked for the end")
	}
}

// A connection that breaks in the middle of an answer ends the link: what was
// asked may have happened, which the pool knows how to treat.
func TestConnectionBreaks(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.Header().Set("Content-Type", jsonType)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	var f *Error
	if h := k.next("eof"); !errors.As(h.err, &f) || !errors.Is(h.err, io.ErrUnexpectedEOF) {
		t.Errorf("%+v", h)
	}
}

func TestStreamedAnswer(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
		events(w, ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n")
		events(w, "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":7,\"result\":{\"sum\":3}}\n\n")
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	for range 3 {
		k.say(callLine)
		if h := k.next("frame"); h.f.Method != "notifications/progress" {
			t.Errorf("%+v", h)
		}
		if h := k.next("frame"); h.id != "7" || string(h.f.Result) != `{"sum":3}` {
			t.Errorf("%+v", h)
		}
	}
}

// A stream that breaks off is taken up again where the server numbered its
// events, after the pause that it asked for.
func TestResumption(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
		events(w, "id: e1\nretry: 5\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
	}
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Last-Event-ID") {
		case "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "e1":
			events(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
		case "e2":
			events(w, "id: e3\ndata: "+called+"\n\n")
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	k.next("frame")
	k.next("frame")
	if h := k.next("frame"); h.id != "7" || string(h.f.Result) != `{"sum":3}` {
		t.Errorf("%+v", h)
	}
}

func TestStreamThatEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first string
		gets  int
	}{"without ids": {": nothing\n\n", 0}, "with an id": {"id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", maxResumes}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) { events(w, tt.first) }
			s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") == "" {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				events(w, ": nothing\n\n")
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			k.say(callLine)
			if tt.gets > 0 {
				k.next("frame")
			}
			if h := k.next("broken"); h.id != "7" || !strings.Contains(h.err.Error(), "ended before the answer") {
				t.Errorf("%+v", h)
			}
			if got := len(s.saw(t, tt.gets, func(a ask) bool { return a.http == http.MethodGet && a.header.Get("Last-Event-ID") != "" })); got != tt.gets {
				t.Errorf("%d attempts, want %d", got, tt.gets)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 5000)
	for name, h := range map[string]http.HandlerFunc{
		"body":  func(w http.ResponseWriter, r *http.Request) { answer(w, []byte(r.Header.Get("X-Id")), `"`+big+`"`) },
		"event": func(w http.ResponseWriter, _ *http.Request) { events(w, "data: "+big+"\n\n") },
		"lines": func(w http.ResponseWriter, _ *http.Request) { events(w, strings.Repeat("data: xxxxxxxx\n", 1000)+"\n") },
		"gzip": func(w http.ResponseWriter, r *http.Request) {
			answer(w, []byte(r.Header.Get("X-Id")), `"`+strings.Repeat("x", 1<<20)+`"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.on["tools/call"] = h
			k := open(t, messages.TransportHTTP, s, Options{MaxMessage: 4096})
			k.greet()
			k.say(callLine)
			if h := k.next("too large"); h.id != "7" {
				t.Errorf("%+v", h)
			}
			k.say(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
			if h := k.next("frame"); h.id != "8" {
				t.Errorf("%+v", h)
			}
		})
	}
}

// Cancelling a request ends its stream; a legacy server is told, a modern one
// takes the end as word.
func TestCancelledRequest(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			t.Parallel()
			s := newFake()
			began, ended := make(chan struct{}), make(chan struct{})
			s.on["tools/call"] = func(w http.ResponseWriter, r *http.Request) {
				events(w, ": wait\n\n")
				close(began)
				<-r.Context().Done()
				close(ended)
			}
			s.on[methodDiscover] = func(w http.ResponseWriter, r *http.Request) {
				answer(w, []byte(r.Header.Get("X-Id")), `{"supportedVersions":["2026-07-28"]}`)
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			if modern {
				k.say(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`)
				k.next("frame")
			} else {
				k.greet()
			}
			k.say(callLine)
			<-began
			k.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
			select {
			case <-ended:
			case <-time.After(patience):
				t.Fatal("the stream was not ended")
			}
			if !modern {
				s.saw(t, 1, calls(methodCancelled))
				return
			}
			k.CloseInput()
			k.next("eof")
			for _, a := range s.saw(t, 2, func(ask) bool { return true }) {
				if a.method == methodCancelled || a.http == http.MethodDelete {
					t.Errorf("a modern server was sent %+v", a)
				}
				if a.header.Get(headerVersion) != "2026-07-28" || a.header.Get("Mcp-Method") != a.method || a.method == "tools/call" && a.header.Get("Mcp-Name") != "add" {
					t.Errorf("headers of %s: %v", a.method, a.header)
				}
			}
		})
	}
}

// What a server says on its own comes through the stream that it offers, which
// is opened again when it ends.
func TestListening(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") == "2" {
			events(w, ": quiet\n\n")
			<-r.Context().Done()
			return
		}
		events(w, "id: "+map[string]string{"": "1", "1": "2"}[r.Header.Get("Last-Event-ID")]+"\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	for range 2 {
		if h := k.next("frame"); h.f.Method != methodListChanged {
			t.Errorf("%+v", h)
		}
	}
	s.saw(t, 3, func(a ask) bool { return a.http == http.MethodGet })
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	k := open(t, messages.TransportHTTP, s, Options{MaxQueue: 2000})
	k.greet() // what of it is still on its way is short
	long := strings.Replace(callLine, "add", strings.Repeat("x", 1500), 1)
	k.say(long)
	if err := k.Send([]byte(long)); !errors.Is(err, ErrBacklog) {
		t.Error(err)
	}
}

// A server that takes no goodbye does not hold up the end for long, and none at
// all when it is to be at once.
func TestEndOfAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[http.MethodDelete] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s.on["tools/call"] = s.on[http.MethodDelete]
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	s.saw(t, 1, calls("tools/call"))
	k.CloseInput()
	s.saw(t, 1, func(a ask) bool { return a.http == http.MethodDelete })
	if !k.TreeAlive() {
		t.Error("it has ended before it said goodbye")
	}
	k.Signal(messages.SignalKill)
	k.next("eof")
	k.next("exited")
}

// oldServer is a fake of a server that knows HTTP+SSE only.
func oldServer(endpoint string, script func(events chan<- string, body string)) http.Handler {
	lines := make(chan string, 100)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /mcp", func(w http.ResponseWriter, r *http.Request) {
		events(w, "event: endpoint\ndata: "+endpoint+"\n\n")
		for {
			select {
			case l := <-lines:
				if l == "" {
					return
				}
				events(w, l)
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("POST /post", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		script(lines, string(body))
	})
	return mux
}

func TestOldTransport(t *testing.T) {
	t.Parallel()
	for _, transport := range []messages.Transport{messages.TransportSSE, messages.TransportHTTP} {
		t.Run(string(transport), func(t *testing.T) {
			t.Parallel()
			h := oldServer("/post?session=1", func(out chan<- string, body string) {
				switch {
				case strings.Contains(body, `"initialize"`):
					out <- "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2024-11-05\"}}\n\n"
				case strings.Contains(body, "tools/call"):
					out <- "event: message\ndata: " + called + "\n\n"
				case strings.Contains(body, "die"):
					out <- ""
				}
			})
			k := open(t, transport, h, Options{})
			k.greet()
			k.say(callLine)
			if h := k.next("frame"); h.id != "7" || string(h.f.Result) != `{"sum":3}` {
				t.Errorf("%+v", h)
			}
			k.say(`{"jsonrpc":"2.0","id":9,"method":"die"}`)
			var f *Error
			if h := k.next("eof"); !errors.As(h.err, &f) {
				t.Errorf("the end of the stream is no failure: %v", h.err)
			}
		})
	}
}

func TestOldServerWithAForeignEndpoint(t *testing.T) {
	t.Parallel()
	k := open(t, messages.TransportSSE, oldServer("http://169.254.169.254/post", nil), Options{})
	k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
	if h := k.next("eof"); !strings.Contains(h.err.Error(), "another origin") {
		t.Error(h.err)
	}
}

// A server that never ends its stream, nor says anything, is let go at once.
func TestServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	hold := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events(w, ": \n\n")
		<-r.Context().Done()
	}))
	t.Cleanup(hold.Close)
	for _, transport := range []messages.Transport{messages.TransportSSE, messages.TransportHTTP} {
		k := openURL(t, transport, hold.URL, Options{})
		k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
		k.Release()
		k.next("eof")
	}
}

func TestBadURL(t *testing.T) {
	t.Parallel()
	l, err := NewLauncher(Options{Parse: parse})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []string{"", "x", "ftp://x/y", "http://", "://", "http://[::1"} {
		if _, err := l.Launch(&messages.ServerSpec{Name: "x", URL: u}, &earTrumpet{}); err == nil {
			t.Errorf("%q is a URL", u)
		}
	}
}
