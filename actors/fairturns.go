package actors

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Turns bounds how many of something are under way at once. Those who wait are
// served one client after the other, and of one client in the order in which they
// came; a client is known by [messages.Meta.Of]. It is safe for any goroutine.
type Turns struct {
	most int // that are asked for at a time; one client may ask for half of them

	mu      sync.Mutex
	free    int
	asked   int                        // turns that are held or waited for
	asking  map[uint64]int             // the same by client
	waiting map[uint64][]chan struct{} // by client; each is closed when its turn comes
	order   []uint64                   // of the clients that wait, whose turn is next first
}

// NewTurns returns turns of which atOnce are had at once, and most are had or waited
// for. One client alone gets half of these.
func NewTurns(atOnce, most int) *Turns {
	return &Turns{free: atOnce, most: most, asking: map[uint64]int{}, waiting: map[uint64][]chan struct{}{}}
}

// ErrTooManyWait says that no more can wait for a turn, or no more of this client.
var ErrTooManyWait = errors.New("too many wait for their turn")

// Enter waits for a turn, which done ends, or for the end of ctx. The error is that of
// ctx or [ErrTooManyWait].
func (t *Turns) Enter(ctx context.Context, client uint64) (done func(), err error) {
	began, over, err := t.Queue(client)
	if err != nil {
		return nil, err
	}
	select {
	case <-began:
		return over, nil
	case <-ctx.Done():
		over()
		return nil, ctx.Err()
	}
}

// Queue asks for a turn, which has begun once began is closed. over ends it, or the
// wait for it; it is called once. The error is [ErrTooManyWait].
func (t *Turns) Queue(client uint64) (began <-chan struct{}, over func(), err error) {
	mine := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked >= t.most || t.asking[client] >= t.most/2 {
		return nil, nil, ErrTooManyWait
	}
	t.asked++
	t.asking[client]++
	over = func() { t.end(client, mine) }
	if t.free > 0 {
		t.free--
		close(mine)
		return mine, over, nil
	}
	if len(t.waiting[client]) == 0 {
		t.order = append(t.order, client)
	}
	t.waiting[client] = append(t.waiting[client], mine)
	return mine, over, nil
}

// end ends a turn, or the wait for it.
func (t *Turns) end(client uint64, mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked--
	if t.asking[client]--; t.asking[client] == 0 {
		delete(t.asking, client)
	}
	queue := t.waiting[client]
	i := slices.Index(queue, mine)
	switch {
	case i < 0:
		t.next()
	case len(queue) == 1:
		delete(t.waiting, client)
		t.order = slices.DeleteFunc(t.order, func(other uint64) bool { return other == client })
	default:
		t.waiting[client] = slices.Delete(queue, i, i+1)
	}
}

// next gives the turn that has ended to whoever is next. t.mu is held.
func (t *Turns) next() {
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
