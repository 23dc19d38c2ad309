package remote

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

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
		switch h := k.anything(); {
		case h.what == "renewed":
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
	k.next("renewed")
	h := k.next("broken")
	var f *Error
	if !errors.As(h.err, &f) || f.Status != http.StatusNotFound || h.id != "7" {
		t.Errorf("%+v", h)
	}
	if n := len(s.saw(t, 2, calls("tools/call"))); n != 2 {
		t.Errorf("the call was sent %d times", n)
	}
}

// refuse answers with a status and words.
func refuse(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) //nolint:gosec // no browser reads it
	}
}

// forget makes the server forget every session.
func (s *fakeServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.live)
}

// An error with the id of the request is its answer, whatever it says of
// sessions: the tool may have run. Where the session is forgotten all the same,
// the next request has a new one.
func TestAnswersThatSpeakOfASession(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprint(status, " forgotten ", gone), func(t *testing.T) {
				t.Parallel()
				s := newFake()
				s.on["tools/call"] = refuse(status, jsonType, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"browser session expired"}}`)
				k := open(t, messages.TransportHTTP, s, Options{})
				k.greet()
				s.saw(t, 1, calls(methodInitialized))
				if gone {
					s.forget()
				}
				k.say(callLine)
				if h := k.next("frame"); h.id != "7" || len(h.f.Error) == 0 {
					t.Errorf("%+v", h)
				}
				s.saw(t, 1, calls(methodPing))
				if gone {
					k.next("renewed")
				}
				k.say(`{"jsonrpc":"2.0","id":8,"method":"tools/other"}`)
				if h := k.next("frame"); h.id != "8" || len(h.f.Result) == 0 {
					t.Errorf("%+v", h)
				}
				if n := len(s.saw(t, 1, calls("tools/call"))); n != 1 {
					t.Errorf("the call was sent %d times", n)
				}
				if n := len(s.saw(t, 1, calls(methodInitialize))); (n == 2) != gone {
					t.Errorf("%d sessions", n)
				}
			})
		}
	}
}

// Words about a session that have no id are believed when a ping is refused too.
func TestRefusalsThatSpeakOfASession(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind, body string
		gone             bool
	}{
		{"of the server's", "text/plain", "Bad Request: no valid session ID", true},
		{"of the server's, as JSON-RPC", jsonType, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`, true},
		{"of the tool's", "text/plain", "the browser session is over", false},
		{"of the tool's, as JSON-RPC", jsonType, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"the browser session is over"}}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.on["tools/call"] = func(w http.ResponseWriter, r *http.Request) {
				if tt.gone && r.Header.Get(headerSession) == "session-2" {
					answer(w, []byte(r.Header.Get("X-Id")), `{"sum":3}`)
					return
				}
				refuse(http.StatusBadRequest, tt.kind, tt.body)(w, r)
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			s.saw(t, 1, calls(methodInitialized))
			want := 1
			if tt.gone {
				want = 2
				s.forget()
			}
			k.say(callLine)
			switch {
			case tt.gone:
				k.next("renewed")
				if h := k.next("frame"); h.id != "7" || string(h.f.Result) != `{"sum":3}` {
					t.Errorf("%+v", h)
				}
			case tt.kind == jsonType:
				if h := k.next("frame"); h.id != "7" || len(h.f.Error) == 0 {
					t.Errorf("%+v", h)
				}
			default:
				if h := k.next("broken"); h.id != "7" {
					t.Errorf("%+v", h)
				}
			}
			if n := len(s.saw(t, 1, calls("tools/call"))); n != want {
				t.Errorf("the call was sent %d times, want %d", n, want)
			}
		})
	}
}

// forgotten begins a session with a server, which then does not know it any more.
func forgotten(t *testing.T, with ...func(*messages.ServerSpec)) (*fakeServer, *talk) {
	t.Helper()
	s := newFake()
	k := open(t, messages.TransportHTTP, s, Options{}, with...)
	k.greet()
	s.saw(t, 1, calls(methodInitialized))
	s.forget()
	return s, k
}

// A server that was replaced by one of another version is spoken to in that one, from
// the notification that its session begins.
func TestNewSessionOfAnotherVersion(t *testing.T) {
	t.Parallel()
	s, k := forgotten(t)
	s.mu.Lock()
	s.live["another"] = true
	s.on[methodInitialize] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(headerSession, "another")
		answer(w, []byte(r.Header.Get("X-Id")), `{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"fake","version":"0"}}`)
	}
	s.mu.Unlock()
	k.say(callLine)
	k.next("renewed")
	if h := k.next("frame"); h.id != "7" || len(h.f.Result) == 0 {
		t.Errorf("%+v", h)
	}
	for method, want := range map[string]string{methodInitialize: "", methodInitialized: "2025-03-26", "tools/call": "2025-03-26"} {
		asked := s.saw(t, 2, calls(method))
		if got := asked[1].header.Get(headerVersion); got != want {
			t.Errorf("%s was sent with the version %q, want %q", method, got, want)
		}
	}
}

// The version that a user configured goes with each greeting, since what is in front of a
// server may want one; what follows has the one that was agreed upon.
func TestConfiguredVersion(t *testing.T) {
	t.Parallel()
	s, k := forgotten(t, func(spec *messages.ServerSpec) {
		spec.Headers = map[string]string{"mcp-protocol-version": "2024-11-05"}
	})
	k.say(callLine)
	k.next("renewed")
	k.next("frame")
	for method, want := range map[string]string{methodInitialize: "2024-11-05", methodInitialized: "2025-06-18", "tools/call": "2025-06-18"} {
		for _, a := range s.saw(t, 2, calls(method)) {
			if got := a.header.Get(headerVersion); got != want {
				t.Errorf("%s was sent with the version %q, want %q", method, got, want)
			}
		}
	}
}

// A session is none whose beginning nobody took; one whose server has no use for the
// notification is.
func TestNewSessionThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	for status, begins := range map[int]bool{
		http.StatusServiceUnavailable: false, http.StatusTooManyRequests: false,
		http.StatusNotFound: true, http.StatusMethodNotAllowed: true, http.StatusNotImplemented: true,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s, k := forgotten(t)
			s.mu.Lock()
			s.on[methodInitialized] = refuse(status, "text/plain", "not now")
			s.mu.Unlock()
			k.say(callLine)
			if begins {
				k.next("renewed")
				if h := k.next("frame"); h.id != "7" || len(h.f.Result) == 0 {
					t.Errorf("%+v", h)
				}
				return
			}
			var f *Error
			if h := k.next("eof"); !errors.As(h.err, &f) || f.Status != status || f.Said != "not now" {
				t.Errorf("%+v", h)
			}
		})
	}
}

// A server that does not know the notification with which a session begins is used all
// the same, and no other session is asked for.
func TestSessionWhoseBeginningIsRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.on[methodInitialized] = refuse(status, "text/plain", "no such session method")
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			k.say(callLine)
			if h := k.next("frame"); h.id != "7" || len(h.f.Result) == 0 {
				t.Errorf("%+v", h)
			}
			if n := len(s.saw(t, 1, calls(methodInitialize))); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A server that greets nobody any more ends the link, since its session is lost.
func TestNoOtherSession(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, refused := range []bool{false, true} {
			t.Run(fmt.Sprint("stream ", stream, " refused ", refused), func(t *testing.T) {
				t.Parallel()
				s, k := forgotten(t)
				body := `"result":{}}`
				if refused {
					body = `"error":{"code":-32000,"message":"full"}}`
				}
				s.mu.Lock()
				s.live["another"] = true
				s.on[methodInitialize] = func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set(headerSession, "another")
					body := `{"jsonrpc":"2.0","id":` + r.Header.Get("X-Id") + `,` + body
					if stream {
						events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: "+body+"\n\n")
						return
					}
					refuse(http.StatusOK, jsonType, body)(w, r)
				}
				s.mu.Unlock()
				k.say(callLine)
				if !refused {
					k.next("renewed")
					if h := k.next("frame"); h.id != "7" {
						t.Errorf("%+v", h)
					}
					return
				}
				if h := k.next("eof"); h.err == nil || !strings.Contains(h.err.Error(), "full") {
					t.Errorf("%+v", h)
				}
			})
		}
	}
}

// Where the user wants no call sent twice, none is, though the session is made
// anew for the next one.
func TestForgottenSessionWithoutRepetition(t *testing.T) {
	t.Parallel()
	s, k := forgotten(t, func(spec *messages.ServerSpec) { spec.Retry = messages.RetryNever })
	k.say(callLine)
	k.next("renewed")
	h := k.next("broken")
	var f *Error
	if !errors.As(h.err, &f) || h.id != "7" || !f.NotRun {
		t.Errorf("%+v", h)
	}
	if n := len(s.saw(t, 1, calls("tools/call"))); n != 1 {
		t.Errorf("the call was sent %d times", n)
	}
	k.say(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"add"}}`)
	if h := k.next("frame"); h.id != "8" {
		t.Errorf("%+v", h)
	}
}

// The stream of a session that is no more is closed.
func TestStreamsOfOldSessions(t *testing.T) {
	t.Parallel()
	s := newFake()
	opened, closed := make(chan string, 100), make(chan string, 100)
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get(headerSession)
		events(w, ": hello\n\n")
		opened <- session
		<-r.Context().Done()
		closed <- session
	}
	wait := func(from chan string, want string) {
		t.Helper()
		select {
		case got := <-from:
			if got != want {
				t.Fatalf("it was the stream of %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("nothing happened to the stream of %s", want)
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	wait(opened, "session-1")
	for i := 2; i < 9; i++ {
		s.forget()
		k.say(callLine)
		k.next("renewed")
		k.next("frame")
		wait(opened, fmt.Sprint("session-", i))
		wait(closed, fmt.Sprint("session-", i-1))
	}
}

// What is read anew in a new session is not asked for before its stream is there.
func TestNothingIsReadAnewBeforeTheStreamOfANewSession(t *testing.T) {
	t.Parallel()
	s := newFake()
	asked, release := make(chan struct{}), make(chan struct{})
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerSession) == "session-2" {
			close(asked)
			<-release
		}
		events(w, ": hello\n\n")
		<-r.Context().Done()
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	s.forget()
	k.say(callLine)
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("no stream was asked for")
	}
	other := open(t, messages.TransportHTTP, newFake(), Options{}) // has time for more than a request
	other.greet()
	other.say(callLine)
	other.next("frame")
	if len(k.ear.all) > 0 {
		t.Errorf("first it heard %+v", k.anything())
	}
	close(release)
	k.next("renewed")
	k.next("frame")
}

// A session that is found forgotten when its stream breaks is made anew, though
// nobody calls the server: what it says on its own is heard again. Servers say
// with 400 too that they do not know it.
func TestForgottenSessionThatNobodyUses(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newFake()
			opened, broken := make(chan struct{}), make(chan struct{})
			s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
				s.mu.Lock()
				known := s.live[r.Header.Get(headerSession)]
				s.mu.Unlock()
				switch {
				case !known:
					w.WriteHeader(status)
				case r.Header.Get(headerSession) == "session-1":
					events(w, ": hello\n\n")
					close(opened)
					<-broken
				default:
					events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}\n\n")
					<-r.Context().Done()
				}
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			select {
			case <-opened:
			case <-time.After(patience):
				t.Fatal("no stream was asked for")
			}
			s.forget()
			close(broken)
			var told []string
			for range 2 { // in whatever order
				h := k.anything()
				if told = append(told, h.what); h.what == "frame" && h.f.Method != "notifications/resources/list_changed" {
					t.Errorf("%+v", h)
				}
			}
			slices.Sort(told)
			if !slices.Equal(told, []string{"frame", "renewed"}) {
				t.Error(told)
			}
			if n := len(s.saw(t, 2, calls(methodInitialize))); n != 2 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A server that does not know where its stream was, but knows the session, is asked for
// the stream from now on, and also where it has none for a while.
func TestStreamWhosePlaceIsForgotten(t *testing.T) {
	t.Parallel()
	for _, refusals := range []int64{0, 3} {
		t.Run(fmt.Sprint(refusals), func(t *testing.T) {
			t.Parallel()
			s := newFake()
			var opened, refused atomic.Int64
			s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
				switch last := r.Header.Get("Last-Event-ID"); {
				case opened.Add(1) == 1:
					events(w, "id: e1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}\n\n")
				case last != "" || refused.Add(1) <= refusals:
					w.WriteHeader(http.StatusNotFound)
				default:
					events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}\n\n")
					<-r.Context().Done()
				}
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			if h := k.next("frame"); h.f.Method != "notifications/resources/list_changed" {
				t.Errorf("%+v", h)
			}
			k.next("unheard")
			if h := k.next("frame"); h.f.Method != "notifications/prompts/list_changed" {
				t.Errorf("%+v", h)
			}
			if n := len(s.saw(t, 1, calls(methodInitialize))); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A server that had a stream in the session that it forgot is asked for it as often in the
// next one.
func TestStreamThatIsRefusedInANewSession(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
		switch asked := len(s.saw(t, 1, streamAsks)); {
		case asked == 1:
			s.forget()
			events(w, ": hello\n\n")
		case r.Header.Get(headerSession) == "session-1":
			w.WriteHeader(http.StatusNotFound)
		case asked == 3:
			w.WriteHeader(http.StatusForbidden)
		default:
			events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n")
			<-r.Context().Done()
		}
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	var told []string
	for range 3 { // in whatever order
		h := k.anything()
		if told = append(told, h.what); h.what == "renewed" && agreed([]byte(h.text)) != "2025-06-18" {
			t.Errorf("the new session begins with %q", h.text)
		}
	}
	slices.Sort(told)
	if !slices.Equal(told, []string{"frame", "renewed", "unheard"}) {
		t.Error(told)
	}
}

// A session that the link itself gives back is not one that the server has forgotten: what
// is refused for it then, and is on its way since before, makes no other.
func TestSessionThatIsGivenBackIsNotRenewed(t *testing.T) {
	t.Parallel()
	const notice = "notifications/cancelled"
	for _, asks := range []string{methodPing, notice} {
		t.Run(asks, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			given := make(chan struct{})
			s.on[http.MethodDelete] = func(http.ResponseWriter, *http.Request) { close(given) }
			s.on[asks] = func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-given:
					w.WriteHeader(http.StatusNotFound)
				case <-r.Context().Done():
				}
			}
			if asks == methodPing { // of which a server hears that refuses a stream for the second time
				var streams atomic.Int64
				s.on[http.MethodGet] = func(w http.ResponseWriter, _ *http.Request) {
					if streams.Add(1) > 1 {
						w.WriteHeader(http.StatusNotFound)
						return
					}
					events(w, ": nothing\n\n")
				}
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greet()
			if asks == notice {
				k.say(`{"jsonrpc":"2.0","method":"` + notice + `","params":{"requestId":7}}`)
			}
			s.saw(t, 1, calls(asks))
			k.CloseInput()
			k.next("eof")
			if n := len(s.saw(t, 1, calls(methodInitialize))); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A server that refuses the first stream of a session has none, and its session is
// left alone.
func TestServerWithoutStreams(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[http.MethodGet] = refuse(http.StatusNotFound, "text/plain", "Cannot GET /mcp")
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	if h := k.next("frame"); h.id != "7" {
		t.Errorf("%+v", h)
	}
	k.CloseInput()
	k.next("eof")
	if n := len(s.saw(t, 1, func(a ask) bool { return a.http == http.MethodGet })); n != 1 {
		t.Errorf("it was asked for a stream %d times", n)
	}
	if n := len(s.saw(t, 1, calls(methodInitialize))); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// Where a slow server answers both greetings, the headers of what follows are those of
// the era in which the connection goes on, which is that of the first answer; what the
// other one gave is not used.
func TestBothGreetingsAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, first, second, version, session string
	}{
		{"discover first", methodDiscover, methodInitialize, "2026-07-28", ""},
		{"initialize first", methodInitialize, methodDiscover, "2025-06-18", "session-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.modern, s.live["session-1"] = true, true
			held := map[string]chan struct{}{methodDiscover: make(chan struct{}), methodInitialize: make(chan struct{})}
			for method, result := range map[string]string{
				methodDiscover:   `{"supportedVersions":["2026-07-28"]}`,
				methodInitialize: `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`,
			} {
				s.on[method] = func(w http.ResponseWriter, r *http.Request) {
					<-held[method]
					if method == methodInitialize {
						w.Header().Set(headerSession, "session-1")
					}
					answer(w, []byte(r.Header.Get("X-Id")), result)
				}
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			for i, method := range []string{methodDiscover, methodInitialize} {
				k.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{}}`, i+1, method))
				s.saw(t, 1, calls(method))
			}
			for _, method := range []string{tt.first, tt.second} {
				close(held[method])
				if h := k.next("frame"); len(h.f.Result) == 0 {
					t.Fatalf("%+v", h)
				}
			}
			if tt.first == methodInitialize {
				k.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			}
			k.say(callLine)
			if h := k.next("frame"); h.id != "7" || len(h.f.Result) == 0 {
				t.Errorf("%+v", h)
			}
			got := s.saw(t, 1, calls("tools/call"))[0].header
			if got.Get(headerVersion) != tt.version || got.Get(headerSession) != tt.session || (got.Get("Mcp-Method") != "") != (tt.session == "") {
				t.Errorf("%v", got)
			}
		})
	}
}

// The greeting whose answer is not needed any more is given up: neither its answer nor
// its end matters.
func TestOtherGreetingIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, other := range []string{methodDiscover, methodInitialize} {
		t.Run(other, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			s.modern = true
			gone := make(chan struct{})
			s.on[other] = func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				close(gone)
			}
			k := open(t, messages.TransportHTTP, s, Options{})
			k.say(`{"jsonrpc":"2.0","id":9,"method":"` + other + `","params":{}}`)
			s.saw(t, 1, calls(other))
			if other == methodDiscover {
				k.greet()
			} else {
				k.greetModern(s)
			}
			k.say(callLine)
			if h := k.next("frame"); h.id != "7" || len(h.f.Result) == 0 {
				t.Errorf("%+v", h)
			}
			select {
			case <-gone:
			case <-time.After(patience):
				t.Fatal("it is still waited for")
			}
			k.say(`{"jsonrpc":"2.0","id":8,"method":"tools/other"}`)
			if h := k.next("frame"); h.id != "8" {
				t.Errorf("%+v", h)
			}
		})
	}
}
