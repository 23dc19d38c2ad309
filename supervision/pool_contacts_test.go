package supervision_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/metamcp/metamcp/supervision"
)

func contact(p *supervision.Pool, after time.Duration, ticket uint64) []supervision.Action {
	return p.AcquireForContact(at(after), ticket, fmt.Sprint("s", ticket), 1)
}

// lent returns a pool all of whose places are for contacts alone.
func lent(t *testing.T, cfg supervision.PoolConfig) *supervision.Pool {
	t.Helper()
	p := supervision.NewPool(cfg)
	for i := uint64(1); i <= uint64(cfg.Size); i++ {
		expect(t, contact(p, 0, i), fmt.Sprintf("grant %d→%d", i, i))
	}
	return p
}

func TestPoolEndsContactsForCalls(t *testing.T) {
	p := lent(t, config(3))
	expect(t, contact(p, 1*ms, 10), "") // not for another one
	expect(t, p.Wanted(at(2*ms), 1), "")
	expect(t, acquire(p, 3*ms, 11), "evict 2 room")
	expect(t, acquire(p, 4*ms, 12), "evict 3 room")
	expect(t, acquire(p, 5*ms, 13), "") // a call has the third place
	expect(t, p.Wanted(at(6*ms), 3), "")
	expect(t, p.EvictRefused(at(6*ms), 3), "")
	expect(t, p.Release(at(7*ms), 2), "grant 11→4")
	expect(t, p.Release(at(8*ms), 1), "grant 12→5")
	expect(t, p.Release(at(8*ms), 3), "grant 13→6")
	if s := p.Stats(); s != (supervision.PoolStats{Live: 3, Busy: 3, Waiting: 1}) {
		t.Errorf("stats %+v", s)
	}
	expect(t, p.Release(at(9*ms), 6), "grant 10→7") // behind all calls
}

func TestPoolEndsIdleOnesBeforeContacts(t *testing.T) {
	p := lent(t, config(2))
	p.Idle(at(1*ms), 2, supervision.IdleOptions{KeepAlive: true})
	expect(t, acquire(p, 2*ms, 10), "evict 2 room")
	expect(t, p.Release(at(3*ms), 2), "grant 10→3")
	p.Idle(at(4*ms), 1, supervision.IdleOptions{})
	expect(t, p.UsedForContact(at(5*ms), 1), "") // to list its tools anew
	expect(t, acquire(p, 6*ms, 11), "evict 1 room")
}

// TestPoolKeepsPlacesFromContacts: a part of those that are idle stays as it is.
func TestPoolKeepsPlacesFromContacts(t *testing.T) {
	for _, tc := range []struct{ size, emptied int }{{1, 1}, {2, 1}, {3, 2}, {4, 3}, {8, 6}, {20, 15}} {
		p := filled(t, config(tc.size))
		for i := range tc.size {
			p.Idle(at(1*ms), uint64(i)+1, supervision.IdleOptions{})
		}
		for i := range tc.size {
			ticket, want := uint64(100+i), ""
			if i < tc.emptied {
				want = fmt.Sprintf("evict %d room", i+1)
			}
			expect(t, contact(p, 2*ms, ticket), want)
		}
		for i := range tc.emptied {
			expect(t, p.Release(at(3*ms), uint64(i)+1), fmt.Sprintf("grant %d→%d", 100+i, tc.size+i+1))
		}
		if s := p.Stats(); s.Idle != tc.size-tc.emptied || s.Evicting != 0 || s.Waiting != tc.size-tc.emptied {
			t.Errorf("%d places: stats %+v", tc.size, s)
		}
	}
}

// TestPoolEndsAContactThatIsStartedAgain, after the others: it has begun anew.
func TestPoolEndsAContactThatIsStartedAgain(t *testing.T) {
	p := lent(t, config(2))
	expect(t, p.Ending(at(1*ms), 1), "")
	expect(t, acquire(p, 2*ms, 10), "")
	expect(t, p.EvictRefusedForContact(at(3*ms), 1), "evict 2 room")
	expect(t, acquire(p, 4*ms, 11), "evict 1 room")
	expect(t, p.Release(at(5*ms), 1), "grant 10→3")
	expect(t, p.Release(at(5*ms), 2), "grant 11→4")
}

func TestPoolHasNoReserveForContacts(t *testing.T) {
	cfg := config(1)
	cfg.Reserve = 1
	p := filled(t, cfg)
	expect(t, contact(p, 0, 10), "")
	expect(t, p.Tick(at(cfg.ReserveAfter)), "")
	expect(t, p.Join(at(cfg.ReserveAfter), 10, 2), "") // from now on it is a call's
	expect(t, p.Tick(at(2*cfg.ReserveAfter)), "grant 10→2+")
}

func TestPoolTurnsContactsAwayForCalls(t *testing.T) {
	cfg := config(1)
	cfg.MaxWaiters = 1
	p := filled(t, cfg)
	expect(t, contact(p, 0, 10), "")
	expect(t, contact(p, 0, 11), "refuse 11 POOL_SATURATED")
	expect(t, acquire(p, 0, 12), "refuse 10 POOL_SATURATED")
	expect(t, contact(p, 0, 13), "refuse 13 POOL_SATURATED")
}
