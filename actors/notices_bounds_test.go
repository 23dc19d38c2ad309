package actors

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// quietPort is a port that hears nothing of interest.
type quietPort struct{ _ byte } // of a size: each is another one

func (*quietPort) Updated(string, json.RawMessage) {}

// TestSubscriptionsAreBoundedByClient and not by its ports, of which it has one with
// each request of the newer protocol.
func TestSubscriptionsAreBoundedByClient(t *testing.T) {
	r := newRig(t, nil)
	r.add("x", announces(), nil)
	const each = maxSubscriptionsOne / 4
	greedy, other := r.session(), r.session()
	answers := make(chan *messages.Answer, each)
	// subscribed is how many of the requests of a port are granted.
	subscribed := func(s *guest, port UpdatePort, n int) (granted int) {
		t.Helper()
		for i := range n {
			r.e.Subscribe(&Subscribe{
				Topic: watchedTopic, As: strconv.Itoa(i), Port: port, Call: lastCall.Add(1), Session: s.ID(),
				Reply: func(failure *messages.Answer) { answers <- failure },
			})
		}
		for range n {
			select {
			case failure := <-answers:
				switch {
				case failure == nil:
					granted++
				case failure.Err == nil || failure.Err.Code != messages.CodePoolSaturated:
					t.Fatalf("%+v", failure)
				}
			case <-time.After(soon):
				t.Fatal("no answer to a subscription")
			}
		}
		return granted
	}
	var ports []UpdatePort
	for range maxSubscriptionsOne / each {
		ports = append(ports, &quietPort{})
		if got := subscribed(greedy, ports[len(ports)-1], each); got != each {
			t.Fatalf("%d of %d subscriptions are granted", got, each)
		}
	}
	if subscribed(greedy, &quietPort{}, 1) != 0 {
		t.Error("a client has more subscriptions than it may, at a port of its own")
	}
	mine := &quietPort{}
	if subscribed(other, mine, 1) != 1 {
		t.Error("a client pays for another one")
	}
	for i := range 2 {
		r.e.Unsubscribe(&Unsubscribe{Topic: watchedTopic, As: strconv.Itoa(i), Port: ports[0], Session: greedy.ID()})
	}
	if got := subscribed(greedy, &quietPort{}, 3); got != 2 {
		t.Errorf("%d are granted in place of two that ended", got)
	}
	r.e.Unsubscribe(&Unsubscribe{Port: ports[1]})
	if got := subscribed(greedy, &quietPort{}, each); got != each {
		t.Errorf("%d are granted in place of the %d of a port that ended", got, each)
	}
}
