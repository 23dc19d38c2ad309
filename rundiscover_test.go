package metamcp

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// slowRanking counts the searches that are under way.
type slowRanking struct {
	index.Ranker
	now, most *atomic.Int64
	begun     chan struct{}
	end       chan struct{}
}

func (r slowRanking) Search(*index.Catalog, index.Query) []index.Match {
	r.most.Store(max(r.most.Load(), r.now.Add(1)))
	r.begun <- struct{}{}
	<-r.end
	r.now.Add(-1)
	return []index.Match{{Score: 1}}
}

// No more searches of scripts run at once than there are turns; who gives up
// holds none and gets none.
func TestSearchesInTurn(t *testing.T) {
	const all = 20
	shared := actors.NewTurns(2, 100)
	slow := slowRanking{now: new(atomic.Int64), most: new(atomic.Int64), begun: make(chan struct{}, all), end: make(chan struct{})}
	gaveUp, cancel := context.WithCancel(t.Context())
	var found, none atomic.Int64
	var searches sync.WaitGroup
	for i := range all {
		ctx := t.Context()
		if i%2 == 1 {
			ctx = gaveUp
		}
		searches.Go(func() {
			if len(inTurn{slow, ctx, shared, uint64(i % 3)}.Search(nil, index.Query{})) == 1 {
				found.Add(1)
			} else {
				none.Add(1)
			}
		})
	}
	<-slow.begun
	<-slow.begun
	cancel()
	close(slow.end)
	searches.Wait()
	if slow.most.Load() > 2 {
		t.Errorf("%d searches at once, want 2", slow.most.Load())
	}
	if found.Load() < all/2 || found.Load()+none.Load() != all {
		t.Errorf("%d searches found something, %d gave up", found.Load(), none.Load())
	}
}

// A server that is disabled or removed while a script runs is left out of a search of
// all that the script may reach, and a search of it alone says why it has nothing.
func TestScriptsSearchWithoutServersThatWent(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{"off":{"command":"none","disabled":true}}}`)
	only := []string{"off", "removed"}
	if raw, err := r.e.discoverForScript(t.Context(), 0, []byte(`{"query":"add"}`), only); err != nil || string(raw) != "[]" {
		t.Errorf("all of them: %s, %v", raw, err)
	}
	for server, code := range map[string]messages.Code{"off": messages.CodeConfiguration, "removed": messages.CodeServerNotFound} {
		if raw, err := r.e.discoverForScript(t.Context(), 0, []byte(`{"query":"add","server":"`+server+`"}`), only); err == nil || err.Code != code {
			t.Errorf("%s alone: %s, %v", server, raw, err)
		}
	}
}

// A server may be removed at any moment of a search of all that a script may reach, and
// is left out of it.
func TestScriptsSearchWhileServersGo(t *testing.T) {
	t.Parallel()
	r := openReloading(t, `{"mcpServers":{"comes":{"command":"none"}}}`)
	only := slices.Repeat([]string{"comes"}, 1000)
	over := make(chan struct{})
	var searches sync.WaitGroup
	searches.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if raw, err := r.e.discoverForScript(t.Context(), 0, []byte(`{"query":"add"}`), only); err != nil {
				t.Errorf("%s, %v", raw, err)
				return
			}
		}
	})
	defer searches.Wait()
	defer close(over)
	for range 100 { // as many as it takes for one to come at a bad moment
		r.write(`{"mcpServers":{}}`)
		r.reload()
		r.write(`{"mcpServers":{"comes":{"command":"none"}}}`)
		r.reload()
	}
}
