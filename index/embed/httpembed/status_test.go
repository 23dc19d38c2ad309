package httpembed

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	tests := []struct {
		name    string
		headers string // "Name: value; Name: value"
		want    time.Duration
	}{
		{"none", "", 0},
		{"seconds", "Retry-After: 20", 20 * time.Second},
		{"part of a second", "Retry-After: 1.5", 1500 * time.Millisecond},
		{"milliseconds first", "Retry-After: 20; Retry-After-Ms: 300", 300 * time.Millisecond},
		{"a date", "Retry-After: Wed, 04 Mar 2026 05:06:37 GMT", 30 * time.Second},
		{"a date in the past", "Retry-After: Wed, 04 Mar 2020 05:06:37 GMT", 0},
		{"nonsense", "Retry-After: soon", 0},
		{"negative", "Retry-After: -5", 0},
		{"not a number", "Retry-After: NaN", 0},
		{"endless", "Retry-After: 1e300", longestPause},
		{"a far date", "Retry-After: Wed, 04 Mar 2099 05:06:37 GMT", longestPause},
		{"a duration", "X-Ratelimit-Reset-Requests: 6m0s", 6 * time.Minute},
		{"the exhausted one", "X-Ratelimit-Reset-Requests: 6m0s; X-Ratelimit-Remaining-Requests: 9; X-Ratelimit-Reset-Tokens: 12ms; X-Ratelimit-Remaining-Tokens: 0", 12 * time.Millisecond},
		{"seconds to the reset", "X-Ratelimit-Reset: 12", 12 * time.Second},
		{"a Unix time", "X-Ratelimit-Reset: 1772600777", 10 * time.Second},
		{"a Unix time in milliseconds", "X-Ratelimit-Reset: 1772600768500", 1500 * time.Millisecond},
		{"a past Unix time", "X-Ratelimit-Reset: 1000000001", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			for line := range strings.SplitSeq(tt.headers, "; ") {
				if name, value, ok := strings.Cut(line, ": "); ok {
					h.Set(name, value)
				}
			}
			if got := retryAfter(h, now); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
