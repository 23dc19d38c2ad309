package actors

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// subscribed is a client of resources.
type subscribed struct {
	r     *rig
	s     *guest
	heard chan string // which start of the server told it
}

func (p *subscribed) Updated(_ string, params json.RawMessage) {
	var m struct{ Of int }
	_ = json.Unmarshal(params, &m) // of a child of ours
	p.heard <- strconv.Itoa(m.Of)
}

// announces is a server that has resources, and tells of one with each call.
func announces() *script {
	return &script{answers: func(l *fakeLink, m rpcLine) bool {
		switch {
		case m.Method == methodSubscribe, m.Method == methodUnsubscribe:
			l.answer(m.ID, `{}`)
			return true
		case m.Method == methodToolsCall && strings.Contains(m.raw, "echo"):
			l.say(`{"jsonrpc":"2.0","method":"` + methodUpdated + `","params":{"uri":"u","of":` + strconv.Itoa(l.n) + `}}`)
		}
		return false
	}}
}

var watchedTopic = Topic{Server: "x", URI: "u"}

func (r *rig) subscribe(s *guest) *subscribed {
	r.t.Helper()
	p := &subscribed{r, s, make(chan string, 64)}
	done := make(chan *messages.Answer, 1)
	r.e.Subscribe(&Subscribe{Topic: watchedTopic, As: "u", Port: p, Call: lastCall.Add(1), Session: s.ID(), Reply: func(failure *messages.Answer) { done <- failure }})
	select {
	case failure := <-done:
		if failure != nil {
			r.t.Fatalf("the subscription failed: %+v", failure)
		}
	case <-time.After(soon):
		r.t.Fatal("no answer to a subscription")
	}
	return p
}

// hears has the client's own instance tell of a change, which must be the next one
// that the client hears of; and returns which instance it is.
func (p *subscribed) hears() string {
	p.r.t.Helper()
	own := p.r.who(p.r.wait(p.r.by(p.s, "x", "echo")))
	select {
	case got := <-p.heard:
		if got != own {
			p.r.t.Errorf("a client of instance %s hears what instance %s tells", own, got)
		}
	case <-time.After(soon):
		p.r.t.Fatal("a client does not hear of a change")
	}
	return own
}

// Each session hears of its own instance's resources alone, also after that was lost.
func TestSubscriptionsAreASessionsOwn(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), scoped)
	a, b := r.subscribe(r.session()), r.subscribe(r.session())
	first, other := a.hears(), b.hears()
	if first == other {
		t.Fatal("two sessions share an instance")
	}
	a.hears()
	b.hears()

	if answer := r.wait(r.by(a.s, "x", "die")); answer.Err == nil {
		t.Fatalf("answered %s", answer.Result)
	}
	r.got("x", methodSubscribe, 3)
	if again := r.subscribed(a); again == first || again == other {
		t.Errorf("a is served by %s after its own was lost", again)
	}
	if b.hears() != other {
		t.Error("b has another instance")
	}

	r.e.Unsubscribe(&Unsubscribe{Topic: watchedTopic, As: "u", Port: b, Session: b.s.ID()})
	r.got("x", methodUnsubscribe, 1)
	r.wantResult(r.wait(r.by(b.s, "x", "echo")))
	a.hears()
	if len(b.heard) > 0 {
		t.Error("b hears of changes although it unsubscribed")
	}
	r.e.Unsubscribe(&Unsubscribe{Port: a})
	r.got("x", methodUnsubscribe, 2)
}

// subscribed waits until the client hears of changes, which begins a moment after
// its instance was asked.
func (r *rig) subscribed(p *subscribed) string {
	r.t.Helper()
	r.f.eventually(r.t, "the subscription is there again", func() bool {
		r.wantResult(r.wait(r.by(p.s, "x", "echo")))
		return len(p.heard) > 0
	})
	for len(p.heard) > 0 {
		<-p.heard
	}
	return p.hears()
}

// What a removed server says last is not taken for what the one says that has its
// name now.
func TestSubscriptionsOutliveTheEndOfARemovedServer(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), nil)
	s := r.session()
	p := r.subscribe(s)
	first := p.hears()
	old := r.f.living("x")[0]
	busy := r.start("x", "do", doArgs{Do: "late"})
	r.f.eventually(t, "it has the call", func() bool { return len(r.f.lines("x", methodToolsCall)) == 2 })
	delete(r.specs, "x")
	r.apply(Change{Removed: []string{"x"}, Drain: soon})
	r.e.Unsubscribe(&Unsubscribe{Port: p})
	r.got("x", methodUnsubscribe, 1)
	r.add("x", nil, nil)
	q := r.subscribe(s)
	if again := q.hears(); again == first {
		t.Fatal("the old child serves the new server")
	}
	asked := len(r.f.lines("x", methodSubscribe))
	old.answer([]byte(itoa(busy.call.ID)), `{"content":[]}`)
	r.wantResult(r.wait(busy))
	r.f.eventually(t, "the old child ends", func() bool { return len(r.f.living("x")) == 1 })
	q.hears()
	r.e.Unsubscribe(&Unsubscribe{Port: q})
	r.got("x", methodUnsubscribe, 2) // whoever had lost the child would not tell it
	if n := len(r.f.lines("x", methodSubscribe)); n != asked {
		t.Errorf("it was asked %d times, want %d", n, asked)
	}
}

// Whose subscriptions they are is seen anew when a changed scope has ended the
// instances that had them.
func TestSubscriptionsFollowTheScope(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), nil)
	a, b := r.subscribe(r.session()), r.subscribe(r.session())
	if n := len(r.f.lines("x", methodSubscribe)); n != 1 {
		t.Errorf("a shared server was asked %d times", n)
	}
	rescope := func(to messages.Scope) {
		next := *r.specs["x"]
		next.Scope = to
		r.specs["x"] = &next
		r.apply(Change{Updated: []*messages.ServerSpec{&next}})
	}
	rescope(messages.ScopeSession)
	r.got("x", methodSubscribe, 3)
	if r.subscribed(a) == r.subscribed(b) {
		t.Error("two sessions share an instance")
	}
	for len(a.heard) > 0 { // of the time before
		<-a.heard
	}
	a.hears()
	b.hears()

	rescope(messages.ScopeShared)
	r.f.eventually(t, "both have one subscription", func() bool {
		for _, p := range []*subscribed{a, b} {
			for len(p.heard) > 0 {
				<-p.heard
			}
		}
		r.wantResult(r.wait(r.by(a.s, "x", "echo")))
		return len(a.heard) == 1 && len(b.heard) == 1
	})
	r.e.Unsubscribe(&Unsubscribe{Topic: watchedTopic, As: "u", Port: a, Session: a.s.ID()})
	r.e.Unsubscribe(&Unsubscribe{Port: b})
	r.f.eventually(t, "the child is told that nobody is left", func() bool {
		lines := r.f.lines("x", methodUnsubscribe)
		return len(lines) > 0
	})
}

// A subscription stays for as long as its session may, so that its URI has a bound.
func TestSubscriptionsToEndlessURIs(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), nil)
	r.within(func(ctx *kernel.Context) {
		a := newNotices(r.e)
		a.Receive(ctx, &childReady{server: "x", instance: 1, pid: ctx.Self()})
		for length, fits := range map[int]bool{maxSubscribedURI: true, maxSubscribedURI + 1: false, 4 << 20: false} {
			uri := "f:///" + strings.Repeat("u", length-len("f:///"))
			for _, own := range []bool{false, true} {
				as := uri
				if own {
					uri = "f:///short"
				}
				var failure *messages.Answer
				a.Receive(ctx, &Subscribe{Topic: Topic{"x", uri}, As: as, Port: &part{}, Reply: func(f *messages.Answer) { failure = f }})
				switch {
				case fits && failure != nil:
					t.Errorf("%d bytes: %+v", length, failure.Err)
				case !fits && (failure == nil || failure.Err == nil || failure.Err.Code != messages.CodeValidation):
					t.Errorf("%d bytes: %+v", length, failure)
				case !fits && len(failure.Err.Message) > 500:
					t.Errorf("%d bytes: the refusal has %d", length, len(failure.Err.Message))
				}
			}
		}
		if a.total != 2 {
			t.Errorf("%d subscriptions", a.total)
		}
	})
}

// part hears of resources, and under which URI.
type part struct{ heard []string }

// Updated implements UpdatePort.
func (p *part) Updated(uri string, _ json.RawMessage) { p.heard = append(p.heard, uri) }

// A server that tells of a part of what was subscribed to tells those who are
// subscribed to the whole, of that part, in the form in which they subscribed.
func TestUpdatesOfParts(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), nil)
	r.within(func(ctx *kernel.Context) {
		a := newNotices(r.e)
		port := &part{}
		subscribe := func(uri, as string) {
			a.Receive(ctx, &Subscribe{Topic: Topic{"x", uri}, As: as, Port: port, Reply: func(*messages.Answer) {}})
			a.Receive(ctx, &subscribedAt{topicAt{Topic: Topic{"x", uri}}, &messages.Answer{Result: json.RawMessage(`{}`), Instance: 1}})
		}
		a.Receive(ctx, &childReady{server: "x", instance: 1, pid: ctx.Self()})
		for _, uri := range []string{"f:///a", "f:///a/b/", "f:///a/b/c", "db:t?q"} {
			subscribe(uri, uri)
		}
		subscribe("f:///a/b/", "metamcp://x/f:///a/b/")
		for uri, want := range map[string][]string{
			"f:///a/b/c":     {"f:///a/b/c", "metamcp://x/f:///a/b/c"},
			"f:///a/x":       {"f:///a/x"},
			"f:///a/":        {"f:///a/"},
			"f:///a#x":       {"f:///a#x"},
			"f:///a/b/d?e=f": {"f:///a/b/d?e=f", "metamcp://x/f:///a/b/d?e=f"},
			"f:///a/b":       {"f:///a/b"},
			"f:///ab":        nil,
			"f:///":          nil,
			"db:t?q#1":       {"db:t?q#1"},
			"db:t?qq":        nil,
			"":               nil,
			"/":              nil,
			"f:///a" + strings.Repeat("/", longestURI): nil,
			"f:///a/b/" + strings.Repeat("d/", 2):      {"f:///a/b/d/d/", "metamcp://x/f:///a/b/d/d/"},
		} {
			port.heard = nil
			params, _ := json.Marshal(map[string]string{"uri": uri}) // always marshals
			a.Receive(ctx, &childNotice{server: "x", instance: 1, method: methodUpdated, params: params})
			if slices.Sort(port.heard); !slices.Equal(port.heard, want) {
				t.Errorf("%.40s: it hears of %q, want %q", uri, port.heard, want)
			}
		}
	})
}

// Of a part of what one session's instance has hears that session alone.
func TestUpdatesOfPartsAreASessionsOwn(t *testing.T) {
	r := newRig(t, nil)
	own := announces()
	usual := own.answers
	own.answers = func(l *fakeLink, m rpcLine) bool {
		if m.Method == methodToolsCall && strings.Contains(m.raw, "echo") {
			l.say(`{"jsonrpc":"2.0","method":"` + methodUpdated + `","params":{"uri":"u/part","of":` + strconv.Itoa(l.n) + `}}`)
			return false
		}
		return usual(l, m)
	}
	r.add("x", own, scoped)
	a, b := r.subscribe(r.session()), r.subscribe(r.session())
	for range 2 {
		if a.hears() == b.hears() {
			t.Fatal("two sessions share an instance")
		}
	}
	if len(a.heard)+len(b.heard) > 0 {
		t.Error("a client hears of another's resource")
	}
}

// A server that has forgotten what it was told, though the link to it stays, is told
// again: who is subscribed, and how much of its log is wanted. Its lists are taken for
// others.
func TestAServerThatForgets(t *testing.T) {
	lists := make(chan ChildList, 64)
	r := newRigWith(t, nil, func(o *Options) {
		o.ListChanged = func(_ string, list ChildList) { lists <- list }
	})
	sc := announces()
	subscribes := sc.answers
	sc.answers = func(l *fakeLink, m rpcLine) bool {
		switch m.Method {
		case methodInitialize:
			l.answer(m.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{},"resources":{"subscribe":true}}}`)
			return true
		case methodSetLevel:
			l.answer(m.ID, `{}`)
			return true
		}
		return subscribes(l, m)
	}
	r.add("x", sc, nil)
	p := r.subscribe(r.session())
	p.hears()
	debug := func(c *messages.Call) { c.Log = messages.LogDebug }
	for range 2 {
		r.wantResult(r.do("x", "do", doArgs{}, debug))
	}
	r.got("x", methodSetLevel, 1)
	r.got("x", methodToolsList, 1)
	if n := len(r.f.lines("x", methodSubscribe)) + len(r.f.lines("x", methodSetLevel)); n != 2 {
		t.Fatalf("it was told %d times", n)
	}
	for len(lists) > 0 {
		<-lists
	}

	r.f.living("x")[0].say("renewed")
	r.got("x", methodSubscribe, 2)
	r.got("x", methodToolsList, 2)
	for _, want := range []ChildList{ResourceList, PromptList} { // by name, since it may be read right now
		select {
		case list := <-lists:
			if list != want {
				t.Errorf("the list of %q has changed, want %q", list, want)
			}
		case <-time.After(soon):
			t.Fatalf("nobody is told that the list of %s has changed", want)
		}
	}
	r.subscribed(p)
	r.wantResult(r.do("x", "do", doArgs{}, debug))
	r.got("x", methodSetLevel, 2)
	if n := r.f.started("x"); n != 1 {
		t.Errorf("it was started %d times", n)
	}
	r.e.Unsubscribe(&Unsubscribe{Port: p})
	r.got("x", methodUnsubscribe, 1)
}

// TestAServerThatForgetsIsNotKept for a subscriber that leaves before its subscription
// is renewed, though the server does not come to an end with the listing after that.
func TestAServerThatForgetsIsNotKept(t *testing.T) {
	r := newRig(t, nil)
	sc := announces()
	subscribes := sc.answers
	var forgot atomic.Bool
	sc.answers = func(l *fakeLink, m rpcLine) bool {
		return m.Method == methodToolsList && forgot.Load() || subscribes(l, m)
	}
	r.add("x", sc, func(s *messages.ServerSpec) { s.IdleTimeout = 20 * time.Millisecond })
	p := r.subscribe(r.session())
	r.settled(1)
	lost := typeWatch{r.trace, "childRenewed", make(chan struct{}, 1)}
	r.e.sys.SetTracer(lost)
	forgot.Store(true)
	r.f.living("x")[0].say("renewed")
	select {
	case <-lost.seen:
	case <-time.After(soon):
		t.Fatal("the subscription is not lost")
	}
	r.e.Unsubscribe(&Unsubscribe{Port: p})
	r.f.eventually(t, "the server ends for being idle", func() bool { return r.f.aliveNow() == 0 })
}

// TestAServerThatComesBackWithMore: what it offers by now is what it said when its session
// was made anew; what it says unreadably changes nothing.
func TestAServerThatComesBackWithMore(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", nil, nil)
	r.ok("x")
	child := r.f.living("x")[0]
	resources := func() bool {
		return r.e.view.Load().Server("x").Toolset.Offers.Has(messages.OffersResources)
	}
	if resources() {
		t.Fatal("it has resources from the start")
	}
	child.say(`renewed {"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}}}`)
	r.f.eventually(t, "its resources are known", resources)
	child.say("renewed nothing")
	r.got("x", methodToolsList, 3)
	r.ok("x")
	if !resources() {
		t.Error("its resources are forgotten")
	}
}
