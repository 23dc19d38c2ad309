package actors

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// listenServer is a modern server with subscriptions.
type listenServer struct {
	offers string // its capabilities
	// takes may take a subscription over; it runs on the child's goroutine.
	takes func(l *fakeLink, m rpcLine, uris []string) bool

	mu      sync.Mutex
	listens map[string][]string // by the id of the request
	ended   []string            // what the client cancelled
}

func newListenServer() *listenServer {
	return &listenServer{offers: `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, listens: map[string][]string{}}
}

func (s *listenServer) script() *script {
	return &script{modern: true, answers: func(l *fakeLink, m rpcLine) bool {
		var p struct {
			Notifications struct {
				URIs []string `json:"resourceSubscriptions"`
			} `json:"notifications"`
			ID   json.RawMessage `json:"requestId"`
			Args doArgs          `json:"arguments"`
		}
		_ = json.Unmarshal(m.Params, &p) // a line of ours
		touched, touches := strings.CutPrefix(p.Args.Do, "touch ")
		switch {
		case m.Method == methodDiscover:
			l.answer(m.ID, `{"supportedVersions":["2026-07-28"],"capabilities":`+s.offers+`}`)
		case m.Method == methodListen:
			if s.takes == nil || !s.takes(l, m, p.Notifications.URIs) {
				s.grant(l, m, p.Notifications.URIs)
			}
		case m.Method == methodCancelled:
			s.mu.Lock()
			s.ended = append(s.ended, string(p.ID))
			s.mu.Unlock()
			s.forget(p.ID)
		case touches:
			s.touch(l, touched)
			l.answer(m.ID, `{"content":[]}`)
		default:
			return false
		}
		return true
	}}
}

// grant acknowledges a subscription to the list of tools and to resources.
func (s *listenServer) grant(l *fakeLink, m rpcLine, uris []string) {
	s.mu.Lock()
	s.listens[string(m.ID)] = uris
	s.mu.Unlock()
	granted, _ := json.Marshal(map[string]any{"toolsListChanged": true, "resourceSubscriptions": uris}) // always marshals
	s.acknowledge(l, m.ID, string(granted))
}

func (s *listenServer) acknowledge(l *fakeLink, id json.RawMessage, granted string) {
	l.say(`{"jsonrpc":"2.0","method":"` + methodListening + `","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(id) + `},"notifications":` + granted + `}}`)
}

func (s *listenServer) forget(id json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listens, string(id))
}

func (s *listenServer) cancelled(id json.RawMessage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.ended, string(id))
}

// touch tells of a resource in each subscription that has it.
func (s *listenServer) touch(l *fakeLink, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, uris := range s.listens {
		if slices.Contains(uris, uri) {
			l.say(`{"jsonrpc":"2.0","method":"` + methodUpdated + `","params":{"uri":"` + uri + `","_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}}}`)
		}
	}
}

// wanting is a client that asked for a resource of x.
type wanting struct {
	r      *rig
	uri    string
	heard  chan string
	answer chan *messages.Answer
}

// Updated implements UpdatePort.
func (w *wanting) Updated(uri string, _ json.RawMessage) { w.heard <- uri }

// listening adds x, and waits until it was subscribed to.
func (r *rig) listening(s *listenServer, change func(s *messages.ServerSpec)) {
	r.t.Helper()
	r.add("x", s.script(), change)
	r.ok("x")
	r.got("x", methodListen, 1)
}

func (r *rig) want(uri string) *wanting {
	w := &wanting{r, uri, make(chan string, 64), make(chan *messages.Answer, 1)}
	r.e.Subscribe(&Subscribe{Topic: Topic{"x", uri}, As: uri, Port: w, Call: lastCall.Add(1), Reply: func(failure *messages.Answer) { w.answer <- failure }})
	return w
}

// answered returns what became of it, nil: it is there.
func (w *wanting) answered() *messages.Answer {
	w.r.t.Helper()
	select {
	case failure := <-w.answer:
		return failure
	case <-time.After(soon):
		w.r.t.Fatalf("no answer to the subscription to %s", w.uri)
		return nil
	}
}

func (w *wanting) granted() *wanting {
	w.r.t.Helper()
	if failure := w.answered(); failure != nil {
		w.r.t.Fatalf("the subscription to %s failed: %v, %s", w.uri, failure.Err, failure.RPCError)
	}
	return w
}

func (w *wanting) refused(said string) {
	w.r.t.Helper()
	failure := w.answered()
	if failure == nil || !strings.Contains(string(failure.RPCError), said) {
		w.r.t.Fatalf("the subscription to %s was answered with %+v, want %s", w.uri, failure, said)
	}
}

// hears has the server tell of the resource, of which the client must hear.
func (w *wanting) hears() {
	w.r.t.Helper()
	w.r.wantResult(w.r.do("x", "do", doArgs{Do: "touch " + w.uri}))
	select {
	case <-w.heard:
	case <-time.After(soon):
		w.r.t.Fatalf("a client does not hear of %s", w.uri)
	}
}

// A subscription that the child ends is opened again, however it does that.
func TestEndedSubscriptionIsOpenedAgain(t *testing.T) {
	for how, line := range map[string]string{
		"with a result":   `{"jsonrpc":"2.0","id":ID,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`,
		"with an error":   `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"going down"}}`,
		"by cancellation": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID,"reason":"going down"}}`,
		"unreadably":      `broken ID`,
	} {
		t.Run(how, func(t *testing.T) {
			r, s := newRig(t, nil), newListenServer()
			r.listening(s, nil)
			a := r.want("u").granted()
			a.hears()
			last := r.got("x", methodListen, 2)[1]
			s.forget(last.ID)
			r.f.living("x")[0].say(strings.ReplaceAll(line, "ID", string(last.ID)))
			if again := r.got("x", methodListen, 3)[2]; !strings.Contains(again.raw, `"u"`) || !strings.Contains(again.raw, "toolsListChanged") {
				t.Errorf("it is opened again with %s", again.raw)
			}
			a.hears()
			r.want("v").granted().hears()
			a.hears()
		})
	}
}

// The pause before a subscription is opened again grows while it ends at once each
// time, and is forgotten when one lived for long.
func TestPauseBeforeASubscriptionIsOpenedAgain(t *testing.T) {
	var l listening
	for i, step := range []struct{ lived, wait time.Duration }{
		{time.Minute, -time.Minute}, {0, firstPause}, {0, 2 * firstPause}, {firstPause, 3 * firstPause}, {time.Minute, -time.Minute}, {0, firstPause},
		{time.Minute, -time.Minute}, {3 * firstPause, -2 * firstPause}, {3 * firstPause, -firstPause}, {3 * firstPause, firstPause}, {3 * firstPause, 5 * firstPause},
	} {
		if wait := l.patience(step.lived); wait != step.wait {
			t.Errorf("step %d: it waits for %s, want %s", i, wait, step.wait)
		}
	}
	for range 100 {
		l.patience(0)
	}
	if wait := l.patience(0); wait != lastPause {
		t.Errorf("it waits for %s, want %s at most", wait, lastPause)
	}
}

// What nobody heard of while no subscription was there is looked for, whether the next
// one comes after a pause or, as the first time, at once.
func TestListsAreReadAnewAfterTheEndOfASubscription(t *testing.T) {
	for _, ends := range []int{1, 2} {
		t.Run(strconv.Itoa(ends), func(t *testing.T) {
			r, s := newRig(t, nil), newListenServer()
			asked := 0
			s.takes = func(l *fakeLink, m rpcLine, uris []string) bool {
				s.grant(l, m, uris)
				if asked++; asked > 1 && asked <= ends {
					l.answer(m.ID, `{}`)
				}
				return true
			}
			r.listening(s, nil)
			r.got("x", methodToolsList, 1)
			r.ok("x") // so that the list was answered
			r.f.living("x")[0].answer(r.got("x", methodListen, 1)[0].ID, `{}`)
			r.got("x", methodListen, ends+1)
			r.got("x", methodToolsList, 2)
			if n := len(r.f.lines("x", methodListen)); n != ends+1 {
				t.Errorf("it was opened %d times", n)
			}
		})
	}
}

// A modern child is subscribed to before it is asked for its list, so that a change of
// that is heard of. Where it answers first all the same, the list may have changed
// before it listened, and is read anew; else it is not.
func TestTheSubscriptionComesBeforeTheList(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			r, s := newRig(t, nil), newListenServer()
			s.takes = func(*fakeLink, rpcLine, []string) bool { return late }
			r.listening(s, nil)
			child := r.f.living("x")[0]
			child.mu.Lock()
			var methods []string
			for _, line := range child.got {
				methods = append(methods, line.Method)
			}
			child.mu.Unlock()
			if at := slices.Index(methods, methodListen); at < 0 || at > slices.Index(methods, methodToolsList) {
				t.Errorf("it got %q", methods)
			}
			if late {
				s.grant(child, r.got("x", methodListen, 1)[0], nil)
				r.got("x", methodToolsList, 2)
				return
			}
			r.ok("x") // after which it would have been read
			if n := len(r.f.lines("x", methodToolsList)); n != 1 {
				t.Errorf("it was listed %d times", n)
			}
		})
	}
}

// All lists are read anew where the link says that nobody heard what the child said: once
// the child has acknowledged the subscription again, and also where it does not.
func TestListsThatNobodyHeardOf(t *testing.T) {
	lists := make(chan ChildList, 64)
	r := newRigWith(t, nil, func(o *Options) {
		o.ListChanged = func(_ string, list ChildList) { lists <- list }
	})
	s := newListenServer()
	r.listening(s, nil)
	r.got("x", methodToolsList, 1)
	r.ok("x")
	for len(lists) > 0 {
		<-lists
	}
	child := r.f.living("x")[0]
	child.say("unheard")
	r.got("x", methodToolsList, 2)
	select {
	case list := <-lists:
		if list != ResourceList {
			t.Errorf("the list of %q has changed, want %q", list, ResourceList)
		}
	case <-time.After(soon):
		t.Error("nobody is told that the resources may be others")
	}
	s.grant(child, r.got("x", methodListen, 1)[0], nil)
	r.got("x", methodToolsList, 3)
}

// A child that takes no subscription any more, whether it refuses them or says nothing, is
// asked what it has changed all the same.
func TestListsOfAChildThatListensNoMore(t *testing.T) {
	for how, answer := range map[string]string{
		"it refuses":      `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no more"}}`,
		"it says nothing": "",
	} {
		t.Run(how, func(t *testing.T) {
			r, s := newRig(t, nil), newListenServer()
			var asked atomic.Int64
			s.takes = func(l *fakeLink, m rpcLine, _ []string) bool {
				again := asked.Add(1) > 1
				if again && answer != "" {
					l.say(strings.ReplaceAll(answer, "ID", string(m.ID)))
				}
				return again
			}
			r.listening(s, nil)
			r.got("x", methodToolsList, 1)
			r.ok("x")
			r.f.living("x")[0].answer(r.got("x", methodListen, 1)[0].ID, `{}`)
			r.got("x", methodListen, 2)
			r.got("x", methodToolsList, 2)
		})
	}
}

// So is what nobody heard of while the next one was waited for.
func TestListsAreReadAnewAfterAWait(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	held := make(chan rpcLine, 1)
	s.takes = func(_ *fakeLink, m rpcLine, uris []string) bool {
		if len(uris) > 0 {
			held <- m
		}
		return len(uris) > 0
	}
	r.listening(s, nil)
	a := r.want("u")
	next := <-held
	child := r.f.living("x")[0]
	child.answer(r.f.lines("x", methodListen)[0].ID, `{}`)
	s.grant(child, next, []string{"u"})
	a.granted().hears()
	r.got("x", methodToolsList, 2)
}

// What a child that ended the one in force changes while it does not answer for the next one
// is looked for all the same.
func TestListsAreReadAnewDuringAWait(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	s.takes = func(_ *fakeLink, _ rpcLine, uris []string) bool { return len(uris) > 0 }
	r.listening(s, nil)
	r.want("u")
	r.got("x", methodListen, 2)
	r.f.living("x")[0].answer(r.f.lines("x", methodListen)[0].ID, `{}`)
	r.got("x", methodToolsList, 2)
}

// Where the subscription is never acknowledged, be it the first or the one that took the
// place of one, the lists are read again and again.
func TestListsOfAChildThatNeverAcknowledges(t *testing.T) {
	for _, granted := range []int64{0, 1} {
		t.Run(fmt.Sprint(granted), func(t *testing.T) {
			s := newListenServer()
			var asked atomic.Int64
			s.takes = func(*fakeLink, rpcLine, []string) bool { return asked.Add(1) > granted }
			b := newBench(t, s.script())
			b.send(&messages.Connect{})
			b.heard("Listing", 1)
			b.send(&messages.Judged{Verdict: 1})
			if granted > 0 {
				b.f.living("a")[0].answer(b.f.lines("a", methodListen)[0].ID, `{}`)
			}
			for n := 2; n < 5; n++ {
				b.f.eventually(t, fmt.Sprint("listing ", n), func() bool {
					b.send(&acknowledgeDue{1}) // a minute later
					b.send(&relistDue{1})
					return len(b.f.lines("a", methodToolsList)) >= n
				})
				b.heard("Listing", n)
				b.send(&messages.Judged{Verdict: uint64(n)})
			}
		})
	}
}

// An acknowledgement is of the subscription that it names, or else of that in whose
// stream it comes, or of the last one that was asked for.
func TestWhichSubscriptionIsAcknowledged(t *testing.T) {
	for _, c := range []struct {
		named, stream string
		next, want    listen
	}{
		{`6`, `7`, 7, 6}, {`"6"`, ``, 7, 6}, {`3`, `7`, 7, 3}, // 3 is one that was given up
		{``, `6`, 7, 6}, {`"sub-1"`, `6`, 7, 6}, {`null`, `6`, 7, 6}, {`{}`, `7`, 7, 7},
		{``, ``, 7, 7}, {`"sub-1"`, ``, 7, 7}, {`"sub-1"`, `"stream"`, 0, 6},
	} {
		l := listening{in: 6, next: c.next}
		var ids [2]json.RawMessage
		for i, id := range []string{c.named, c.stream} {
			if id != "" {
				ids[i] = json.RawMessage(id)
			}
		}
		if got := l.named(ids[0], ids[1]); got != c.want {
			t.Errorf("%q in the stream of %q: it is of %d, want %d", c.named, c.stream, got, c.want)
		}
	}
}

// A child that grants nothing ends the subscription at once, and another refuses it: neither
// is asked again for a minute, nor at all where it does not know the request.
func TestFirstSubscriptionThatIsNotToBeHad(t *testing.T) {
	for _, c := range []struct {
		how   string
		again bool
		takes func(s *listenServer, l *fakeLink, id json.RawMessage)
	}{
		{"it is empty", true, func(s *listenServer, l *fakeLink, id json.RawMessage) {
			s.acknowledge(l, id, `{}`)
			l.answer(id, `{}`)
		}},
		{"it is refused", true, func(_ *listenServer, l *fakeLink, id json.RawMessage) {
			l.say(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":-32603,"message":"not yet"}}`)
		}},
		{"it is given up", true, func(_ *listenServer, l *fakeLink, id json.RawMessage) {
			l.say(`{"jsonrpc":"2.0","method":"` + methodCancelled + `","params":{"requestId":` + string(id) + `}}`)
		}},
		{"it is not known", false, func(_ *listenServer, l *fakeLink, id json.RawMessage) { l.refuse(id, "no") }},
	} {
		t.Run(c.how, func(t *testing.T) {
			s := newListenServer()
			var asked atomic.Int64
			s.takes = func(l *fakeLink, m rpcLine, _ []string) bool {
				first := asked.Add(1) == 1
				if first {
					c.takes(s, l, m.ID)
				}
				return first
			}
			b := newBench(t, s.script())
			b.send(&messages.Connect{})
			b.heard("Listing", 1) // so that the answer to what was asked before has come
			b.send(&messages.Judged{Verdict: 1})
			if n := len(b.f.lines("a", methodListen)); n != 1 {
				t.Fatalf("it was asked %d times", n)
			}
			b.send(&listenDue{1, 1}) // a minute later
			if !c.again {
				b.send(&messages.Relist{})
				b.heard("Listing", 2) // so that the child would have got it
				if n := len(b.f.lines("a", methodListen)); n != 1 {
					t.Errorf("it was asked %d times", n)
				}
				return
			}
			b.f.eventually(t, "it is asked again", func() bool { return len(b.f.lines("a", methodListen)) == 2 })
			b.f.eventually(t, "what it changed before is read", func() bool { return len(b.f.lines("a", methodToolsList)) == 2 })
		})
	}
}

// One that granted something is asked again soon, also where it grants nothing for once.
func TestSubscriptionThatGrantsNothingForOnce(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	var asked atomic.Int64
	s.takes = func(l *fakeLink, m rpcLine, _ []string) bool {
		second := asked.Add(1) == 2
		if second {
			s.acknowledge(l, m.ID, `{}`)
			l.answer(m.ID, `{}`)
		}
		return second
	}
	r.listening(s, nil)
	r.f.living("x")[0].answer(r.got("x", methodListen, 1)[0].ID, `{}`)
	r.got("x", methodListen, 3)
}

// A resource that the child does not know costs nobody else what he has, and
// whoever wants it has the child's word.
func TestRefusedResourceEndsNoOtherSubscription(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	first := make(chan struct{})
	s.takes = func(l *fakeLink, m rpcLine, uris []string) bool {
		if slices.Contains(uris, "u") && len(uris) == 1 {
			<-first // the others come meanwhile
		}
		if !slices.Contains(uris, "bad") {
			return false
		}
		l.refuse(m.ID, "no such resource")
		return true
	}
	r.add("x", s.script(), nil)
	a := r.want("u")
	r.got("x", methodListen, 1)
	all := []*wanting{a}
	bad := r.want("bad")
	for _, uri := range []string{"v", "w", "y", "z"} {
		all = append(all, r.want(uri))
	}
	r.f.eventually(t, "all are asked for", func() bool {
		entry, ok := r.e.Directory().Lookup("x")
		return ok && len(entry.Instances()) == 1 && entry.Instances()[0].InFlight == len(all)+1
	})
	close(first)
	bad.refused("no such resource")
	for _, w := range all {
		w.granted()
	}
	for _, w := range all {
		w.hears()
	}
	r.want("bad").refused("no such resource")
	a.hears()
	r.want("last").granted().hears()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.listens) != 1 {
		t.Errorf("the child has the subscriptions %v", s.listens)
	}
}

// A resource that goes away while it is subscribed to keeps nobody from another one:
// whoever has the others is subscribed to them again.
func TestResourceThatGoesAwayRefusesNoOther(t *testing.T) {
	for how, takes := range map[string]func(s *listenServer, l *fakeLink, m rpcLine, uris []string){
		"it says what it grants": (*listenServer).grant,
		"it does not": func(s *listenServer, l *fakeLink, m rpcLine, uris []string) {
			s.mu.Lock()
			s.listens[string(m.ID)] = uris
			s.mu.Unlock()
			l.say(`{"jsonrpc":"2.0","method":"` + methodListening + `","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(m.ID) + `}}}`)
		},
	} {
		t.Run(how, func(t *testing.T) {
			r, s := newRig(t, nil), newListenServer()
			var gone atomic.Bool
			s.takes = func(l *fakeLink, m rpcLine, uris []string) bool {
				if gone.Load() && slices.Contains(uris, "u") {
					l.refuse(m.ID, "no such resource")
				} else {
					takes(s, l, m, uris)
				}
				return true
			}
			r.listening(s, nil)
			a, b := r.want("u").granted(), r.want("w").granted()
			a.hears()
			gone.Store(true)
			c := r.want("v").granted()
			c.hears()
			r.f.eventually(t, "what was lost with it is there again", func() bool {
				r.wantResult(r.do("x", "do", doArgs{Do: "touch w"}))
				return len(b.heard) > 0
			})
			r.want("z").granted().hears()
			c.hears()
		})
	}
}

// A child that takes so many resources and no more refuses the next one, and nobody
// loses his for that.
func TestTooManyResourcesCostNobodyHisOwn(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	s.takes = func(l *fakeLink, m rpcLine, uris []string) bool {
		if len(uris) > 2 {
			l.refuse(m.ID, "too many")
		}
		return len(uris) > 2
	}
	r.listening(s, nil)
	a, b := r.want("u").granted(), r.want("v").granted()
	r.want("w").refused("too many")
	last := r.f.lines("x", methodListen)
	if raw := last[len(last)-1].raw; !strings.Contains(raw, `["u","v"]`) {
		t.Errorf("it was asked last for %s", raw)
	}
	a.hears()
	b.hears()
}

// A child that has no subscriptions to resources is not asked for one.
func TestNoSubscriptionToAServerWithoutThem(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	s.offers = `{"tools":{"listChanged":true},"resources":{}}`
	r.add("x", s.script(), nil)
	r.want("u").refused("-32601")
	for _, m := range r.f.lines("x", methodListen) {
		if strings.Contains(m.raw, `"u"`) {
			t.Errorf("it was asked: %s", m.raw)
		}
	}
}

// The subscription that is there ends once the one in its place is acknowledged.
func TestSubscriptionIsThereUntilTheNextOneIs(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	held := make(chan rpcLine, 1)
	s.takes = func(_ *fakeLink, m rpcLine, uris []string) bool {
		if slices.Contains(uris, "v") {
			held <- m
			return true
		}
		return false
	}
	r.listening(s, nil)
	a := r.want("u").granted()
	b := r.want("v")
	next := <-held
	a.hears()
	if len(b.answer) > 0 {
		t.Error("a client is told that it is subscribed before it is")
	}
	before := r.f.lines("x", methodListen)[1]
	s.grant(r.f.living("x")[0], next, []string{"u", "v"})
	b.granted().hears()
	a.hears()
	r.f.eventually(t, "the one before is ended", func() bool { return s.cancelled(before.ID) })
}

// What a subscription does not grant is not there: who wanted it is told so, and who
// had it is subscribed anew.
func TestResourceThatIsNotGranted(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	s.takes = func(l *fakeLink, m rpcLine, uris []string) bool {
		if slices.Contains(uris, "bad") {
			s.grant(l, m, []string{"v"})
			return true
		}
		return false
	}
	r.listening(s, nil)
	a, b := r.want("u").granted(), r.want("v").granted()
	r.want("bad").refused("does not grant")
	b.hears()
	r.got("x", methodListen, 5)
	a.hears()
}

// A child that says nothing to a subscription holds its client up for the time of a
// call, and others no longer than that.
func TestSilenceToASubscription(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	s.takes = func(_ *fakeLink, _ rpcLine, uris []string) bool { return slices.Contains(uris, "mute") }
	r.listening(s, func(s *messages.ServerSpec) { s.Timeout = time.Second })
	a := r.want("u").granted()
	mute := r.want("mute")
	asked := r.got("x", methodListen, 3)[2]
	if failure := mute.answered(); failure == nil || failure.Err == nil || failure.Err.Code != messages.CodeExecutionTimeout {
		t.Errorf("it was answered with %+v", failure)
	}
	r.f.eventually(t, "the subscription is given up", func() bool { return s.cancelled(asked.ID) })
	r.want("v").granted().hears()
	a.hears()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) != 3 { // the first one, the silent one, and the one of a
		t.Errorf("ended were %v", s.ended)
	}
}

// A client that gives up ends what was asked for on its account.
func TestCancelledSubscription(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	s.takes = func(_ *fakeLink, _ rpcLine, uris []string) bool { return slices.Contains(uris, "mute") }
	r.listening(s, nil)
	a := r.want("u").granted()
	p := newPort()
	call := &messages.Call{ID: lastCall.Add(1), Server: "x", Method: methodSubscribe, Params: []byte(`{"uri":"mute"}`), Reply: p}
	r.e.Ask(call)
	asked := r.got("x", methodListen, 3)[2]
	r.e.Cancel(call, "no longer wanted")
	r.wantCode(r.wait(&pendingCall{p, call}), messages.CodeCancelled)
	r.f.eventually(t, "the subscription is given up", func() bool { return s.cancelled(asked.ID) })
	r.want("v").granted().hears()
	a.hears()
}

// Who subscribes while the child dies is subscribed at the next one.
func TestSubscriptionWhileTheChildDies(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	s.takes = func(l *fakeLink, _ rpcLine, uris []string) bool {
		if slices.Contains(uris, "v") && l.n == 1 {
			l.crash()
			return true
		}
		return false
	}
	r.add("x", s.script(), nil)
	a := r.want("u").granted()
	r.want("v").granted().hears()
	r.f.eventually(t, "the other subscription is there again", func() bool {
		r.wantResult(r.do("x", "do", doArgs{Do: "touch u"}))
		return len(a.heard) > 0
	})
}

// With the last subscription ends the one at the child, where there are no lists
// whose changes are told.
func TestLastSubscriptionEnds(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	s.offers = `{"tools":{},"resources":{"subscribe":true}}`
	r.add("x", s.script(), nil)
	a := r.want("u").granted()
	a.hears()
	asked := r.got("x", methodListen, 1)
	if len(asked) != 1 {
		t.Errorf("it was asked %d times", len(asked))
	}
	r.e.Unsubscribe(&Unsubscribe{Port: a})
	r.f.eventually(t, "the subscription is ended", func() bool { return s.cancelled(asked[0].ID) })
}

// A server whose subscriptions are lost is not kept for them.
func TestLostSubscriptionsKeepNoServer(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	var gone atomic.Bool
	s.takes = func(l *fakeLink, m rpcLine, uris []string) bool {
		if !gone.Load() || !slices.Contains(uris, "u") {
			return false
		}
		l.refuse(m.ID, "no such resource")
		return true
	}
	r.add("x", s.script(), func(s *messages.ServerSpec) { s.IdleTimeout = 20 * time.Millisecond })
	a := r.want("u").granted()
	r.settled(1)
	lost := typeWatch{r.trace, "childLost", make(chan struct{}, 1)}
	r.e.sys.SetTracer(lost)
	gone.Store(true)
	asked := r.f.lines("x", methodListen)
	r.f.living("x")[0].answer(asked[len(asked)-1].ID, `{}`)
	select {
	case <-lost.seen:
	case <-time.After(soon):
		t.Fatal("the subscription is not lost")
	}
	r.e.Unsubscribe(&Unsubscribe{Port: a})
	r.f.eventually(t, "the server ends for being idle", func() bool { return r.f.aliveNow() == 0 })
}

// A server is not kept either for a subscription that ended while it listed its tools
// on its own account.
func TestSubscriptionThatEndsDuringAListing(t *testing.T) {
	r, s := newRig(t, nil), newListenServer()
	sc := s.script()
	usual := sc.answers
	var again atomic.Bool
	listing := make(chan json.RawMessage, 1)
	sc.answers = func(l *fakeLink, m rpcLine) bool {
		if m.Method == methodToolsList && again.Load() {
			listing <- m.ID
			return true
		}
		return usual(l, m)
	}
	r.add("x", sc, func(s *messages.ServerSpec) { s.IdleTimeout = 20 * time.Millisecond })
	a := r.want("u").granted()
	r.settled(1)
	again.Store(true)
	child := r.f.living("x")[0]
	child.say(`{"jsonrpc":"2.0","method":"` + methodListChanged + `"}`)
	var id json.RawMessage
	select {
	case id = <-listing:
	case <-time.After(soon):
		t.Fatal("the tools are not listed anew")
	}
	asked := len(r.f.lines("x", methodListen))
	r.e.Unsubscribe(&Unsubscribe{Port: a})
	r.got("x", methodListen, asked+1) // without it
	child.answer(id, usualTools)
	r.f.eventually(t, "the server ends for being idle", func() bool { return r.f.aliveNow() == 0 })
}
