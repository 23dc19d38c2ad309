package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

const (
	callLine = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}`
	called   = `{"jsonrpc":"2.0","id":7,"result":{"sum":3}}`

	// acknowledged is the first event of a subscription.
	acknowledged = `data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}` + "\n\n"
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

// What a server answers instead of an answer ends the request alone, and says
// whether the call may have been carried out. A greeting ends the link with it.
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
		notRun bool
	}{
		{"429", say(429, "text/plain", "slow down", "Retry-After", "7"), "broken", 429, "slow down", true},
		{"500", say(500, "text/html", "<html><p>oops</p></html>"), "broken", 500, "a page for people", false},
		{"502", say(502, "text/plain", ""), "broken", 502, "Bad Gateway", false},
		{"503", say(503, "text/plain", ""), "broken", 503, "Unavailable", false},
		{"503 for a while", say(503, "text/plain", "", "Retry-After", "7"), "broken", 503, "Unavailable", true},
		{"408", say(408, "text/plain", ""), "broken", 408, "Timeout", false},
		{"400", say(400, "text/plain", "what?"), "broken", 400, "what?", true},
		{"401", say(401, "text/plain", "", "WWW-Authenticate", `Bearer resource_metadata="x"`), "broken", 401, "it wants credentials (Bearer)", true},
		{"403", say(403, "text/plain", "not you"), "broken", 403, "not you", true},
		{"407", say(407, "text/plain", ""), "broken", 407, "Proxy", true},
		{"html", say(200, "text/html", "<html>"), "broken", 0, "text/html", false},
		{"nothing", say(202, "", ""), "broken", 0, "where JSON", false},
		{"no JSON", say(200, jsonType, "{"), "noise", 0, "", false},
		{"another id", say(200, jsonType, `{"jsonrpc":"2.0","id":99,"result":{}}`), "frame", 0, "", false},
		{"elsewhere", say(307, "", "", "Location", "http://169.254.169.254/latest"), "broken", 0, "http://169.254.169.254/latest, which is not where", true},
		{"not a POST any more", say(302, "", "", "Location", "/other"), "broken", 0, "drops the request", false},
		{"for ever", say(307, "", "", "Location", "/mcp"), "broken", 0, "more than 5 times", true},
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
			if ev.HTTPStatus != tt.status || tt.status == 429 && ev.RetryAfter != 7*time.Second || ev.NotRun != tt.notRun || !ev.Remote {
				t.Errorf("%+v", ev)
			}
			k.say(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
			if h := k.next("frame"); h.id != "8" {
				t.Errorf("the link is of no more use: %+v", h)
			}
			if tt.status == http.StatusBadRequest {
				return // is taken for a server of the older transport
			}
			s = newFake()
			s.on[methodInitialize] = tt.answer
			k = open(t, messages.TransportHTTP, s, Options{})
			k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
			switch tt.name {
			case "html", "nothing": // it is there
				k.next("broken")
			default:
				k.next("eof")
			}
		})
	}
}

// A JSON-RPC error with an HTTP status is the answer to the request, also where
// the server did not know its id.
func TestErrorsWithAStatus(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"7", "null", `"server-error"`, "6"} {
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

// A server that refuses the modern greeting before it reads it, as one that knows
// only sessions does, is greeted in the other era at once.
func TestGreetingThatIsRefusedUnread(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[methodDiscover] = refuse(http.StatusBadRequest, jsonType, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}`)
	k := open(t, messages.TransportHTTP, s, Options{})
	k.say(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{}}`)
	if h := k.next("frame"); h.id != `"d"` || string(h.f.Error) != `{"code":-32600,"message":"Bad Request: Missing session ID"}` {
		t.Errorf("%+v", h)
	}
	k.greet()
	k.say(callLine)
	if h := k.next("frame"); h.id != "7" || len(h.f.Result) == 0 {
		t.Errorf("%+v", h)
	}
}

// What has the form of an error and cannot be read as one ends its request all the same.
func TestErrorWithAStatusThatIsNoMessage(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = refuse(http.StatusBadRequest, jsonType, `{"jsonrpc":"1.0","id":7,"error":{"code":-32602,"message":"no such tool"}}`)
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	k.next("noise")
	var f *Error
	if h := k.next("broken"); h.id != "7" || !errors.As(h.err, &f) || f.Status != http.StatusBadRequest || f.Said != "no such tool" {
		t.Errorf("%+v", h)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "+5": 0, "x": 0, "1.5": 0, "7": 7 * time.Second, "86400": longestWait, "86401": longestWait,
		"99999999999": longestWait, "99999999999999999999999": longestWait,
		"Sat, 28 Nov 2026 12:00:09 GMT": 9 * time.Second, "Sat, 28 Nov 2026 11:00:00 GMT": 0, "Wed, 21 Oct 2199 07:28:00 GMT": longestWait,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

func TestSameHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from, to string
		same     bool
	}{
		{"http://h/a", "http://h/b", true},
		{"http://h/a", "http://H:80/b", true},
		{"https://h:443/a", "https://h/b", true},
		{"http://h/a", "https://h/a", true},
		{"http://h:80/a", "https://h:443/a", true},
		{"http://h/a", "https://h:8443/a", false},
		{"http://h:8080/a", "https://h/a", false},
		{"http://h:8080/a", "https://h:8080/a", false},
		{"https://h/a", "http://h/a", false},
		{"http://h:8080/a", "http://h:8081/a", false},
		{"http://h/a", "http://h.example/a", false},
		{"http://[::1]:80/a", "http://[::1]/a", true},
		{"http://h/a", "ftp://h:80/a", false},
	} {
		from, err1 := url.Parse(tt.from)
		to, err2 := url.Parse(tt.to)
		if err1 != nil || err2 != nil || sameHost(from, to) != tt.same {
			t.Errorf("%s → %s: %v", tt.from, tt.to, !tt.same)
		}
	}
}

// Nothing is sent to another port of the host, over https either.
func TestRedirectToAnotherPort(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	other := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") }))
	t.Cleanup(other.Close)
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", other.URL+"/mcp")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	k := open(t, messages.TransportHTTP, s, Options{Transport: other.Client().Transport})
	k.greet()
	k.say(callLine)
	if h := k.next("broken"); !strings.Contains(h.err.Error(), other.URL+"/mcp, which is not where") {
		t.Errorf("%+v", h)
	}
	select {
	case got := <-asked:
		t.Errorf("the other port was asked with %q", got)
	default:
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

// A connection that breaks ends the request that it was for, which may have been
// carried out; others go on.
func TestConnectionBreaks(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w http.ResponseWriter){
		"before the answer": func(http.ResponseWriter) {},
		"in a body": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			w.Header().Set("Content-Type", jsonType)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,`)
		},
		"in an error": func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusInternalServerError)
		},
		"in a stream": func(w http.ResponseWriter) { events(w, "data: {") },
	} {
		for _, way := range []string{"HTTP/1", "HTTP/1 modern", "HTTP/2"} {
			t.Run(name+" "+way, func(t *testing.T) {
				t.Parallel()
				s := newFake()
				s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
					if begin(w); name != "before the answer" {
						_ = http.NewResponseController(w).Flush()
					}
					panic(http.ErrAbortHandler)
				}
				release := make(chan struct{})
				s.on["tools/slow"] = func(w http.ResponseWriter, r *http.Request) {
					<-release
					answer(w, []byte(r.Header.Get("X-Id")), `{}`)
				}
				var k *talk
				if way == "HTTP/2" {
					server, transport := overHTTP2(t, s)
					k = openURL(t, messages.TransportHTTP, server.URL, Options{Transport: transport})
				} else {
					k = open(t, messages.TransportHTTP, s, Options{})
				}
				if way == "HTTP/1 modern" {
					k.greetModern(s)
				} else {
					k.greet()
				}
				k.say(`{"jsonrpc":"2.0","id":6,"method":"tools/slow"}`)
				s.saw(t, 1, calls("tools/slow"))
				k.say(callLine)
				h := k.next("broken")
				var f *Error
				if !errors.As(h.err, &f) || h.id != "7" || f.NotRun || !errors.Is(f.Cause, io.EOF) && !errors.Is(f.Cause, io.ErrUnexpectedEOF) {
					t.Errorf("%+v", h)
				}
				if name == "in a stream" { // what else was cut off in it
					k.next("unheard")
				}
				close(release)
				if h := k.next("frame"); h.id != "6" {
					t.Errorf("%+v", h)
				}
				if n := len(s.saw(t, 1, calls("tools/call"))); n != 1 {
					t.Errorf("the call was sent %d times", n)
				}
			})
		}
	}
}

// A server that is gone ends the link, once, for all that was asked of it.
func TestServerThatGoes(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	k := openURL(t, messages.TransportHTTP, srv.URL, Options{})
	k.greet()
	const n = 20
	for i := range n {
		k.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"add"}}`, 100+i))
	}
	s.saw(t, n, calls("tools/call"))
	_ = srv.Listener.Close()
	srv.CloseClientConnections()
	h := k.next("eof")
	var f *Error
	if !errors.As(h.err, &f) || !errors.Is(h.err, syscall.ECONNREFUSED) {
		t.Errorf("%v", h.err)
	}
	k.next("exited")
}

// A request that was never sent was not carried out.
func TestRequestThatIsNotSent(t *testing.T) {
	t.Parallel()
	s := newFake()
	refuse := errors.New("no more connections")
	var dials atomic.Int64
	k := open(t, messages.TransportHTTP, s, Options{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 4 { // after the greeting, what follows it, and the listening stream
				return nil, refuse
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}})
	k.greet()
	s.saw(t, 3, func(ask) bool { return true })
	k.say(callLine)
	h := k.next("broken")
	var f *Error
	if !errors.As(h.err, &f) || !errors.Is(h.err, refuse) || !f.NotRun {
		t.Errorf("%+v", h)
	}
}

// The first listing is part of the start: a server that takes no credential for
// it is of no use.
func TestListingWithoutACredential(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/list"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	var f *Error
	if h := k.next("eof"); !errors.As(h.err, &f) || f.Status != http.StatusUnauthorized {
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

// A stream that breaks off in an event goes on behind the one before: the event did
// not come.
func TestResumptionInAnEvent(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) {
		events(w, "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\nid: e2\ndata: {\"jso")
		panic(http.ErrAbortHandler)
	}
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Last-Event-ID") {
		case "":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case "e1":
			events(w, "id: e2\ndata: "+called+"\n\n")
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	k.next("frame")
	if h := k.next("frame"); h.id != "7" || string(h.f.Result) != `{"sum":3}` {
		t.Errorf("%+v", h)
	}
}

// A server that is gone while it works at a call is not waited for as long as one
// whose stream broke: nobody listens there any more.
func TestServerThatIsGoneDuringACall(t *testing.T) {
	t.Parallel()
	s := newFake()
	began := make(chan struct{})
	s.on["tools/call"] = func(w http.ResponseWriter, r *http.Request) {
		events(w, "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
		w.(http.Flusher).Flush()
		close(began)
		<-r.Context().Done()
	}
	s.on[http.MethodGet] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	k := openURL(t, messages.TransportHTTP, server.URL, Options{Reconnect: time.Second})
	k.greet()
	k.say(callLine)
	<-began
	lost := time.Now()
	_ = server.Listener.Close()
	server.CloseClientConnections()
	k.next("frame")
	if h := k.next("eof"); !errors.Is(h.err, syscall.ECONNREFUSED) {
		t.Errorf("%v", h.err)
	}
	const most = 20 * time.Second // 31 s with the pauses of a stream that broke
	if took := time.Since(lost); took > most {
		t.Errorf("it took %v", took)
	}
}

func TestStreamThatEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first string
		gets  int
		noGet bool
	}{
		"without ids": {": nothing\n\n", 0, false}, "with an id": {"id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", maxResumes, false},
		"with an id, and no GET": {"id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.on["tools/call"] = func(w http.ResponseWriter, _ *http.Request) { events(w, tt.first) }
			s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Last-Event-ID") == "" || tt.noGet {
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
			k := open(t, messages.TransportHTTP, s, Options{})
			if modern {
				k.greetModern(s)
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
		k.next("unheard")
	}
}

// Where the first requests have not waited for a stream that came late, what they were told
// may be old by then.
func TestListsAreReadAnewWhereTheStreamCameLate(t *testing.T) {
	t.Parallel()
	s := newFake()
	asked := make(chan struct{})
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		<-asked
		events(w, ": hello\n\n")
		<-r.Context().Done()
	}
	k := open(t, messages.TransportHTTP, s, Options{hold: time.Millisecond})
	k.greet()
	k.say(`{"jsonrpc":"2.0","id":8,"method":"tools/list"}`)
	s.saw(t, 1, calls(methodTools))
	close(asked)
	for k.anything().what != "unheard" { // the answer may come first
	}
}

// Nor does anybody hear what is said between two streams, however short they are; that the
// first one is there costs nothing.
func TestListsAreReadAnewWithEachOtherStream(t *testing.T) {
	t.Parallel()
	s := newFake()
	var opened atomic.Int64
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		n := opened.Add(1)
		events(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/%d\"}\n\n", n))
		if n == 3 {
			<-r.Context().Done()
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	for n := 1; n <= 3; n++ {
		if n > 1 {
			k.next("unheard")
		}
		if h := k.next("frame"); h.f.Method != fmt.Sprint("notifications/", n) {
			t.Errorf("%+v, want that of stream %d", h, n)
		}
	}
}

// The pauses between streams grow while each ends at once, and for no others.
func TestFailedStreams(t *testing.T) {
	for lived, want := range map[time.Duration]int{0: 7, steadyStream - 1: 7, steadyStream: 0, time.Hour: 0} {
		if n := failed(7, lived); n != want {
			t.Errorf("after one that was there for %s %d have failed in a row, want %d", lived, n, want)
		}
	}
}

// A server that numbers its events goes on after the last one, and need not say what it
// changed meanwhile: it may have been started anew.
func TestStreamOfNumberedEvents(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		switch opened := s.saw(t, 1, streamAsks); len(opened) {
		case 1:
			events(w, "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}\n\n")
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		default:
			if r.Header.Get("Last-Event-ID") != "1" {
				t.Error("it is not asked to go on")
			}
			events(w, "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/two\"}\n\n")
			<-r.Context().Done()
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	for i, want := range []string{"notifications/one", "notifications/two"} {
		if i > 0 {
			k.next("unheard")
		}
		if h := k.next("frame"); h.f.Method != want {
			t.Errorf("%+v, want %s", h, want)
		}
	}
}

// A server that had a stream, and refuses it, is asked for it again, whether it has not
// noticed the end of the one before or something else answers in its place.
func TestListeningWhereTheStreamIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status  int
		session bool
	}{
		{http.StatusRequestTimeout, true}, {http.StatusConflict, true}, {http.StatusTooEarly, true}, {http.StatusTooManyRequests, true},
		{http.StatusBadGateway, true}, {http.StatusUnauthorized, true}, {http.StatusForbidden, true}, {http.StatusNotFound, true},
		{http.StatusBadRequest, true}, {http.StatusOK, true}, {http.StatusMethodNotAllowed, true},
		{http.StatusUnauthorized, false}, {http.StatusForbidden, false}, {http.StatusNotFound, false}, {http.StatusBadRequest, false},
		{http.StatusOK, false}, {http.StatusMethodNotAllowed, false},
	} {
		t.Run(fmt.Sprint(tt.status, tt.session), func(t *testing.T) {
			t.Parallel()
			s := newFake()
			if !tt.session {
				s.on[methodInitialize] = func(w http.ResponseWriter, _ *http.Request) {
					answer(w, []byte("1"), `{"protocolVersion":"2025-06-18","capabilities":{}}`)
				}
				s.on[methodPing] = refuse(http.StatusNotFound, "text/plain", "not now") // which says nothing of a session that there is not
			}
			var opened atomic.Int64
			s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
				switch opened.Add(1) {
				case 1:
					events(w, ": quiet\n\n")
				case 2:
					refuse(tt.status, "text/html", "<html>not now</html>")(w, r)
				default:
					events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
					<-r.Context().Done()
				}
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			k.next("unheard")
			if h := k.next("frame"); h.f.Method != methodListChanged {
				t.Errorf("%+v", h)
			}
			if n := len(s.saw(t, 1, calls(methodInitialize))); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// The subscription of a modern server is opened again when it ends; where the
// server was away meanwhile, its tools may be others.
func TestSubscription(t *testing.T) {
	t.Parallel()
	s := newFake()
	var opened atomic.Int64
	gone := make(chan struct{})
	s.on[methodListen] = func(w http.ResponseWriter, r *http.Request) {
		switch opened.Add(1) {
		case 1:
			events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}\n\n")
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		case 3:
			panic(http.ErrAbortHandler)
		default:
			events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/two\"}\n\n")
			<-r.Context().Done()
			close(gone)
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greetModern(s)
	k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
	for i, want := range []string{"notifications/one", "notifications/two"} {
		if i > 0 {
			k.next("unheard")
		}
		if h := k.next("frame"); h.f.Method != want {
			t.Errorf("%+v, want %s", h, want)
		}
	}
	k.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the subscription was not ended")
	}
	k.say(`{"jsonrpc":"2.0","id":8,"method":"tools/other"}`)
	if h := k.next("frame"); h.id != "8" {
		t.Errorf("%+v", h)
	}
}

// One that the server refuses is not asked for again.
func TestSubscriptionThatIsNotToBeHadAtTheMoment(t *testing.T) {
	t.Parallel()
	s := newFake()
	var asked atomic.Int64
	ended := make(chan struct{})
	s.on[methodListen] = func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}\n\n")
			<-ended
		case 3:
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n")
			<-r.Context().Done()
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greetModern(s)
	k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
	for i, want := range []string{"notifications/resources/list_changed", "notifications/prompts/list_changed"} {
		k.next("unheard")
		if h := k.next("frame"); h.f.Method != want {
			t.Fatalf("%+v, want %s", h, want)
		}
		if i == 0 {
			close(ended)
		}
	}
}

// Whoever has the list of a modern server hears what it changes after that: it is not
// asked before it listens, or has said that it does not, unless that takes too long.
func TestNothingIsAskedBeforeTheServerListens(t *testing.T) {
	t.Parallel()
	for how, c := range map[string]struct {
		hold    time.Duration
		answers func(w http.ResponseWriter, r *http.Request)
	}{
		"it listens": {time.Hour, func(w http.ResponseWriter, r *http.Request) {
			events(w, acknowledged)
			<-r.Context().Done()
		}},
		"it refuses":      {time.Hour, refuse(http.StatusNotFound, jsonType, `{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"no"}}`)},
		"it breaks off":   {time.Hour, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"it ends":         {time.Hour, func(http.ResponseWriter, *http.Request) {}},
		"it says nothing": {time.Millisecond, nil},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			release := make(chan struct{})
			s.on[methodListen] = func(w http.ResponseWriter, r *http.Request) {
				if c.answers == nil {
					<-r.Context().Done()
					return
				}
				if how == "it listens" || how == "it ends" {
					events(w, ": that there is a stream does not say what is in it\n\n")
				}
				<-release
				c.answers(w, r)
			}
			k := open(t, messages.TransportHTTP, s, Options{hold: c.hold})
			k.greetModern(s)
			k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
			k.say(`{"jsonrpc":"2.0","id":8,"method":"tools/list"}`)
			k.say(callLine)
			s.saw(t, 1, calls(methodListen))
			if c.answers != nil {
				other := open(t, messages.TransportHTTP, s, Options{}) // has time for more than a request
				other.greetModern(s)
				asked := func(a ask) bool { return a.method == methodTools || a.method == "tools/call" }
				if n := len(s.saw(t, 0, asked)); n > 0 {
					t.Errorf("the server got %d requests first", n)
				}
			}
			close(release)
			s.saw(t, 1, calls(methodTools))
			s.saw(t, 1, calls("tools/call"))
		})
	}
}

// One stream that takes the place of another holds nothing back.
func TestALaterSubscriptionHoldsNothingBack(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[methodListen] = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Id") == "5" {
			events(w, acknowledged)
		}
		<-r.Context().Done()
	}
	k := open(t, messages.TransportHTTP, s, Options{hold: time.Hour})
	k.greetModern(s)
	k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
	k.say(`{"jsonrpc":"2.0","id":6,"method":"subscriptions/listen","params":{}}`)
	s.saw(t, 2, calls(methodListen))
	k.say(`{"jsonrpc":"2.0","id":8,"method":"tools/list"}`)
	s.saw(t, 1, calls(methodTools))
}

func TestRefusedSubscription(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[methodListen] = refuse(http.StatusNotFound, jsonType, `{"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"no"}}`)
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greetModern(s)
	k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
	if h := k.next("frame"); h.id != "5" || len(h.f.Error) == 0 {
		t.Errorf("%+v", h)
	}
	if n := len(s.saw(t, 1, calls(methodListen))); n != 1 {
		t.Errorf("asked %d times", n)
	}
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

// A server that keeps as many calls as it is given is still asked whether it lives.
func TestAPingWaitsForNoCall(t *testing.T) {
	t.Parallel()
	for method, modern := range map[string]bool{methodPing: false, methodTools: false, methodDiscover: true} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.on["tools/call"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
			k := open(t, messages.TransportHTTP, s, Options{})
			if modern {
				k.greetModern(s)
			} else {
				k.greet()
			}
			before := len(s.saw(t, 0, calls(method)))
			for i := range maxPosts + 1 {
				k.say(strings.Replace(callLine, `"id":7`, `"id":`+strconv.Itoa(1000+i), 1))
			}
			s.saw(t, maxPosts, calls("tools/call"))
			k.say(`{"jsonrpc":"2.0","id":8,"method":"` + method + `"}`)
			s.saw(t, before+1, calls(method))
			if n := len(s.saw(t, maxPosts, calls("tools/call"))); n != maxPosts {
				t.Errorf("%d calls are with the server", n)
			}
		})
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
