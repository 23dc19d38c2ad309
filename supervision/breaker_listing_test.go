package supervision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// contact asks for a server's tools.
func (s *stage) contact(server string) contacts {
	port := make(contacts, 1)
	s.say(server, &messages.Contact{ID: 1, Reply: port})
	return port
}

// unlisted is a child's message that it did not list its tools just now.
func unlisted(ev messages.Evidence) *messages.ListingFailed {
	return &messages.ListingFailed{Instance: 1, Evidence: ev, Sent: time.Now()}
}

// ready brings instance 1 of a server to where it was asked for its tools, for a contact.
func (s *stage) ready(server string) contacts {
	s.t.Helper()
	port := s.contact(server)
	s.hears(server+"#1 Connect", 1)
	s.say(server, &messages.ConnectionReady{Instance: 1})
	return port
}

func (s *stage) status(server string) messages.Status {
	s.t.Helper()
	e, ok := s.dir.Lookup(server)
	if !ok {
		s.t.Fatalf("no server %s", server)
	}
	return e.Status()
}

// TestFirstListingsThatFailAreCounted: a server that starts and does not list its tools is
// shown as one that fails, with its class, and is left alone like one that does not start.
func TestFirstListingsThatFailAreCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		ev    messages.Evidence
		class messages.Class
		says  string
		retry time.Duration
	}{
		"overloaded":     {messages.Evidence{HTTPStatus: 503, Remote: true, RetryAfter: 40 * time.Second}, messages.ClassHTTP, "(http): HTTP 503 Service Unavailable", 40 * time.Second},
		"silent":         {messages.Evidence{Timeout: true, Text: "it did not answer tools/list within 1.5s"}, messages.ClassOffline, "(offline): it did not answer tools/list within 1.5s", 0},
		"refused":        {messages.Evidence{Text: "not today (-32603)"}, messages.ClassOther, "(other): not today (-32603)", 0},
		"refused by far": {messages.Evidence{Text: "not today (-32603)", Remote: true}, messages.ClassOther, "(other): not today (-32603)", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil) // which opens at 2
			s.add("a")
			first := s.ready("a")
			s.say("a", unlisted(tt.ev))
			err := take(s, first)
			if err == nil || err.Class != tt.class || err.RetryAfter != tt.retry || !strings.Contains(err.Message, "did not list its tools "+tt.says) {
				t.Errorf("%+v", err)
			}
			s.say("a", &messages.ConnectionIdle{Instance: 1})
			if st := s.status("a"); st.State != messages.StateFailed || !st.Connected || st.LastError == nil || st.LastError.Class != tt.class {
				t.Errorf("its status is %+v", st)
			}
			second := s.contact("a")
			s.hears("a#1 Relist", 1)
			s.say("a", unlisted(tt.ev))
			if err := take(s, second); err == nil || err.Code != messages.CodeConnection {
				t.Errorf("%+v", err)
			}
			if st := s.status("a"); st.Breaker != "open" || st.RetryAt.IsZero() {
				t.Errorf("its status is %+v", st)
			}
			s.say("a", &messages.ConnectionIdle{Instance: 1})
			if err := take(s, s.contact("a")); err == nil || err.Code != messages.CodeCircuitOpen || err.Class != tt.class {
				t.Errorf("%+v", err)
			}
			if n := s.count("a#1 Relist"); n != 1 {
				t.Errorf("it was asked %d times more, want once", n)
			}
			if n := s.count("warning: a server did not list its tools"); n != 2 {
				t.Errorf("%d warnings", n)
			}
		})
	}
}

// TestListingNobodyUnderstands is a first listing that failed.
func TestListingNobodyUnderstands(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 1 })
	s.add("a", "b")
	other := func(server string, fault bool) {
		port := s.ready(server)
		s.say(server, &messages.Cataloged{Server: server, Instance: 1, Fault: fault, Err: &messages.Error{Code: messages.CodeConnection, Class: messages.ClassOther}})
		if take(s, port) == nil {
			t.Error("a listing that failed is no answer")
		}
	}
	other("a", true)
	other("b", false) // what breaks inside says nothing of the server
	if st := s.status("a"); st.Breaker != "open" || st.State != messages.StateFailed {
		t.Errorf("its status is %+v", st)
	}
	if st := s.status("b"); st.Breaker != "closed" || st.LastError != nil {
		t.Errorf("the other's status is %+v", st)
	}
}

// TestServerWithoutToolsIsNotFailing: one that never said that it has some, or does not
// know the request, may be of use without.
func TestServerWithoutToolsIsNotFailing(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 1 })
	s.add("a")
	port := s.ready("a")
	m := unlisted(messages.Evidence{Text: "no such method (-32601)"})
	m.Toolless = true
	s.say("a", m)
	if take(s, port) == nil {
		t.Error("a listing that failed is no answer")
	}
	if st := s.status("a"); st.Breaker != "closed" || st.LastError != nil || st.State == messages.StateFailed {
		t.Errorf("its status is %+v", st)
	}
	s.say("a", &messages.ConnectionIdle{Instance: 1})
	s.contact("a")
	s.hears("a#1 Relist", 1)
}

// TestLaterListingsThatFail are not counted: the tools stay known, and the calls show how
// the server does.
func TestLaterListingsThatFail(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold = 1 })
	s.add("a")
	s.idle("a")
	again := make(contacts, 1)
	s.say("a", &messages.Contact{ID: 2, Refresh: true, Reply: again})
	s.hears("a#1 Relist", 1)
	s.say("a", unlisted(messages.Evidence{HTTPStatus: 503, Remote: true}))
	if take(s, again) == nil {
		t.Error("a listing that failed is no answer")
	}
	s.say("a", &messages.ConnectionIdle{Instance: 1})
	if st := s.status("a"); st.Breaker != "closed" || st.LastError != nil {
		t.Errorf("its status is %+v", st)
	}
	if err := take(s, s.contact("a")); err != nil {
		t.Errorf("its tools are not known any more: %v", err)
	}
}

// TestFirstListingAndCallFailForOneCause, and are counted as one.
func TestFirstListingAndCallFailForOneCause(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.ready("a")
	call, _ := s.call("a")
	ev := messages.Evidence{HTTPStatus: 503, Remote: true}
	listing := unlisted(ev)
	s.say("a", &messages.RequestFailed{Instance: 1, Evidence: ev, Call: call, Sent: time.Now()})
	s.say("a", listing)
	if st := s.status("a"); st.Breaker != "closed" || st.Failures != 1 {
		t.Errorf("its status is %+v", st)
	}
	s.call("a") // which the child answers: it is well, but for its tools
	s.say("a", &messages.ConnectionIdle{Instance: 1, Handled: 2, Answered: 1})
	if st := s.status("a"); st.Failures != 0 || st.LastError != nil || st.State != messages.StateIdle {
		t.Errorf("its status is %+v after an answer", st)
	}
}

// TestListingIsTheProbe of a breaker that is half-open, where a server has none yet.
func TestListingIsTheProbe(t *testing.T) {
	s := newStage(t, func(p *supervision.PoolSettings) { p.FailureThreshold, p.Cooldown = 1, 10*time.Millisecond })
	s.add("a")
	port := s.ready("a")
	for n := range 2 {
		s.say("a", unlisted(messages.Evidence{HTTPStatus: 503, Remote: true}))
		if take(s, port) == nil {
			t.Error("a listing that failed is no answer")
		}
		s.say("a", &messages.ConnectionIdle{Instance: 1})
		if opened := s.counts("a").Opened; opened != uint64(n)+1 {
			t.Errorf("it has opened %d times after %d listings", opened, n+1)
		}
		s.until("the cooldown ends", func() bool { return s.state("a") == "half-open" })
		port = s.contact("a")
		s.hears("a#1 Relist", n+1)
		if _, beside := s.call("a"); take(s, beside).Err.Code != messages.CodeCircuitOpen {
			t.Error("a call passes beside the probe")
		}
	}
	s.say("a", &messages.Cataloged{Server: "a", Instance: 1})
	if err := take(s, port); err != nil {
		t.Fatal(err)
	}
	s.say("a", &messages.ConnectionIdle{Instance: 1})
	if st := s.status("a"); st.State != messages.StateIdle || st.LastError != nil {
		t.Errorf("its status is %+v after a listing", st)
	}
	call, _ := s.call("a")
	s.hears("a#1 Call", 1)
	s.say("a", &messages.ProbeOver{Call: call.ID, Answered: true})
	if st := s.state("a"); st != "closed" {
		t.Errorf("it is %s after the probe was answered", st)
	}
}

func (s *stage) counts(server string) messages.ServerCounts {
	s.t.Helper()
	e, ok := s.dir.Lookup(server)
	if !ok {
		s.t.Fatalf("no server %s", server)
	}
	return e.Counts()
}

// TestContactAfterAnAnnouncement is answered by a listing that has what a child had announced
// before, and not by one that had begun earlier. What is announced later is not waited for.
func TestContactAfterAnAnnouncement(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	s.mu.Lock()
	gauge := s.gauges["a#1"]
	s.mu.Unlock()
	entry, ok := s.dir.Lookup("a")
	if !ok || entry.Behind() {
		t.Fatal("it is behind before it has announced anything")
	}
	listed := func(changes uint64) {
		s.say("a", &messages.Cataloged{Server: "a", Instance: 1, Changes: changes, Listed: &messages.Toolset{Changes: changes}})
	}
	gauge.Changes.Store(3)
	port := make(contacts, 1)
	s.say("a", &messages.Contact{ID: 1, Refresh: true, Reply: port})
	s.hears("a#1 Relist", 1)
	listed(2)
	s.hears("a#1 Relist", 2)
	if len(port) > 0 {
		t.Error("it is answered by an older listing")
	}
	gauge.Changes.Store(4)
	listed(3)
	if err := take(s, port); err != nil {
		t.Error(err)
	}
	if !entry.Behind() {
		t.Error("what was announced last is taken for listed")
	}
	listed(4)
	s.until("it is no longer behind", func() bool { return !entry.Behind() })
	if n := s.count("a#1 Relist"); n != 2 {
		t.Errorf("it was asked %d times, want twice", n)
	}
}
