package supervision

import (
	"time"

	"github.com/metamcp/metamcp/messages"
)

// PoolConfig are the pool's parameters.
type PoolConfig struct {
	Size    int // main places; at least 1
	Reserve int // places above Size; 0: none
	// ReserveAfter is how long the oldest waiter waits before the reserve
	// opens.
	ReserveAfter time.Duration
	Min          int           // the idle sweep leaves this many live connections
	IdleTimeout  time.Duration // ≤ 0: idle connections are never swept
	// AcquireTimeout is how long a waiter waits for a place; ≤ 0: until its
	// own deadline.
	AcquireTimeout time.Duration
	MaxWaiters     int // at least 1
}

// bounded returns c with every number in its range.
func (c PoolConfig) bounded() PoolConfig {
	c.Size = max(c.Size, 1)
	c.Reserve = max(c.Reserve, 0)
	c.ReserveAfter = max(c.ReserveAfter, 0)
	c.Min = max(c.Min, 0)
	c.IdleTimeout = max(c.IdleTimeout, 0)
	c.AcquireTimeout = max(c.AcquireTimeout, 0)
	c.MaxWaiters = max(c.MaxWaiters, 1)
	return c
}

// Action is what the pool wants done: a [Grant], a [Refuse], a [TurnAway] or an [Evict].
type Action interface{ poolAction() }

// Grant gives a waiter a place. The lease lives, and the place is taken, until
// Release.
type Grant struct {
	Ticket  uint64
	Lease   uint64 // unique in this pool, never 0
	Server  string
	Client  uint64        // in whose turn
	Contact bool          // it is for contacts alone
	Reserve bool          // from the reserve
	Waited  time.Duration // since that client's Acquire or first Join
}

// Refuse turns a ticket away, with all who wait for it.
type Refuse struct {
	Ticket uint64
	Err    *messages.Error
}

// TurnAway turns away some of those who wait for a ticket, which is not answered yet:
// of one client, those that have waited since Before or longer.
type TurnAway struct {
	Ticket uint64
	Client uint64
	// Contact says which: contacts alone, or calls alone.
	Contact bool
	Before  time.Time
	Err     *messages.Error
}

// EvictReason says why a connection has to go.
type EvictReason string

// The reasons of an eviction.
const (
	EvictForRoom  EvictReason = "room"    // another server needs the place
	EvictIdle     EvictReason = "idle"    // idle for longer than its timeout
	EvictReserve  EvictReason = "reserve" // idle on a reserve place
	EvictShrink   EvictReason = "shrink"  // the pool became smaller
	EvictForDrain EvictReason = "drain"   // the pool is being emptied
	EvictMemory   EvictReason = "memory"  // memory is short
)

// Evict asks for the end of a connection that is idle or for contacts alone. It is
// answered by Release, once the process tree is really gone, or by EvictRefused: the
// connection had become busy, or a call's, meanwhile, one that had failed before is started
// again, or it does not end, and then Release follows once it does.
type Evict struct {
	Lease  uint64
	Server string
	Reason EvictReason
}

func (Grant) poolAction()    {}
func (Refuse) poolAction()   {}
func (TurnAway) poolAction() {}
func (Evict) poolAction()    {}

// IdleOptions say how an idle connection is to be treated.
type IdleOptions struct {
	// KeepAlive exempts it from the pool's idle timeout and from eviction for
	// as long as another idle one can be evicted.
	KeepAlive bool
	// IdleTimeout is its own idle timeout; 0: the pool's, or none where
	// KeepAlive is set.
	IdleTimeout time.Duration
	// Since is when its idle time began; zero: now.
	Since time.Time
}

// PoolReport is the pool's numbers and what bounds them.
type PoolReport struct {
	PoolStats
	Config    PoolConfig
	Evictions uint64 // asked for since the host started
}

// PoolStats are the pool's numbers at one moment. Busy, Idle and Evicting add
// up to Live.
type PoolStats struct {
	Live     int // places that are taken
	Busy     int // connecting, in use or ending on their own
	Idle     int
	Evicting int // asked to end and not gone yet
	Reserve  int // of Live, those on reserve places
	Waiting  int
}
