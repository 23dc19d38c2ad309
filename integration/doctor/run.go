package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/metamcp/metamcp/integration/scrub"
)

const (
	// Limit is how long a check may take.
	Limit = 10 * time.Second
	// parallel is how many checks run at a time.
	parallel = 4
)

// Check is one thing to look at.
type Check struct {
	ID      string
	Group   Group
	Subject string
	// Run looks. It should return soon after ctx ends; one that hangs in the
	// file system is left alone.
	Run func(ctx context.Context) []Result
}

// Run makes all checks, some at a time, and returns their results in the order
// of checks, without the secrets. A check that takes longer than limit (0:
// [Limit]) gives one result that says so: its goroutine cannot be ended where
// the file system hangs, so it is abandoned, and ends with the program at the
// latest. When ctx ends, what was not made yet is skipped. Results without ID,
// group or subject get those of their check.
func Run(ctx context.Context, checks []Check, secrets *scrub.Set, limit time.Duration) []Result {
	if limit <= 0 {
		limit = Limit
	}
	outcomes := make([]chan []Result, len(checks))
	slots := make(chan struct{}, parallel)
	for i := range checks {
		outcomes[i] = make(chan []Result, 1)
	}
	go func() { // ends when the last check has begun, each of which is bounded
		for i, c := range checks {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				outcomes[i] <- bounded(ctx, c, limit)
			}()
		}
	}()
	var results []Result
	for i, c := range checks {
		for _, r := range <-outcomes[i] {
			r.complete(c)
			results = append(results, r.Shown(secrets))
		}
	}
	return results
}

func (r *Result) complete(c Check) {
	if r.ID == "" {
		r.ID = c.ID
	}
	if r.Group == "" {
		r.Group = c.Group
	}
	if r.Subject == "" {
		r.Subject = c.Subject
	}
}

// bounded makes one check and returns not much later than limit.
func bounded(parent context.Context, c Check, limit time.Duration) []Result {
	if parent.Err() != nil {
		return []Result{{Status: Skipped, Found: "interrupted"}}
	}
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	done := make(chan []Result, 1)
	go func() { done <- c.Run(ctx) }()
	select {
	case found := <-done:
		return found
	case <-ctx.Done():
	}
	// A check that heeds ctx may still say what it was that took so long. Its time begins
	// when we see the end of ctx, which is late where the machine stands still.
	select {
	case found := <-done:
		return found
	case <-time.After(500 * time.Millisecond):
	}
	if parent.Err() != nil {
		return []Result{{Status: Skipped, Found: "interrupted"}}
	}
	return []Result{{
		Status: Fail, Found: fmt.Sprintf("the check did not end within %s", limit),
		Why: "A file system or a program that hangs holds up metamcp too.",
		Fix: "Look whether the folder is on a network drive that does not answer, and whether the machine is overloaded.",
	}}
}

// Load returns what load returns, or an error if that takes longer than
// [Limit]: a configuration may lie on a file system that hangs, or be a pipe
// that nobody writes to. What hangs is abandoned, as by [Run].
func Load[T any](load func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := load()
		done <- outcome{value, err}
	}()
	late := time.NewTimer(Limit)
	defer late.Stop()
	select {
	case o := <-done:
		return o.value, o.err
	case <-late.C:
		var none T
		return none, fmt.Errorf("it could not be read within %s: the file system hangs, or a pipe has no writer", Limit)
	}
}
