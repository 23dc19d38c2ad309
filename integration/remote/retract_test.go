package remote

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func (k *talk) retracted() (ids []string) {
	for _, id := range k.Retract() {
		ids = append(ids, string(id))
	}
	return ids
}

func (k *talk) wantRetracted(want ...string) {
	k.t.Helper()
	if ids := k.retracted(); !slices.Equal(ids, want) {
		k.t.Errorf("the requests %q were taken back, want %q", ids, want)
	}
}

func call(id int) string {
	return strings.Replace(callLine, `"id":7`, `"id":`+strconv.Itoa(id), 1)
}

// A request that nobody could be found for was not sent, though its failure ends the link.
func TestRetractWhereTheServerIsGone(t *testing.T) {
	t.Parallel()
	s := newFake()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	// One that is kept open may be found closed only when it was written to.
	k := openURL(t, messages.TransportHTTP, srv.URL, Options{Transport: &http.Transport{DisableKeepAlives: true}})
	k.greet()
	s.saw(t, 3, func(ask) bool { return true }) // the greeting, what follows it, and the listening stream
	srv.Close()
	k.say(callLine)
	if h := k.next("eof"); !errors.Is(h.err, syscall.ECONNREFUSED) {
		t.Errorf("%+v", h)
	}
	k.wantRetracted("7")
}

// unsent fills a server with calls that it keeps, and gives the link two more.
func unsent(t *testing.T, s *fakeServer, k *talk) {
	t.Helper()
	k.greet()
	for i := range maxPosts + 2 {
		k.say(call(1000 + i))
	}
	s.saw(t, maxPosts, calls("tools/call"))
}

// wantUnseen demands that two requests were taken back, and that the server has seen
// neither.
func wantUnseen(t *testing.T, s *fakeServer, ids []string) {
	t.Helper()
	if len(ids) != 2 {
		t.Errorf("%q were taken back, want two", ids)
	}
	for _, a := range s.saw(t, maxPosts, calls("tools/call")) {
		if slices.Contains(ids, a.id) {
			t.Errorf("the server has seen %s", a.id)
		}
	}
}

// Of what is in flight when the link ends only that was not sent whose turn had not come.
func TestRetractAmongOthers(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on["tools/call"] = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	k := openURL(t, messages.TransportHTTP, srv.URL, Options{})
	unsent(t, s, k)
	k.CloseInput()
	k.next("eof")
	wantUnseen(t, s, k.retracted())
	k.wantRetracted()
}

// What waits for its turn is taken back from a link that lives, and is not sent then.
func TestRetractFromALinkThatLives(t *testing.T) {
	t.Parallel()
	s := newFake()
	release := make(chan struct{})
	s.on["tools/call"] = func(w http.ResponseWriter, r *http.Request) {
		<-release
		answer(w, []byte(r.Header.Get("X-Id")), `{}`)
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	unsent(t, s, k)
	ids := k.retracted()
	close(release)
	for range maxPosts {
		k.next("frame")
	}
	k.say(call(8))
	if h := k.next("frame"); h.id != "8" {
		t.Errorf("%+v", h)
	}
	wantUnseen(t, s, ids)
}

// So is what waits for the server to know that the session is initialized.
func TestRetractBeforeTheSessionBegins(t *testing.T) {
	t.Parallel()
	s := newFake()
	release := make(chan struct{})
	s.on[methodInitialized] = func(w http.ResponseWriter, _ *http.Request) {
		<-release
		w.WriteHeader(http.StatusAccepted)
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	k.say(callLine)
	k.wantRetracted("7")
	close(release)
	k.say(call(8))
	if h := k.next("frame"); h.id != "8" {
		t.Errorf("%+v", h)
	}
	if seen := s.saw(t, 1, calls("tools/call")); len(seen) != 1 {
		t.Errorf("the server has seen %+v", seen)
	}
}

// A request whose session the server has forgotten was not looked at; where there is no
// other session it is not sent.
func TestRetractOfAForgottenSession(t *testing.T) {
	t.Parallel()
	s := newFake()
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greet()
	s.saw(t, 1, calls(methodInitialized))
	s.mu.Lock()
	clear(s.live)
	s.on[methodInitialize] = refuse(http.StatusInternalServerError, "text/plain", "no more sessions")
	s.mu.Unlock()
	k.say(callLine)
	var f *Error
	if h := k.next("eof"); !errors.As(h.err, &f) || f.Status != http.StatusInternalServerError {
		t.Errorf("%+v", h)
	}
	k.wantRetracted("7")
}
