package metamcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// subscribable is a server whose resources can be subscribed to.
type subscribable struct {
	mu      sync.Mutex
	lists   bool           // the resource x:y and the prompt y
	refuses bool           // every subscription
	held    chan struct{}  // subscriptions are answered once it is closed; nil: at once
	listing chan struct{}  // likewise the list
	asked   map[string]int // how often, by method
}

func (s *subscribable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serveRPC(w, r, s.answer)
}

func (s *subscribable) answer(method string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[method]++
	if held := map[string]chan struct{}{methodSubscribe: s.held, methodResources: s.listing}[method]; held != nil {
		s.mu.Unlock()
		<-held
		s.mu.Lock()
	}
	switch {
	case method == "initialize":
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"prompts":{}},"serverInfo":{"name":"x","version":"1"}}`
	case method == "tools/list":
		return `"result":{"tools":[]}`
	case method == "resources/list" && s.lists:
		return `"result":{"resources":[{"uri":"x:y","name":"y"}]}`
	case method == "resources/list":
		return `"result":{"resources":[]}`
	case method == "resources/read":
		return `"result":{"contents":[]}`
	case method == "prompts/list" && s.lists:
		return `"result":{"prompts":[{"name":"y"}]}`
	case method == "prompts/list":
		return `"result":{"prompts":[]}`
	case method == "prompts/get":
		return `"result":{"messages":[]}`
	case method == methodSubscribe && s.refuses:
		return `"error":{"code":-32000,"message":"not today"}`
	case method == "ping", method == methodSubscribe, method == methodUnsubscribe:
		return `"result":{}`
	}
	return noSuchMethod
}

func (s *subscribable) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[method]
}

// ends waits until as many subscriptions were made, and ended again.
func (s *subscribable) ends(t *testing.T, made int) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if begun, ended := s.count(methodSubscribe), s.count(methodUnsubscribe); begun != made || ended != made {
			return fmt.Errorf("%d subscriptions were made and %d ended, want %d", begun, ended, made)
		}
		return nil
	})
}

// subscribables are two such servers, a and b, of which a has the resource and the
// prompt. exposed is what clients are shown, in JSON.
func subscribables(t *testing.T, exposed string) (e *Engine, a, b *subscribable) {
	t.Helper()
	a, b = &subscribable{lists: true, asked: map[string]int{}}, &subscribable{asked: map[string]int{}}
	webA, webB := httptest.NewServer(a), httptest.NewServer(b)
	t.Cleanup(webA.Close)
	t.Cleanup(webB.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"a":{"url":"`+webA.URL+`"},"b":{"url":"`+webB.URL+`"}},"metamcp":{"expose":[`+exposed+`],"exposePrefix":"none"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e = opened(t, Options{Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler)})
	return e, a, b
}

// lists says which of the two servers have the resource and the prompt from now on, and
// has them announce it.
func lists(e *Engine, changed actors.ChildList, has map[*subscribable]bool) {
	for s, lists := range has {
		s.mu.Lock()
		s.lists = lists
		s.mu.Unlock()
	}
	e.expose.listChanged("a", changed)
	e.expose.listChanged("b", changed)
}

func clientOf(t *testing.T, e *Engine) *passed {
	t.Helper()
	session, err := e.core.OpenSession(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return e.expose.passedFor(session)
}

// answered is the answer that an engine owes a test.
type answered chan *messages.Answer

// Answer implements messages.ReplyPort.
func (c answered) Answer(a *messages.Answer) { c <- a }

// granted says whether the answer is a result.
func (c answered) granted(t *testing.T) bool {
	t.Helper()
	select {
	case a := <-c:
		return a.Result != nil
	case <-time.After(time.Minute):
		t.Fatal("no answer")
		return false
	}
}

// A URI that has become another server's is subscribed to at that one alone, and what
// the client had at the server before does not outlive its wish, nor the client.
func TestSubscriptionFollowsItsURI(t *testing.T) {
	t.Parallel()
	const uri = "x:y"
	for _, refuses := range []bool{false, true} {
		t.Run(fmt.Sprintf("refuses=%v", refuses), func(t *testing.T) {
			t.Parallel()
			e, a, b := subscribables(t, `"resources"`)
			b.refuses = refuses
			p, peer := clientOf(t, e), &front.Peer{}
			defer p.close()
			ask := func(method string) bool {
				t.Helper()
				answer := make(answered, 1)
				p.Ask(front.Ask{Request: front.Request{Call: front.NextCall(), Params: []byte(`{"uri":"` + uri + `"}`), Reply: answer}, Method: method, Peer: peer})
				return answer.granted(t)
			}
			listedBy := func(server string) {
				t.Helper()
				testkit.Eventually(t, time.Minute, func() error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if owners := e.expose.lists.all(ctx, listResources).owners[uri]; !slices.Equal(owners, []string{server}) {
						return fmt.Errorf("the resource is one of %v, want %s", owners, server)
					}
					return nil
				})
			}
			listedBy("a")
			if !ask(methodSubscribe) {
				t.Fatal("the subscription is refused")
			}
			lists(e, actors.ResourceList, map[*subscribable]bool{a: false, b: true})
			listedBy("b")
			if ask(methodSubscribe) == refuses {
				t.Fatalf("the server that has the resource now refuses: %v; the client hears the opposite", refuses)
			}
			a.ends(t, 1)
			if refuses {
				return
			}
			if !ask(methodUnsubscribe) {
				t.Error("the end of a subscription is refused")
			}
			b.ends(t, 1)
		})
	}
}

// unsubscribed ends a subscription as its client does.
func unsubscribed(p *passed, of topicOf) {
	p.mu.Lock()
	p.end(of)
	p.mu.Unlock()
	p.dispatch()
}

// subscriptionEnds are the ways in which a subscription ends.
var subscriptionEnds = map[string]func(p *passed, of topicOf){
	"unsubscribed":  unsubscribed,
	"listener ends": func(p *passed, of topicOf) { p.Unsubscribe(of.to) },
	"session ends":  func(p *passed, _ topicOf) { p.close() },
	"moved":         func(p *passed, of topicOf) { p.want(of, actors.Topic{Server: "b", URI: "x:y"}) },
}

// A subscription may end while its server has not answered yet. Whoever ends it is
// answered, and so are all who subscribe later.
func TestSubscriptionEndsBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	topic := actors.Topic{Server: "a", URI: "x:y"}
	for name, end := range subscriptionEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, a, _ := subscribables(t, `"resources"`)
			a.held = make(chan struct{})
			answer := sync.OnceFunc(func() { close(a.held) })
			defer answer()
			p, of := clientOf(t, e), topicOf{&front.Peer{}, "x:y"}
			over := make(chan struct{})
			p.begin(front.NextCall(), of.uri, topic, of.to, func(*messages.Answer) {})
			testkit.Eventually(t, time.Minute, func() error {
				if a.count(methodSubscribe) == 0 {
					return errors.New("the server is not asked yet")
				}
				return nil
			})
			go func() {
				defer close(over)
				end(p, of)
			}()
			other := clientOf(t, e)
			granted := make(chan *messages.Answer, 1)
			go func() {
				<-over
				other.begin(front.NextCall(), of.uri, topic, &front.Peer{}, func(failure *messages.Answer) { granted <- failure })
				answer()
			}()
			select {
			case failure := <-granted:
				if failure != nil {
					t.Errorf("%+v", failure)
				}
			case <-time.After(time.Minute):
				t.Fatal("nobody is answered any more")
			}
			other.close()
			p.close()
		})
	}
}

// A subscription that its client ends before the request for it has come to the server
// does not stay for ever.
func TestSubscriptionIsOvertakenByItsEnd(t *testing.T) {
	t.Parallel()
	topic := actors.Topic{Server: "a", URI: "x:y"}
	for name, end := range subscriptionEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, a, _ := subscribables(t, `"resources"`)
			p, of := clientOf(t, e), topicOf{&front.Peer{}, "x:y"}
			answer := make(chan *messages.Answer, 1)
			own := p.want(of, topic)
			end(p, of)
			p.order(front.NextCall(), of, own, nil, func(failure *messages.Answer) { answer <- failure })
			if failure := <-answer; failure != nil {
				t.Fatalf("%+v", failure)
			}
			a.ends(t, 1)
			p.close()
		})
	}
}

// Where a client has ended a subscription and wants it again, the late answer to its
// first request takes nothing from it, and what there is ends with the session.
func TestSubscriptionIsWantedAgain(t *testing.T) {
	t.Parallel()
	e, a, _ := subscribables(t, `"resources"`)
	p, of, topic := clientOf(t, e), topicOf{&front.Peer{}, "x:y"}, actors.Topic{Server: "a", URI: "x:y"}
	answer := make(chan *messages.Answer, 2)
	first := p.want(of, topic)
	unsubscribed(p, of)
	again := p.want(of, topic)
	for _, own := range []*subscription{first, again} {
		p.order(front.NextCall(), of, own, nil, func(failure *messages.Answer) { answer <- failure })
		if failure := <-answer; failure != nil {
			t.Fatalf("%+v", failure)
		}
	}
	if n := a.count(methodSubscribe); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
	p.close()
	a.ends(t, 1)
}
