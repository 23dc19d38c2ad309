package supervision_test

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// gauge is that of an instance.
func (s *stage) gauge(instance string) *supervision.Gauge {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gauges[instance]
}

func (s *stage) entry(server string) *supervision.Entry {
	s.t.Helper()
	e, ok := s.dir.Lookup(server)
	if !ok {
		s.t.Fatalf("no server %s", server)
	}
	return e
}

// listed plays what becomes of a listing that the catalog has taken in.
func (s *stage) listed(server string, instance uint64) {
	changes := s.gauge(server + "#" + string('0'+rune(instance))).Changes.Load()
	s.say(server, &messages.Cataloged{Server: server, Instance: instance, Changes: changes, Listed: &messages.Toolset{Instance: instance, Changes: changes}})
}

// notListed plays a listing that failed and had so many changes in it.
func (s *stage) notListed(server string, instance, changes uint64) {
	s.say(server, &messages.ListingFailed{Instance: instance, Changes: changes, Evidence: messages.Evidence{Text: "not today"}, Sent: time.Now()})
}

// asks is a contact of some kind.
func (s *stage) asks(server string, m messages.Contact) contacts {
	port := make(contacts, 1)
	m.Reply = port
	s.say(server, &m)
	return port
}

// pair has two clients' instances of a server run, the first of which has listed its tools.
func (s *stage) pair(server string) {
	s.t.Helper()
	s.scoped(server)
	for n, session := range []uint64{1, 2} {
		name := server + "#" + string('1'+rune(n))
		s.call(server, of(session))
		s.hears(name+" Connect", 1)
		s.gauge(name).Turn()
		s.say(server, &messages.ConnectionReady{Instance: uint64(n) + 1})
		if n == 0 {
			s.listed(server, 1)
		}
	}
}

// TestAnnouncedChangeThatIsNotListed: who asked what came of it hears that what the catalog
// has stands, once a listing has failed which began after the announcement. Who wants a
// new listing hears why there is none.
func TestAnnouncedChangeThatIsNotListed(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.contact("a")
	s.hears("a#1 Connect", 1)
	gauge, entry := s.gauge("a#1"), s.entry("a")
	gauge.Turn()
	s.say("a", &messages.ConnectionReady{Instance: 1})
	s.listed("a", 1)
	if entry.Lists() || entry.Behind() || entry.Missed() != nil || !entry.Runs(&messages.Toolset{Instance: 1, Changes: 1}) {
		t.Fatal("its first listing is not the last word")
	}
	gauge.Changes.Add(1)
	if !entry.Behind() {
		t.Fatal("it is not behind")
	}
	call := s.asks("a", messages.Contact{Announced: true, ForCall: true})
	s.hears("a#1 Relist", 1)
	s.notListed("a", 1, 1) // which had begun before
	s.hears("a#1 Relist", 2)
	if len(call) > 0 || !entry.Behind() {
		t.Error("it is answered by an older listing")
	}
	renewed := s.asks("a", messages.Contact{Refresh: true})
	s.notListed("a", 1, 2)
	if err := take(s, call); err != nil {
		t.Errorf("what the catalog has does not stand: %v", err)
	}
	if take(s, renewed) == nil {
		t.Error("a listing that failed is a new listing")
	}
	if entry.Behind() || entry.Lists() || entry.Missed() == nil {
		t.Error("it is not known that the listing failed")
	}
	if err := take(s, s.asks("a", messages.Contact{Announced: true})); err != nil || s.count("a#1 Relist") != 2 {
		t.Errorf("it is waited for: %v", err)
	}
	again := s.asks("a", messages.Contact{Retry: true, Background: true})
	s.hears("a#1 Relist", 3)
	s.listed("a", 1)
	if err := take(s, again); err != nil || entry.Missed() != nil {
		t.Errorf("it is still not listed: %v", err)
	}
}

// TestListingOfAnOlderConfiguration says nothing of what was announced.
func TestListingOfAnOlderConfiguration(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	s.idle("a")
	s.gauge("a#1").Changes.Store(1)
	call := s.asks("a", messages.Contact{Announced: true})
	s.hears("a#1 Relist", 1)
	s.say("a", &messages.Cataloged{Server: "a", Instance: 1, Err: &messages.Error{Code: messages.CodeServerNotFound}})
	if take(s, call) == nil || !s.entry("a").Behind() {
		t.Error("it is taken for one")
	}
}

// TestAnotherChildLists where one does not, for who wants a new listing, and holds up none
// that is waited for.
func TestAnotherChildLists(t *testing.T) {
	s := newStage(t, nil)
	s.pair("a")
	if s.entry("a").Behind() {
		t.Error("the start of a child beside another puts its listing in doubt")
	}
	// The second lists still, and has not answered when the first announces something.
	s.gauge("a#1").Changes.Add(1)
	call := s.asks("a", messages.Contact{Announced: true})
	s.hears("a#1 Relist", 1)
	s.listed("a", 1)
	if err := take(s, call); err != nil {
		t.Error(err)
	}
	renewed := s.asks("a", messages.Contact{Refresh: true})
	s.notListed("a", 2, 1)
	s.hears("a#1 Relist", 2)
	s.listed("a", 1)
	if err := take(s, renewed); err != nil {
		t.Errorf("what another child does not list fails it: %v", err)
	}
	s.load("a#1", 5)
	renewed = s.asks("a", messages.Contact{Refresh: true})
	s.hears("a#1 Relist", 3)
	s.notListed("a", 1, 2)
	if take(s, renewed) == nil || s.count("a#2 Relist") != 0 {
		t.Error("it is asked for again of one that has failed")
	}
}

// TestListingOfALostChildDoesNotStand where another one fails to list.
func TestListingOfALostChildDoesNotStand(t *testing.T) {
	s := newStage(t, nil)
	s.pair("a")
	s.gauge("a#1").Changes.Add(1)
	call := s.asks("a", messages.Contact{Announced: true})
	s.hears("a#1 Relist", 1)
	s.gauge("a#1").Turn()
	s.say("a", &messages.ConnectionFailed{Instance: 1, Started: true, Evidence: messages.Evidence{EOF: true}})
	s.notListed("a", 2, 1)
	if take(s, call) == nil {
		t.Error("it does")
	}
}

// TestRetryStartsNothing, neither at first nor once the child that it is for is to go.
func TestRetryStartsNothing(t *testing.T) {
	s := newStage(t, nil)
	s.add("a")
	retry := messages.Contact{Retry: true, Background: true}
	if err := take(s, s.asks("a", retry)); err != nil || s.count("a#1 Connect") != 0 {
		t.Errorf("the server is started: %v", err)
	}
	s.idle("a")
	s.gauge("a#1").Changes.Store(1)
	port := s.asks("a", retry)
	s.hears("a#1 Relist", 1)
	s.respec("a")
	if err := take(s, port); err != nil {
		t.Error(err)
	}
	if s.count("a#2 Connect") != 0 {
		t.Error("another child is started for it")
	}

	s = newStage(t, nil)
	s.idlePair("b")
	s.gauge("b#2").Changes.Store(1)
	s.asks("b", retry)
	s.hears("b#2 Relist", 1)
	s.say("b", &messages.ConnectionFailed{Instance: 1, Started: true})
	s.say("b", &messages.ConnectionEnded{Instance: 1})
	s.hears("b#1 Close", 1)
	if s.count("b#1 Connect") != 1 {
		t.Error("one that has failed is started again for it")
	}
}
