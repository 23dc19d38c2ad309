package metamcp

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/testkit"
)

// asks sends a request for the resource x:y as its client would.
func (p *passed) asks(method string, peer *front.Peer, cancelled *atomic.Bool) answered {
	answer := make(answered, 1)
	p.Ask(front.Ask{
		Request: front.Request{Call: front.NextCall(), Params: []byte(`{"uri":"x:y"}`), Reply: answer, Cancelled: cancelled},
		Method:  method, Peer: peer,
	})
	return answer
}

// begins waits until the server has got as many requests of a method.
func (s *subscribable) begins(t *testing.T, method string, want int) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if n := s.count(method); n != want {
			return fmt.Errorf("it got %d times %s, want %d", n, method, want)
		}
		return nil
	})
}

// A subscription whose client ends it while its server is still being looked for is not
// made; one that it asks for after that is.
func TestSubscriptionEndsWhileItsServerIsLookedFor(t *testing.T) {
	t.Parallel()
	ends := map[string]func(t *testing.T, p *passed, peer *front.Peer, cancelled *atomic.Bool){
		"unsubscribed": func(t *testing.T, p *passed, peer *front.Peer, _ *atomic.Bool) {
			t.Helper()
			if !p.asks(methodUnsubscribe, peer, nil).granted(t) {
				t.Error("the end of a subscription is refused")
			}
		},
		"cancelled": func(_ *testing.T, _ *passed, _ *front.Peer, cancelled *atomic.Bool) { cancelled.Store(true) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, a, _ := subscribables(t, `"resources"`)
			a.listing = make(chan struct{})
			p, peer, cancelled := clientOf(t, e), &front.Peer{}, new(atomic.Bool)
			defer p.close()
			first := p.asks(methodSubscribe, peer, cancelled)
			a.begins(t, methodResources, 1)
			end(t, p, peer, cancelled)
			again := p.asks(methodSubscribe, peer, nil)
			close(a.listing)
			if first.granted(t) {
				t.Error("the subscription is made although its client has ended it")
			}
			if !again.granted(t) {
				t.Error("what was asked for later is refused")
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if n := len(p.routing); n > 0 {
				t.Errorf("%d requests are still being looked for", n)
			}
		})
	}
}

// A subscription that is granted to a request which its client has cancelled is given
// back, unless there is another request for it.
func TestCancelledSubscriptionIsGivenBack(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1} {
		t.Run(fmt.Sprintf("others=%d", others), func(t *testing.T) {
			t.Parallel()
			e, a, _ := subscribables(t, `"resources"`)
			a.held = make(chan struct{})
			p, peer, cancelled := clientOf(t, e), &front.Peer{}, new(atomic.Bool)
			defer p.close()
			of := topicOf{peer, "x:y"}
			p.asks(methodSubscribe, peer, cancelled)
			a.begins(t, methodSubscribe, 1)
			kept := func() *subscription {
				p.mu.Lock()
				defer p.mu.Unlock()
				if own := p.topics[of]; own != nil {
					now := *own
					return &now
				}
				return nil
			}
			var other answered
			if others > 0 {
				other = p.asks(methodSubscribe, peer, new(atomic.Bool))
				testkit.Eventually(t, time.Minute, func() error {
					if own := kept(); own.asked != 1+others {
						return fmt.Errorf("there are %d requests", own.asked)
					}
					return nil
				})
			}
			cancelled.Store(true)
			close(a.held)
			if others > 0 {
				if !other.granted(t) {
					t.Error("another request is refused")
				}
				testkit.Eventually(t, time.Minute, func() error {
					if own := kept(); own == nil || own.asked > 0 {
						return fmt.Errorf("kept is %+v", own)
					}
					return nil
				})
				if n := a.count(methodUnsubscribe); n > 0 {
					t.Error("the cancellation ends what another request has")
				}
				p.close()
			}
			a.ends(t, 1)
			if own := kept(); own != nil {
				t.Errorf("%+v is still there", own)
			}
		})
	}
}
