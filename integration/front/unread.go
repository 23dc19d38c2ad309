package front

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of what waits for clients that do not read, in bytes.
const (
	// MaxQueued is how much may wait for one client before its session ends.
	MaxQueued = 256 << 20
	// fullAt is from when on a client is full: nothing more is read of it, and none of
	// its calls is carried out, until half of that is left.
	fullAt = 16 << 20
	// crowdedAt is how much may wait for all clients of a host before a client is full
	// with fullInCrowd already.
	crowdedAt   = 256 << 20
	fullInCrowd = 1 << 20
	// maxUnread is how much may wait for all of them; beyond it the session ends of
	// the one for which most waits.
	maxUnread = 512 << 20
)

// stuckAfter is how long a full client may read nothing before its session ends.
const stuckAfter = time.Minute

// ErrNotReading ends the session of a client that does not read its answers.
var ErrNotReading = errors.New("the client does not read its answers")

// Unread counts what waits for the clients of a host. The zero value is ready; it
// is safe for any goroutine.
type Unread struct {
	total atomic.Int64

	mu      sync.Mutex
	outputs map[*Output]struct{}
}

func (u *Unread) join(o *Output) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.outputs == nil {
		u.outputs = map[*Output]struct{}{}
	}
	u.outputs[o] = struct{}{}
}

func (u *Unread) part(o *Output) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.outputs, o)
}

// relieve ends outputs, always that with most in it, until less waits than may. The
// caller holds the lock of none.
func (u *Unread) relieve() {
	for u.total.Load() > maxUnread {
		var most *Output
		u.mu.Lock()
		for o := range u.outputs {
			if most == nil || o.waits.Load() > most.waits.Load() {
				most = o
			}
		}
		u.mu.Unlock()
		if most == nil || !most.giveUp() {
			return
		}
	}
}

// giveUp ends an output for which most of all waits; false: it holds nothing.
func (o *Output) giveUp() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queued == 0 {
		return false
	}
	_ = o.fail(fmt.Errorf("%w: %d MiB wait for it, more than for any other, and more than %d MiB for all clients", ErrNotReading, o.queued>>20, maxUnread>>20))
	return true
}

// limit is how much may wait until the client is full.
func (o *Output) limit() int {
	if o.unread.total.Load() > crowdedAt {
		return fullInCrowd
	}
	return fullAt
}

// count takes note that n bytes more, or less, wait. o.mu is held.
func (o *Output) count(n int) {
	o.queued += n
	o.waits.Store(int64(o.queued))
	o.unread.total.Add(int64(n))
	switch {
	case o.room == nil && n > 0 && o.queued > o.limit() && o.err == nil && !o.closing:
		o.room = make(chan struct{})
		o.full.Store(true)
		o.read = time.Now()
		o.stuck = time.AfterFunc(o.patience, o.lookWhetherStuck)
	case o.room != nil && n < 0 && o.queued <= o.limit()/2:
		o.empty()
	case n < 0 && !o.told:
		o.signal() // more is to be told, and not only the goroutine writes
	}
}

// empty says that there is room again. o.mu is held.
func (o *Output) empty() {
	if o.endWait() {
		o.full.Store(false)
		o.told = false
		o.signal()
	}
}

// endWait lets those go on who wait for room, which an output that has failed stays
// without. o.mu is held.
func (o *Output) endWait() bool {
	if o.room == nil {
		return false
	}
	o.stuck.Stop()
	close(o.room)
	o.room = nil
	return true
}

// lookWhetherStuck ends the output where its client has read nothing for too long.
func (o *Output) lookWhetherStuck() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.room == nil || o.err != nil || o.closing {
		return
	}
	if rest := o.patience - time.Since(o.read); rest > 0 {
		o.stuck.Reset(rest)
		return
	}
	_ = o.fail(fmt.Errorf("%w: it has read nothing for %v, and %d MiB wait for it", ErrNotReading, o.patience, o.queued>>20))
}

// Full says whether so much waits for the client that it gets no more work done
// before it reads.
func (o *Output) Full() bool { return o.full.Load() }

// littleRoom says whether so much waits that what could wait elsewhere should, and leave
// the rest of the room to answers. A full client has none before half of its limit is left,
// or what could wait would keep it full.
func (o *Output) littleRoom() bool {
	return o.full.Load() || o.waits.Load() > int64(o.limit())*3/4
}

// Room is closed once there is room again, or the output has failed or is being
// closed; nil: there is room, or no sense in waiting for it.
func (o *Output) Room() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.room
}

// tellRoom calls onRoom where there has come room since it was called last, and where
// that had more to tell and the client has read on. It runs
// on the goroutine of the Output, which holds no lock.
func (o *Output) tellRoom() {
	o.mu.Lock()
	tell := !o.told && o.err == nil && !o.closing && o.onRoom != nil
	o.told = true
	o.mu.Unlock()
	if tell && o.onRoom() {
		o.mu.Lock()
		o.told = false
		if !o.littleRoom() {
			o.signal() // it has read on meanwhile
		}
		o.mu.Unlock()
	}
}

// untilRoom returns once there is room, or over is closed. It calls first before it
// waits.
func (o *Output) untilRoom(over <-chan struct{}, first func()) {
	for room := o.Room(); room != nil; room = o.Room() {
		first()
		select {
		case <-room:
		case <-over:
			return
		}
	}
}
