package supervision_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/supervision"
)

// show writes actions the way the tests expect them: "grant 1→2" is ticket 1
// on lease 2, with a "+" for a reserve place.
func show(acts []supervision.Action) string {
	var out []string
	for _, a := range acts {
		switch a := a.(type) {
		case supervision.Grant:
			plus := ""
			if a.Reserve {
				plus = "+"
			}
			out = append(out, fmt.Sprintf("grant %d→%d%s", a.Ticket, a.Lease, plus))
		case supervision.Refuse:
			out = append(out, fmt.Sprintf("refuse %d %s", a.Ticket, a.Err.Code))
		case supervision.TurnAway:
			out = append(out, fmt.Sprintf("turn away %d of %d %s", a.Client, a.Ticket, a.Err.Code))
		case supervision.Evict:
			out = append(out, fmt.Sprintf("evict %d %s", a.Lease, a.Reason))
		}
	}
	return strings.Join(out, ", ")
}

func expect(t *testing.T, acts []supervision.Action, want string) {
	t.Helper()
	if got := show(acts); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func config(size int) supervision.PoolConfig {
	return supervision.PoolConfig{
		Size: size, ReserveAfter: 5 * time.Second, IdleTimeout: 5 * time.Minute, AcquireTimeout: 30 * time.Second, MaxWaiters: 1024,
	}
}

// filled returns a pool whose size places are taken by leases 1…size, all
// busy, of the servers s1…, from tickets 1….
func filled(t *testing.T, cfg supervision.PoolConfig) *supervision.Pool {
	t.Helper()
	p := supervision.NewPool(cfg)
	for i := uint64(1); i <= uint64(cfg.Size); i++ {
		expect(t, acquire(p, 0, i), fmt.Sprintf("grant %d→%d", i, i))
	}
	return p
}

func acquire(p *supervision.Pool, after time.Duration, ticket uint64) []supervision.Action {
	return p.Acquire(at(after), ticket, fmt.Sprint("s", ticket), 1, time.Time{})
}

func TestPoolEvictsTheLeastRecentlyUsed(t *testing.T) {
	p := filled(t, config(3))
	for i, lease := range []uint64{2, 1, 3} {
		expect(t, p.Idle(at(time.Duration(i)*ms), lease, supervision.IdleOptions{}), "")
	}
	p.Used(at(5*ms), 2)
	p.Idle(at(6*ms), 2, supervision.IdleOptions{}) // order is now 1, 3, 2
	expect(t, acquire(p, 7*ms, 10), "evict 1 room")
	expect(t, acquire(p, 7*ms, 11), "evict 3 room")
	expect(t, acquire(p, 7*ms, 12), "evict 2 room")
	expect(t, acquire(p, 7*ms, 13), "") // nothing is left to evict
	expect(t, p.Release(at(8*ms), 3), "grant 10→4")
	expect(t, p.Release(at(8*ms), 1), "grant 11→5")
	expect(t, p.Release(at(8*ms), 1), "") // released already
	expect(t, p.Release(at(8*ms), 4), "grant 12→6")
}

func TestPoolKeepAliveGoesLast(t *testing.T) {
	p := filled(t, config(2))
	p.Idle(at(1*ms), 1, supervision.IdleOptions{KeepAlive: true})
	p.Idle(at(2*ms), 2, supervision.IdleOptions{})
	expect(t, acquire(p, 3*ms, 10), "evict 2 room")
	expect(t, acquire(p, 3*ms, 11), "evict 1 room")
}

func TestPoolNeverEvictsBusy(t *testing.T) {
	p := filled(t, config(2))
	expect(t, acquire(p, 1*ms, 10), "")
	expect(t, p.Idle(at(2*ms), 2, supervision.IdleOptions{}), "evict 2 room")
	// It was used while the eviction was on its way.
	expect(t, p.Used(at(2*ms), 2), "")
	expect(t, p.EvictRefused(at(3*ms), 2), "")
	expect(t, p.EvictRefused(at(3*ms), 2), "")
	expect(t, p.Idle(at(4*ms), 1, supervision.IdleOptions{}), "evict 1 room")
	expect(t, p.Release(at(5*ms), 1), "grant 10→3")
	if s := p.Stats(); s != (supervision.PoolStats{Live: 2, Busy: 2}) {
		t.Errorf("stats %+v", s)
	}
}

func TestPoolAnEvictionNobodyNeedsAnyMore(t *testing.T) {
	p := filled(t, config(1))
	p.Idle(at(0), 1, supervision.IdleOptions{})
	expect(t, acquire(p, 1*ms, 10), "evict 1 room")
	expect(t, p.Withdraw(at(2*ms), 10), "")
	expect(t, p.Withdraw(at(2*ms), 10), "")
	expect(t, p.Release(at(3*ms), 1), "")
	expect(t, acquire(p, 4*ms, 11), "grant 11→2")
}

func TestPoolIsFairBetweenClients(t *testing.T) {
	p := filled(t, config(1))
	for i := uint64(10); i < 15; i++ {
		p.Acquire(at(0), i, "a", 7, time.Time{})
	}
	p.Acquire(at(1*ms), 20, "b", 8, time.Time{})
	p.Acquire(at(1*ms), 21, "b", 8, time.Time{})
	p.Acquire(at(2*ms), 30, "c", 9, time.Time{})
	var order []uint64
	lease := uint64(1)
	for range 8 {
		for _, a := range p.Release(at(3*ms), lease) {
			g := a.(supervision.Grant)
			order = append(order, g.Ticket)
			lease = g.Lease
		}
	}
	if want := []uint64{10, 20, 30, 11, 21, 12, 13, 14}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestPoolReserve(t *testing.T) {
	cfg := config(2)
	cfg.Reserve, cfg.ReserveAfter = 1, 5*time.Second
	p := filled(t, cfg)
	expect(t, acquire(p, 0, 10), "")
	expect(t, acquire(p, 1*time.Second, 11), "")
	if when, ok := p.NextWake(); !ok || !when.Equal(at(5*time.Second)) {
		t.Fatalf("next wake %v %v", when, ok)
	}
	expect(t, p.Tick(at(5*time.Second-1)), "")
	expect(t, p.Tick(at(5*time.Second)), "grant 10→3+")
	expect(t, p.Tick(at(20*time.Second)), "") // the reserve is used up
	if when, _ := p.NextWake(); !when.Equal(at(31 * time.Second)) {
		t.Errorf("next wake %v", when)
	}
	expect(t, p.Withdraw(at(20*time.Second), 11), "")
	// Idle: a main lease stays, the reserve lease goes at once.
	expect(t, p.Idle(at(21*time.Second), 1, supervision.IdleOptions{}), "")
	expect(t, p.Idle(at(21*time.Second), 3, supervision.IdleOptions{KeepAlive: true}), "evict 3 reserve")
	expect(t, p.EvictRefused(at(21*time.Second), 3), "")
	expect(t, p.Idle(at(22*time.Second), 3, supervision.IdleOptions{}), "evict 3 reserve")
	if s := p.Stats(); s != (supervision.PoolStats{Live: 3, Busy: 1, Idle: 1, Evicting: 1, Reserve: 1}) {
		t.Errorf("stats %+v", s)
	}
	expect(t, p.Release(at(23*time.Second), 3), "")
}

func TestPoolReserveLeaseMovesToAMainPlace(t *testing.T) {
	cfg := config(1)
	cfg.Reserve, cfg.ReserveAfter = 1, time.Second
	p := filled(t, cfg)
	acquire(p, 0, 10)
	expect(t, p.Tick(at(time.Second)), "grant 10→2+")
	expect(t, p.Release(at(2*time.Second), 1), "")
	if s := p.Stats(); s.Reserve != 0 || s.Live != 1 {
		t.Fatalf("stats %+v", s)
	}
	expect(t, p.Idle(at(2*time.Second), 2, supervision.IdleOptions{}), "") // a main lease now
	expect(t, acquire(p, 3*time.Second, 11), "evict 2 room")
}

func TestPoolCountsAnEndingReserveLeaseThatMovedToAMainPlace(t *testing.T) {
	cfg := config(2)
	cfg.Reserve, cfg.ReserveAfter = 1, time.Second
	p := filled(t, cfg)
	acquire(p, 0, 10)
	expect(t, p.Tick(at(time.Second)), "grant 10→3+")
	expect(t, p.Idle(at(time.Second), 3, supervision.IdleOptions{}), "evict 3 reserve")
	expect(t, p.Idle(at(time.Second), 2, supervision.IdleOptions{}), "")
	expect(t, p.Release(at(time.Second), 1), "")
	// Lease 3 is about to free the place that 11 needs: 2 may stay.
	expect(t, acquire(p, time.Second, 11), "")
	expect(t, p.Release(at(time.Second), 3), "grant 11→4")
}

func TestPoolReserveServesTheOldestWhosoever(t *testing.T) {
	cfg := config(1)
	cfg.Reserve, cfg.ReserveAfter = 1, time.Second
	p := filled(t, cfg)
	p.Acquire(at(0), 10, "a", 1, time.Time{})
	p.Acquire(at(1*ms), 11, "a", 1, time.Time{})
	p.Acquire(at(2*ms), 20, "b", 2, time.Time{})
	expect(t, p.Release(at(3*ms), 1), "grant 10→2")
	// It is session 2's turn for a main place, but 11 has waited longest.
	expect(t, p.Tick(at(time.Second+1*ms)), "grant 11→3+")
}

func TestPoolTimeouts(t *testing.T) {
	cfg := config(4)
	cfg.AcquireTimeout = 10 * time.Second
	p := supervision.NewPool(cfg)
	for i, server := range []string{"b", "a", "b", "c"} {
		p.Acquire(epoch, uint64(i+1), server, 1, time.Time{})
	}
	acquire(p, 0, 10)
	p.Acquire(epoch, 11, "x", 2, at(3*time.Second))
	p.Acquire(epoch, 12, "x", 2, at(time.Hour))
	if when, _ := p.NextWake(); !when.Equal(at(3 * time.Second)) {
		t.Errorf("next wake %v", when)
	}
	acts := p.Tick(at(3 * time.Second))
	expect(t, acts, "refuse 11 POOL_SATURATED")
	err := acts[0].(supervision.Refuse).Err
	if want := "4 of 4 places are taken, most of all by b (2), a (1), c (1)"; !strings.Contains(err.Message, want) {
		t.Errorf("message %q", err.Message)
	}
	if !strings.Contains(err.Message, `"x"`) || !strings.Contains(err.Message, "within 3s") || err.Server != "x" || !err.Retryable || err.Hint == "" {
		t.Errorf("error %+v", err)
	}
	expect(t, p.Tick(at(9*time.Second)), "")
	expect(t, p.Tick(at(10*time.Second)), "refuse 10 POOL_SATURATED, refuse 12 POOL_SATURATED")
	if _, ok := p.NextWake(); ok {
		t.Error("there is nothing to wake for")
	}
	// Too late to ask, with a place free.
	p.Release(at(11*time.Second), 1)
	expect(t, p.Acquire(at(12*time.Second), 13, "x", 1, at(11*time.Second)), "refuse 13 TOOL_EXECUTION_TIMEOUT")
	// A place that falls free after a waiter's time goes to nobody.
	acquire(p, 12*time.Second, 14)
	acquire(p, 12*time.Second, 15)
	expect(t, p.Release(at(23*time.Second), 2), "refuse 15 POOL_SATURATED")
}

func TestPoolMaxWaiters(t *testing.T) {
	cfg := config(1)
	cfg.MaxWaiters, cfg.AcquireTimeout = 2, 10*time.Second
	p := filled(t, cfg)
	expect(t, acquire(p, 0, 10), "")
	expect(t, acquire(p, 0, 10), "") // waits already
	expect(t, acquire(p, 0, 11), "")
	acts := acquire(p, 0, 12)
	expect(t, acts, "refuse 12 POOL_SATURATED")
	if m := acts[0].(supervision.Refuse).Err.Message; !strings.Contains(m, "s1 (1)") || !strings.Contains(m, "2 requests wait") {
		t.Errorf("message %q", m)
	}
	p.Withdraw(epoch, 10)
	expect(t, acquire(p, 0, 13), "")
	expect(t, acquire(p, 10*time.Second, 14), "refuse 11 POOL_SATURATED, refuse 13 POOL_SATURATED")
	if p.Stats().Waiting != 1 {
		t.Error("the newcomer did not get the room of those who left")
	}
}

func TestPoolSqueeze(t *testing.T) {
	cfg := config(6)
	p := filled(t, cfg)
	expect(t, p.Squeeze(epoch), "") // all are busy
	p.Idle(at(1*time.Second), 3, supervision.IdleOptions{KeepAlive: true})
	for i, id := range []uint64{5, 1, 2, 4} {
		p.Idle(at(time.Duration(2+i)*time.Second), id, supervision.IdleOptions{})
	}
	// A quarter of five, those first that were not used for longest; what is kept
	// alive comes last.
	expect(t, p.Squeeze(at(9*time.Second)), "evict 5 memory, evict 1 memory")
	expect(t, p.Squeeze(at(9*time.Second)), "evict 2 memory")
	expect(t, p.Squeeze(at(9*time.Second)), "evict 4 memory")
	expect(t, p.Squeeze(at(9*time.Second)), "evict 3 memory")
	expect(t, p.Squeeze(at(9*time.Second)), "")
}

func TestPoolRoomToWaitIsShared(t *testing.T) {
	cfg := config(1)
	cfg.MaxWaiters = 4
	p := filled(t, cfg)
	ask := func(ticket, session uint64) []supervision.Action {
		return p.Acquire(epoch, ticket, "s"+strconv.FormatUint(ticket, 10), session, time.Time{})
	}
	for ticket := uint64(10); ticket < 14; ticket++ {
		expect(t, ask(ticket, 1), "")
	}
	expect(t, ask(20, 1), "refuse 20 POOL_SATURATED") // its own are too many
	expect(t, ask(21, 2), "refuse 13 POOL_SATURATED")
	expect(t, ask(22, 2), "refuse 12 POOL_SATURATED")
	expect(t, ask(23, 2), "refuse 23 POOL_SATURATED") // both have half
	expect(t, ask(24, 3), "refuse 11 POOL_SATURATED")
	if n := p.Stats().Waiting; n != 4 {
		t.Errorf("%d wait", n)
	}
}

func TestPoolIdleSweep(t *testing.T) {
	cfg := config(5)
	cfg.IdleTimeout, cfg.Min = time.Minute, 0
	p := filled(t, cfg)
	p.Idle(at(1*time.Second), 1, supervision.IdleOptions{})
	p.Idle(at(2*time.Second), 2, supervision.IdleOptions{IdleTimeout: 10 * time.Second})
	p.Idle(at(3*time.Second), 3, supervision.IdleOptions{KeepAlive: true})
	p.Idle(at(4*time.Second), 4, supervision.IdleOptions{KeepAlive: true, IdleTimeout: 2 * time.Minute})
	if when, _ := p.NextWake(); !when.Equal(at(12 * time.Second)) {
		t.Errorf("next wake %v", when)
	}
	expect(t, p.Tick(at(12*time.Second)), "evict 2 idle")
	expect(t, p.Tick(at(61*time.Second-1)), "")
	expect(t, p.Tick(at(61*time.Second)), "evict 1 idle")
	expect(t, p.Tick(at(124*time.Second)), "evict 4 idle")
	expect(t, p.Tick(at(24*time.Hour)), "")
	// Used in time: the clock starts anew.
	p.Idle(at(100*time.Second), 5, supervision.IdleOptions{})
	p.Used(at(150*time.Second), 5)
	expect(t, p.Tick(at(170*time.Second)), "")
	p.Idle(at(170*time.Second), 5, supervision.IdleOptions{})
	expect(t, p.Tick(at(229*time.Second)), "")
	expect(t, p.Tick(at(230*time.Second)), "evict 5 idle")
}

// What is done with a connection that counts as no use lengthens its idle time by nothing.
func TestPoolIdleSince(t *testing.T) {
	cfg := config(5)
	cfg.IdleTimeout, cfg.Min = time.Minute, 0
	p := filled(t, cfg)
	for i := uint64(1); i <= 2; i++ {
		p.Idle(at(time.Second), i, supervision.IdleOptions{Since: at(time.Second)})
		p.Used(at(50*time.Second), i)
	}
	p.Idle(at(51*time.Second), 1, supervision.IdleOptions{Since: at(time.Second)})
	expect(t, p.Tick(at(61*time.Second-1)), "")
	expect(t, p.Tick(at(61*time.Second)), "evict 1 idle")
	expect(t, p.Idle(at(70*time.Second), 2, supervision.IdleOptions{Since: at(time.Second)}), "evict 2 idle") // it is over already
}

func TestPoolSweepKeepsMin(t *testing.T) {
	cfg := config(3)
	cfg.IdleTimeout, cfg.Min = time.Second, 2
	p := filled(t, cfg)
	for i := uint64(1); i <= 3; i++ {
		p.Idle(at(time.Duration(i)*ms), i, supervision.IdleOptions{})
	}
	expect(t, p.Tick(at(time.Minute)), "evict 1 idle")
	if when, ok := p.NextWake(); ok {
		t.Errorf("wakes at %v for connections that have to stay", when)
	}
	expect(t, p.Release(at(time.Minute), 1), "")
	// One more connection lives: an overdue one may go.
	expect(t, acquire(p, 2*time.Minute, 10), "grant 10→4, evict 2 idle")
}

// Other options leave an idle lease where it stands, and do not begin its time anew.
func TestPoolIdleChanged(t *testing.T) {
	p := filled(t, config(4))
	for i := uint64(1); i <= 3; i++ {
		p.Idle(at(time.Duration(i)*ms), i, supervision.IdleOptions{})
	}
	keepAlive := supervision.IdleOptions{KeepAlive: true}
	for _, lease := range []uint64{3, 1, 2, 4, 99} {
		expect(t, p.IdleChanged(at(4*ms), lease, keepAlive), "")
	}
	if s := p.Stats(); s.Idle != 3 || s.Busy != 1 {
		t.Errorf("stats %+v", s)
	}
	expect(t, p.Tick(at(time.Hour)), "")
	expect(t, acquire(p, time.Hour, 10), "evict 1 room")
	expect(t, p.Release(at(time.Hour), 1), "grant 10→5")
	expect(t, p.IdleChanged(at(time.Hour), 3, supervision.IdleOptions{IdleTimeout: 2 * time.Hour}), "")
	expect(t, p.IdleChanged(at(time.Hour), 2, supervision.IdleOptions{IdleTimeout: 2 * time.Hour}), "")
	expect(t, acquire(p, time.Hour, 11), "evict 2 room")
	expect(t, p.Release(at(time.Hour), 2), "grant 11→6")
	expect(t, p.Tick(at(2*time.Hour+2*ms)), "")
	if when, ok := p.NextWake(); !ok || !when.Equal(at(2*time.Hour+3*ms)) {
		t.Errorf("wakes at %v, %v", when, ok)
	}
	expect(t, p.IdleChanged(at(2*time.Hour+2*ms), 3, supervision.IdleOptions{IdleTimeout: time.Second}), "evict 3 idle")
}

func TestPoolReconfigure(t *testing.T) {
	p := filled(t, config(4))
	p.Idle(at(1*ms), 2, supervision.IdleOptions{})
	p.Idle(at(2*ms), 1, supervision.IdleOptions{})
	expect(t, p.Reconfigure(at(3*ms), config(1)), "evict 2 shrink, evict 1 shrink")
	expect(t, p.Idle(at(4*ms), 3, supervision.IdleOptions{}), "evict 3 shrink")
	expect(t, p.Idle(at(4*ms), 4, supervision.IdleOptions{}), "")
	for _, l := range []uint64{1, 2, 3} {
		expect(t, p.Release(at(5*ms), l), "")
	}
	expect(t, acquire(p, 6*ms, 10), "evict 4 room")
	expect(t, p.Reconfigure(at(7*ms), config(2)), "grant 10→5")

	// New timeouts hold for those who wait and are idle already.
	expect(t, p.Release(at(8*ms), 4), "")
	p.Idle(at(9*ms), 5, supervision.IdleOptions{})
	cfg := config(2)
	cfg.IdleTimeout = time.Second
	expect(t, p.Reconfigure(at(10*ms), cfg), "")
	expect(t, p.Tick(at(time.Second+9*ms)), "evict 5 idle")
	expect(t, acquire(p, 2*time.Second, 11), "grant 11→6")
	expect(t, acquire(p, 2*time.Second, 12), "")
	cfg.AcquireTimeout = time.Second
	expect(t, p.Reconfigure(at(2*time.Second), cfg), "")
	expect(t, p.Tick(at(3*time.Second)), "refuse 12 POOL_SATURATED")
}

func TestPoolShrunkBelowTheReserveDoesNotOpenIt(t *testing.T) {
	cfg := config(4)
	cfg.Reserve, cfg.ReserveAfter = 2, time.Second
	p := filled(t, cfg)
	cfg.Size = 2
	expect(t, p.Reconfigure(epoch, cfg), "")
	acquire(p, 0, 10)
	expect(t, p.Tick(at(5*time.Second)), "")
	expect(t, p.Release(at(5*time.Second), 1), "grant 10→5+")
}

func TestPoolDrain(t *testing.T) {
	p := filled(t, config(2))
	p.Idle(epoch, 1, supervision.IdleOptions{KeepAlive: true})
	p.Used(epoch, 1)
	acquire(p, 0, 10)
	p.Idle(epoch, 2, supervision.IdleOptions{}) // evicted for 10
	expect(t, p.Drain(at(1*ms)), "refuse 10 SHUTTING_DOWN")
	expect(t, acquire(p, 2*ms, 11), "refuse 11 SHUTTING_DOWN")
	expect(t, p.Idle(at(2*ms), 1, supervision.IdleOptions{}), "evict 1 drain")
	expect(t, p.Release(at(3*ms), 1), "")
	expect(t, p.Release(at(3*ms), 2), "")
	if s := p.Stats(); s != (supervision.PoolStats{}) {
		t.Errorf("stats %+v", s)
	}
	if _, ok := p.NextWake(); ok {
		t.Error("there is nothing to wake for")
	}
}

func TestPoolIgnoresUnknownLeasesAndNonsense(t *testing.T) {
	p := supervision.NewPool(supervision.PoolConfig{Size: -1, Reserve: -1, Min: -1, MaxWaiters: -1, IdleTimeout: -1, AcquireTimeout: -1, ReserveAfter: -1})
	for _, f := range []func(time.Time, uint64) []supervision.Action{p.Used, p.Release, p.EvictRefused, p.EvictRefusedForContact, p.Withdraw} {
		expect(t, f(epoch, 99), "")
	}
	expect(t, p.Idle(epoch, 99, supervision.IdleOptions{}), "")
	expect(t, acquire(p, 0, 1), "grant 1→1")
	expect(t, p.EvictRefused(epoch, 1), "")
	expect(t, acquire(p, 0, 2), "")
	if _, ok := p.NextWake(); ok {
		t.Error("a waiter without any deadline wakes somebody")
	}
	if c := p.Config(); c.Size != 1 || c.MaxWaiters != 1 || c.Min != 0 {
		t.Errorf("config %+v", c)
	}
}

func TestPoolGrantSaysWhatTheWaiterNeeds(t *testing.T) {
	p := filled(t, config(1))
	p.Acquire(epoch, 10, "x", 42, time.Time{})
	acts := p.Release(at(1500*ms), 1)
	want := supervision.Grant{Ticket: 10, Lease: 2, Server: "x", Client: 42, Waited: 1500 * ms}
	if len(acts) != 1 || acts[0] != supervision.Action(want) {
		t.Errorf("got %+v", acts)
	}
}

// TestContactsOnTheReserveStay: one that came to be there does not end for a call, whose
// main place its end would not free, beside one that ends for it.
func TestContactsOnTheReserveStay(t *testing.T) {
	cfg := config(1)
	cfg.Reserve = 1
	p := supervision.NewPool(cfg)
	p.AcquireForContact(epoch, 1, "x", 1)    // lease 1, on the main place
	p.Acquire(epoch, 2, "y", 2, time.Time{}) // lease 1 is to end for it
	p.EvictRefused(epoch, 1)                 // which a call has by now
	p.Tick(at(cfg.ReserveAfter))             // lease 2, on the reserve
	p.AcquireForContact(at(cfg.ReserveAfter), 3, "z", 3)
	p.Release(at(cfg.ReserveAfter), 1) // lease 3, on the main place
	now := at(cfg.ReserveAfter + time.Second)
	p.Idle(now, 2, supervision.IdleOptions{}) // is to end, as the reserve is for need
	p.Acquire(now, 4, "w", 4, time.Time{})    // lease 3 is to end for it
	p.EvictRefusedForContact(now, 2)          // which a contact has by now
	acts := p.EvictRefusedForContact(now, 3)
	want := []supervision.Action{supervision.Evict{Lease: 3, Server: "z", Reason: supervision.EvictForRoom}}
	if !slices.Equal(acts, want) {
		t.Errorf("%+v, want %+v", acts, want)
	}
}

func BenchmarkPoolUsedIdle(b *testing.B) {
	cfg := config(5000)
	p := supervision.NewPool(cfg)
	for i := uint64(1); i <= 5000; i++ {
		p.Acquire(epoch, i, "s", i%7, time.Time{})
		p.Idle(epoch, i, supervision.IdleOptions{})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		lease := uint64(i%5000) + 1
		p.Used(epoch, lease)
		p.Idle(epoch, lease, supervision.IdleOptions{})
	}
}

// BenchmarkPoolChurn evicts and grants with 5,000 idle leases and 1,000
// waiters.
func BenchmarkPoolChurn(b *testing.B) {
	cfg := config(5000)
	p := supervision.NewPool(cfg)
	ticket := uint64(0)
	next := func() []supervision.Action {
		ticket++
		return p.Acquire(epoch, ticket, "s", ticket%7, time.Time{})
	}
	for range 5000 {
		next()
		p.Idle(epoch, ticket, supervision.IdleOptions{})
	}
	var evicted []uint64
	note := func(acts []supervision.Action) {
		for _, a := range acts {
			switch a := a.(type) {
			case supervision.Evict:
				evicted = append(evicted, a.Lease)
			case supervision.Grant:
				p.Idle(epoch, a.Lease, supervision.IdleOptions{})
			}
		}
	}
	for range 1000 {
		note(next())
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		note(next())
		note(p.Release(epoch, evicted[i]))
	}
}

// A connection that is ending by itself makes the room that a waiter needs;
// nobody else goes for it.
func TestPoolDoesNotEvictBesideOneThatEnds(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	p := supervision.NewPool(supervision.PoolConfig{Size: 2, MaxWaiters: 9})
	var leases []uint64
	for ticket := range uint64(2) {
		for _, a := range p.Acquire(now, ticket+1, "s", 1, time.Time{}) {
			leases = append(leases, a.(supervision.Grant).Lease)
		}
	}
	p.Idle(now, leases[0], supervision.IdleOptions{KeepAlive: true})
	if acts := p.Ending(now, leases[1]); len(acts) != 0 {
		t.Fatalf("Ending made %v happen", acts)
	}
	if acts := p.Acquire(now, 3, "t", 1, time.Time{}); len(acts) != 0 {
		t.Errorf("while a place is about to be free, a waiter made %+v happen", acts)
	}
	acts := p.Release(now, leases[1])
	if len(acts) != 1 {
		t.Fatalf("the release made %+v happen, want a grant", acts)
	}
	if g, ok := acts[0].(supervision.Grant); !ok || g.Ticket != 3 {
		t.Errorf("the release made %+v happen, want the waiter's grant", acts[0])
	}
}

// A ticket for which several clients wait is in the turn of each, and is refused only
// when none of them waits any more.
func TestPoolJoin(t *testing.T) {
	cfg := config(1)
	cfg.MaxWaiters = 4
	ask := func(p *supervision.Pool, ticket, client uint64) []supervision.Action {
		return p.Acquire(epoch, ticket, "s"+strconv.FormatUint(ticket, 10), client, time.Time{})
	}
	p := filled(t, cfg)
	expect(t, p.Join(epoch, 99, 1), "") // nobody waits for it
	for ticket := uint64(10); ticket < 13; ticket++ {
		expect(t, ask(p, ticket, 1), "")
	}
	expect(t, p.Join(epoch, 12, 2), "")
	expect(t, ask(p, 20, 3), "turn away 1 of 12 POOL_SATURATED") // its newest gives way
	expect(t, p.Join(epoch, 20, 4), "refuse 11 POOL_SATURATED")
	expect(t, p.Join(epoch, 10, 3), "turn away 3 of 10 POOL_SATURATED") // there is no room
	if n := p.Stats().Waiting; n != 3 {
		t.Errorf("%d places are waited for", n)
	}
	expect(t, p.Release(epoch, 1), "grant 10→2")
	expect(t, p.Release(epoch, 2), "grant 12→3")
	expect(t, p.Release(epoch, 3), "grant 20→4")
	expect(t, p.Tick(at(time.Hour)), "")

	// Each client waits for its own time, and each call of one somewhat longer at most.
	p = filled(t, cfg)
	expect(t, ask(p, 30, 1), "")
	expect(t, p.Join(at(10*time.Second), 30, 1), "")
	expect(t, p.Join(at(20*time.Second), 30, 2), "")
	expect(t, p.Join(at(29*time.Second), 30, 1), "")
	expect(t, p.Tick(at(30*time.Second)), "turn away 1 of 30 POOL_SATURATED")
	if when, _ := p.NextWake(); when.After(at(34 * time.Second)) {
		t.Errorf("next wake %v", when)
	}
	acts := p.Tick(at(41 * time.Second))
	expect(t, acts, "turn away 1 of 30 POOL_SATURATED")
	if before := acts[0].(supervision.TurnAway).Before; !before.Equal(at(11 * time.Second)) {
		t.Errorf("those go that came until %v", before)
	}
	expect(t, p.Tick(at(50*time.Second)), "turn away 1 of 30 POOL_SATURATED, turn away 2 of 30 POOL_SATURATED")
	expect(t, p.Tick(at(59*time.Second)), "refuse 30 POOL_SATURATED")
	expect(t, p.Join(at(59*time.Second), 30, 1), "")
}
