package actors

import (
	"context"
	"slices"
	"sync"
)

// Turns bounds how many of something are under way at once. Those who wait are
// served one client after the other, and of one client in the order in which they
// came; a client is known by [messages.Meta.Of]. It is safe for any goroutine.
type Turns struct {
	mu      sync.Mutex
	free    int
	waiting map[uint64][]chan struct{} // by client; each is closed when its turn comes
	order   []uint64                   // of the clients that wait, whose turn is next first
}

// NewTurns returns turns of which so many are had at once.
func NewTurns(atOnce int) *Turns {
	return &Turns{free: atOnce, waiting: map[uint64][]chan struct{}{}}
}

// Enter waits for a turn, which done ends, or for the end of ctx.
func (t *Turns) Enter(ctx context.Context, client uint64) (done func(), err error) {
	began, over := t.Queue(client)
	select {
	case <-began:
		return over, nil
	case <-ctx.Done():
		over()
		return nil, ctx.Err()
	}
}

// Queue asks for a turn, which has begun once began is closed. over ends it, or the
// wait for it; it is called once.
func (t *Turns) Queue(client uint64) (began <-chan struct{}, over func()) {
	mine := make(chan struct{})
	over = func() { t.end(client, mine) }
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 {
		t.free--
		close(mine)
		return mine, over
	}
	if len(t.waiting[client]) == 0 {
		t.order = append(t.order, client)
	}
	t.waiting[client] = append(t.waiting[client], mine)
	return mine, over
}

// end ends a turn, or the wait for it.
func (t *Turns) end(client uint64, mine chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
