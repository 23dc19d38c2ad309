package remote

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// streamAsks are those for the stream of a legacy server.
func streamAsks(a ask) bool { return a.http == http.MethodGet }

// While the stream that a server had is not there, what it changes is looked for again and
// again, whatever has become of the stream.
func TestListsOfAServerThatIsNotHeard(t *testing.T) {
	t.Parallel()
	for how, again := range map[string]http.HandlerFunc{
		"no answer":    func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"refused":      refuse(http.StatusServiceUnavailable, "text/plain", "not now"),
		"cut off":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a long pause": nil,
	} {
		for _, method := range []string{http.MethodGet, methodListen} {
			t.Run(how+" "+method, func(t *testing.T) {
				t.Parallel()
				s := newFake()
				var opened atomic.Int64
				s.on[method] = func(w http.ResponseWriter, r *http.Request) {
					switch {
					case opened.Add(1) > 1:
						again(w, r)
					case again == nil:
						events(w, "retry: 86400000\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}\n\n")
					default:
						events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}\n\n")
					}
				}
				k := open(t, messages.TransportHTTP, s, Options{deaf: time.Millisecond})
				if method == methodListen {
					k.greetModern(s)
					k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
				} else {
					k.greet()
				}
				k.next("frame")
				for range 3 {
					k.next("unheard")
				}
			})
		}
	}
}

// So it is while the subscription is not there that takes the place of one.
func TestListsDuringTheNextSubscription(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[methodListen] = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Id") == "5" {
			events(w, acknowledged+`data: {"jsonrpc":"2.0","id":5,"result":{}}`+"\n\n")
			return
		}
		<-r.Context().Done()
	}
	k := open(t, messages.TransportHTTP, s, Options{deaf: time.Millisecond})
	k.greetModern(s)
	k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
	k.next("frame")
	if h := k.next("frame"); h.id != "5" {
		t.Fatalf("%+v", h)
	}
	k.say(`{"jsonrpc":"2.0","id":6,"method":"subscriptions/listen","params":{}}`)
	for range 2 {
		k.next("unheard")
	}
}

// It ends with the next stream.
func TestListsAreNotReadOnceTheServerIsHeard(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, methodListen} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			var opened atomic.Int64
			release := make(chan struct{})
			s.on[method] = func(w http.ResponseWriter, r *http.Request) {
				if opened.Add(1) > 1 {
					<-release
					events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/two\"}\n\n")
					<-r.Context().Done()
				}
				events(w, ": one\n\n")
			}
			k := open(t, messages.TransportHTTP, s, Options{deaf: time.Millisecond})
			if method == methodListen {
				k.greetModern(s)
				k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
			} else {
				k.greet()
			}
			k.next("unheard")
			close(release)
			for k.anything().f == nil { // the last of those, and that there is a stream again
			}
			const asks = 500
			late := 0
			for range asks {
				k.say(callLine)
				h := k.anything()
				for ; h.what == "unheard"; h = k.anything() {
					late++
				}
				if h.id != "7" {
					t.Fatalf("%+v", h)
				}
			}
			if late > 1 { // one may have been on its way
				t.Errorf("the lists are read another %d times", late)
			}
		})
	}
}

// Nor does it begin while there is another stream, in whose place this one is to come.
func TestListsAreNotReadForTheNextSubscription(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			t.Parallel()
			s := newFake()
			var refused atomic.Bool
			s.on[methodListen] = func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("X-Id") == "5":
					events(w, acknowledged)
				case late && !refused.Swap(true):
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				case late:
					events(w, acknowledged)
				}
				<-r.Context().Done()
			}
			k := open(t, messages.TransportHTTP, s, Options{deaf: time.Millisecond})
			k.greetModern(s)
			k.say(`{"jsonrpc":"2.0","id":5,"method":"subscriptions/listen","params":{}}`)
			k.next("frame")
			k.say(`{"jsonrpc":"2.0","id":6,"method":"subscriptions/listen","params":{}}`)
			if late {
				k.next("frame")
			}
			s.saw(t, 2, calls(methodListen))
			const asks = 500
			for range asks {
				k.say(callLine)
				k.next("frame")
			}
		})
	}
}

// But nobody is to read the lists of a server that does not answer anything else either.
func TestListsOfAServerThatIsAway(t *testing.T) {
	t.Parallel()
	for how, away := range map[string]http.HandlerFunc{
		"away":    refuse(http.StatusServiceUnavailable, "text/plain", "not now"),
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"refused": refuse(http.StatusForbidden, "text/plain", "not you"),
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			var opened atomic.Int64
			s.on[http.MethodGet] = func(w http.ResponseWriter, r *http.Request) {
				if opened.Add(1) > 1 {
					away(w, r)
					return
				}
				events(w, ": hello\n\n")
			}
			s.on[methodPing] = away
			k := open(t, messages.TransportHTTP, s, Options{deaf: time.Millisecond})
			k.greet()
			s.saw(t, 4, calls(methodPing))
			if n := len(k.ear.all); n > 0 {
				t.Errorf("%+v", <-k.ear.all)
			}
		})
	}
}

// Nor is anything read while the server is heard, or where it never had a stream.
func TestListsOfAServerThatIsHeard(t *testing.T) {
	t.Parallel()
	s := newFake()
	k := open(t, messages.TransportHTTP, s, Options{deaf: time.Nanosecond})
	d := k.deafness(k.ctx)
	for _, had := range []bool{false, true} {
		k.streams.Store(had)
		d.begin()
		if begun := d.cancel != nil; begun != had {
			t.Errorf("it has had a stream: %v, what it changes is looked for: %v", had, begun)
		}
	}
	d.end()
	d.end()
	if d.cancel != nil {
		t.Error("it is still looked for")
	}
	k.work.Wait()
}

// A server cannot ask for a pause of a day.
func TestPauses(t *testing.T) {
	t.Parallel()
	for _, attempt := range []int{0, 1, 2, 100} {
		if wait := pauseBefore(24*time.Hour, time.Second, attempt); wait < longestAsked || wait > longestAsked*5/4 {
			t.Errorf("attempt %d is made after %s, want %s", attempt, wait, longestAsked)
		}
		if wait := pauseBefore(0, time.Second, max(attempt, 1)); wait < time.Second || wait > longestPause*5/4 {
			t.Errorf("attempt %d is made after %s", attempt, wait)
		}
	}
}
