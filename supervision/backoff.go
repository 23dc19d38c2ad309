package supervision

import (
	"math"
	"time"
)

// The default backoff between two starts of a server that keeps dying.
const (
	DefaultBackoffInitial = 250 * time.Millisecond
	DefaultBackoffMax     = 30 * time.Second
	DefaultBackoffFactor  = 2.0
	DefaultBackoffJitter  = 0.5
)

// Backoff is an exponential backoff with a cap and jitter. The zero value
// means the defaults: 250 ms, doubling up to 30 s, half of it at random.
type Backoff struct {
	Initial time.Duration // before the second attempt; ≤ 0: the default
	Max     time.Duration // cap before jitter; ≤ 0: the default
	Factor  float64       // growth per attempt; < 1: the default
	// Jitter is the random share of each delay, in (0,1]: 1 is "full jitter",
	// 0.5 "equal jitter". Anything else means the default.
	Jitter float64
}

// Delay returns how long to wait after the attempt-th failure in a row,
// counted from 1; for 0 and less it is 0. random returns a number in [0,1)
// and is asked once; nil means 1, the longest delay.
//
//	d     = min(Max, Initial · Factor^(attempt−1))
//	delay = d·(1−Jitter) + d·Jitter·random()
//
// With Jitter 0.5 that is "equal jitter" of Marc Brooker, "Exponential Backoff
// And Jitter", AWS Architecture Blog, 2015. His "full jitter" spreads callers
// best, but may return nearly zero and so would start a crashing program
// again at once; here at least half of the delay is always kept.
func (b Backoff) Delay(attempt int, random func() float64) time.Duration {
	if attempt <= 0 {
		return 0
	}
	c := b.withDefaults()
	// The power overflows to +Inf for a large attempt, which Min absorbs.
	d := math.Min(float64(c.Max), float64(c.Initial)*math.Pow(c.Factor, float64(attempt-1)))
	r := 1.0
	if random != nil {
		r = min(max(random(), 0), 1)
	}
	return time.Duration(d*(1-c.Jitter) + d*c.Jitter*r)
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial <= 0 {
		b.Initial = DefaultBackoffInitial
	}
	if b.Max <= 0 {
		b.Max = DefaultBackoffMax
	}
	if !(b.Factor >= 1) || math.IsInf(b.Factor, 1) { // also NaN
		b.Factor = DefaultBackoffFactor
	}
	if !(b.Jitter > 0 && b.Jitter <= 1) {
		b.Jitter = DefaultBackoffJitter
	}
	return b
}
