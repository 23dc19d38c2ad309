package metamcp

import (
	"context"
	"math"
	"runtime"
	"strconv"
	"sync"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// maxSearches is how many searches of one client may be under way or wait.
const maxSearches = 256

// searches are those of all clients and their scripts together. They can ask for them
// faster than they are done, and each takes a processor: half of the processors is
// left for calls. It is safe for any goroutine.
type searches struct {
	*actors.Turns
	mu     sync.Mutex
	joined map[uint64]int // by client
}

func newSearches() *searches {
	// join bounds those that wait.
	return &searches{Turns: actors.NewTurns(max(1, runtime.GOMAXPROCS(0)/2), math.MaxInt), joined: map[uint64]int{}}
}

// join counts a search of a client until left is called, or says that there are too
// many of them.
func (s *searches) join(client uint64) (left func(), refused *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.joined[client] >= maxSearches {
		return nil, &Error{
			Code: messages.CodePoolSaturated, Retryable: true,
			Message: strconv.Itoa(maxSearches) + " searches of this client are under way or wait for their turn; this one was not begun",
			Hint:    "Wait for some of them to be answered.",
		}
	}
	s.joined[client]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.joined[client]--; s.joined[client] == 0 {
			delete(s.joined, client)
		}
	}, nil
}

// inTurn is a ranking of which no more searches run at once than there are
// turns. What waits before a search, for servers or for the vector of the
// query, holds no turn.
type inTurn struct {
	index.Ranker
	ctx    context.Context //nolint:containedctx // of the one search that it is made for
	turns  *actors.Turns
	client uint64
}

// Search implements index.Ranker. It finds nothing where the context ends
// first; nobody waits for it then.
func (r inTurn) Search(c *index.Catalog, q index.Query) []index.Match {
	done, err := r.turns.Enter(r.ctx, r.client)
	if err != nil {
		return nil
	}
	defer done()
	return r.Ranker.Search(c, q)
}
