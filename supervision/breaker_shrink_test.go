package supervision_test

import (
	"strconv"
	"testing"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// TestFewerInstances: where a server may have fewer, those end first that nobody needs,
// then those that only have subscribers, then those with the fewest calls,
// which are answered before.
func TestFewerInstances(t *testing.T) {
	const unneeded, least, subscribed, busiest = 1, 2, 3, 4
	name := func(n int) string { return "a#" + strconv.Itoa(n) }
	spec := func(most int) *messages.ServerSpec {
		return &messages.ServerSpec{Name: "a", MaxInstances: most, Retry: messages.RetrySafe}
	}
	s := newStage(t, nil)
	s.sys.Send(s.pool, &supervision.AddServers{Specs: []*messages.ServerSpec{spec(busiest)}})
	s.idle("a")
	for n := 1; n <= busiest; n++ {
		s.call("a")
		s.hears(name(n)+" Call", 1)
		s.load(name(n), 1)
		s.say("a", &messages.ConnectionReady{Instance: uint64(n)})
	}
	s.load(name(busiest), 2)
	for _, n := range []int{unneeded, subscribed} {
		s.load(name(n), 0)
		s.say("a", &messages.ConnectionIdle{Instance: uint64(n), Handled: 1, Answered: 1, Keep: n == subscribed})
	}
	s.until("two are idle", func() bool { return s.stats().Idle == 2 })

	ended := func(n int) bool { return s.count(name(n)+" Close")+s.count(name(n)+" Finish") > 0 }
	for i, next := range []int{unneeded, subscribed, least} {
		s.say("a", &messages.Respec{Spec: spec(busiest - 1 - i)})
		s.until(name(next)+" is to end", func() bool { return ended(next) })
		for _, later := range []int{unneeded, subscribed, least, busiest}[i+1:] {
			if ended(later) {
				t.Errorf("%s is to end before its time, with %s", name(later), name(next))
			}
		}
	}
	if s.count(name(least)+" Close") != 0 {
		t.Error("one is ended that has a call")
	}
}
