package supervision_test

import (
	"math"
	"testing"
	"time"

	"github.com/metamcp/metamcp/supervision"
)

func always(r float64) func() float64 { return func() float64 { return r } }

func TestBackoffDelay(t *testing.T) {
	for _, c := range []struct {
		name    string
		b       supervision.Backoff
		attempt int
		random  func() float64
		want    time.Duration
	}{
		{"none before a failure", supervision.Backoff{}, 0, always(1), 0},
		{"negative", supervision.Backoff{}, -3, always(1), 0},
		{"first, shortest", supervision.Backoff{}, 1, always(0), 125 * ms},
		{"first, longest", supervision.Backoff{}, 1, always(1), 250 * ms},
		{"no randomness", supervision.Backoff{}, 1, nil, 250 * ms},
		{"doubles", supervision.Backoff{}, 4, nil, 2 * time.Second},
		{"capped", supervision.Backoff{}, 8, nil, 30 * time.Second},
		{"capped, shortest", supervision.Backoff{}, 8, always(0), 15 * time.Second},
		{"no overflow", supervision.Backoff{}, math.MaxInt, nil, 30 * time.Second},
		{"full jitter", supervision.Backoff{Jitter: 1}, 3, always(0), 0},
		{"own numbers", supervision.Backoff{Initial: time.Second, Max: 5 * time.Second, Factor: 3, Jitter: 0.1}, 2, always(0.5), 2850 * ms},
		{"nonsense means the default", supervision.Backoff{Factor: math.NaN(), Jitter: 7}, 2, always(0), 250 * ms},
		{"random out of range", supervision.Backoff{}, 1, always(9), 250 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.b.Delay(c.attempt, c.random); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
