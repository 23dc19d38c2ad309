package metamcp

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// maxSearches is how many searches of one client may be under way or wait.
const maxSearches = 256

// turns bounds how many of something are under way at once. Those who wait are
// served one client after the other, and of one client in the order in which they
// came; a client is known by [actors.Engine.Sharer]. It is safe for any goroutine.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting map[uint64][]chan struct{} // by client; each is closed when its turn comes
	order   []uint64                   // of the clients that wait, whose turn is next first
	joined  map[uint64]int             // by client
}

func newTurns(atOnce int) *turns {
	return &turns{free: atOnce, waiting: map[uint64][]chan struct{}{}, joined: map[uint64]int{}}
}

// searchTurns is for the searches of all clients and their scripts together. They can
// ask for them faster than they are done, and each takes a processor: half of the
// processors is left for calls.
func searchTurns() *turns { return newTurns(max(1, runtime.GOMAXPROCS(0)/2)) }

// join counts a search of a client until left is called, or says that there are too
// many of them.
func (t *turns) join(client uint64) (left func(), refused *Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.joined[client] >= maxSearches {
		return nil, &Error{
			Code: messages.CodePoolSaturated, Retryable: true,
			Message: strconv.Itoa(maxSearches) + " searches of this client are under way or wait for their turn; this one was not begun",
			Hint:    "Wait for some of them to be answered.",
		}
	}
	t.joined[client]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.joined[client]--; t.joined[client] == 0 {
			delete(t.joined, client)
		}
	}, nil
}

// enter waits for a turn, which done ends, or for the end of ctx.
func (t *turns) enter(ctx context.Context, client uint64) (done func(), err error) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return t.leave, nil
	}
	mine := make(chan struct{})
	if len(t.waiting[client]) == 0 {
		t.order = append(t.order, client)
	}
	t.waiting[client] = append(t.waiting[client], mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return t.leave, nil
	case <-ctx.Done():
		t.giveUp(client, mine)
		return nil, ctx.Err()
	}
}

// leave ends a turn: the next begins.
func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	client := t.order[0]
	t.order = t.order[1:]
	queue := t.waiting[client]
	close(queue[0])
	if queue = queue[1:]; len(queue) == 0 {
		delete(t.waiting, client)
		return
	}
	t.waiting[client] = queue
	t.order = append(t.order, client)
}

// giveUp takes back who waits. One whose turn has come ends it.
func (t *turns) giveUp(client uint64, mine chan struct{}) {
	t.mu.Lock()
	queue := t.waiting[client]
	i := slices.Index(queue, mine)
	switch {
	case i < 0:
		t.mu.Unlock()
		t.leave()
		return
	case len(queue) == 1:
		delete(t.waiting, client)
		t.order = slices.DeleteFunc(t.order, func(s uint64) bool { return s == client })
	default:
		t.waiting[client] = slices.Delete(queue, i, i+1)
	}
	t.mu.Unlock()
}

// inTurn is a ranking of which no more searches run at once than there are
// turns. What waits before a search, for servers or for the vector of the
// query, holds no turn.
type inTurn struct {
	index.Ranker
	ctx    context.Context //nolint:containedctx // of the one search that it is made for
	turns  *turns
	client uint64
}

// Search implements index.Ranker. It finds nothing where the context ends
// first; nobody waits for it then.
func (r inTurn) Search(c *index.Catalog, q index.Query) []index.Match {
	done, err := r.turns.enter(r.ctx, r.client)
	if err != nil {
		return nil
	}
	defer done()
	return r.Ranker.Search(c, q)
}
