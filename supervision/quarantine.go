package supervision

import "time"

// MaxQuarantine bounds how long a server that flaps is left alone.
const MaxQuarantine = time.Hour

// flaps remembers when a server's connections died. One that answers between two
// deaths never fails often enough in a row to open its breaker, and is started
// again and again all the same.
type flaps struct {
	limit  int
	window time.Duration
	deaths []time.Time // within the window
	times  int         // that it was in quarantine in a row
	until  time.Time   // of the last one
}

// Quarantine puts a server whose connections died limit times within window into
// quarantine: its breaker is open for twice its cooldown, the next time for twice as
// long, up to [MaxQuarantine]. A window without ends the series. limit 0: never.
func (b *Breaker) Quarantine(limit int, window time.Duration) {
	b.flaps.limit, b.flaps.window = limit, window
}

// Quarantined reports whether the breaker is open because the server flapped.
func (b *Breaker) Quarantined(now time.Time) bool {
	return b.State(now) == BreakerOpen && now.Before(b.flaps.until)
}

// died returns for how long a quarantine begins with this death; 0: none does.
func (f *flaps) died(now time.Time, cooldown time.Duration) time.Duration {
	if f.limit <= 0 {
		return 0
	}
	first := 0
	for first < len(f.deaths) && now.Sub(f.deaths[first]) > f.window {
		first++
	}
	f.deaths = append(f.deaths[first:], now)
	if len(f.deaths) < f.limit {
		return 0
	}
	f.deaths = nil
	if now.Sub(f.until) > f.window {
		f.times = 0
	}
	f.times++
	d := max(cooldown, time.Millisecond)
	for i := 0; i < f.times && d < MaxQuarantine; i++ {
		d *= 2
	}
	return min(d, MaxQuarantine)
}
