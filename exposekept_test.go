package metamcp

import (
	"testing"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/front"
)

// What a server announces counts for the next request already, also where lists are
// shown to nobody and so read for requests alone.
func TestRequestsFollowLists(t *testing.T) {
	t.Parallel()
	for method, of := range map[string]struct {
		list   actors.ChildList
		params string
	}{
		"resources/read": {actors.ResourceList, `{"uri":"x:y"}`},
		"prompts/get":    {actors.PromptList, `{"name":"y"}`},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			e, a, b := subscribables(t, "")
			p := clientOf(t, e)
			defer p.close()
			granted := func() bool {
				t.Helper()
				answer := make(answered, 1)
				p.Ask(front.Ask{Request: front.Request{Call: front.NextCall(), Params: []byte(of.params), Reply: answer}, Method: method, Peer: &front.Peer{}})
				return answer.granted(t)
			}
			listedBy := func(byA, byB bool) { lists(e, of.list, map[*subscribable]bool{a: byA, b: byB}) }
			listedBy(false, false)
			for range 2 {
				if granted() {
					t.Fatal("what nobody has is found")
				}
			}
			listedBy(true, false)
			if !granted() || a.count(method) != 1 {
				t.Errorf("what is new at a server is not found there: it was asked %d times", a.count(method))
			}
			if !granted() || a.count(method) != 2 {
				t.Errorf("what a server has was asked of it %d times, want 2", a.count(method))
			}
			listedBy(false, true)
			if !granted() || a.count(method) != 2 || b.count(method) != 1 {
				t.Errorf("what has moved to another server was asked of the two %d and %d times, want 2 and 1", a.count(method), b.count(method))
			}
		})
	}
}
