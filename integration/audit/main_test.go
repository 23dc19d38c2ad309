package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const roleVariable = "METAMCP_AUDIT_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role, os.Getenv("METAMCP_AUDIT_TEST_PATH")))
	}
	goleak.VerifyTestMain(m)
}

// limited is played where a process can have its files limited.
var limited = func(*Log, string) int { return 1 }

// play is the other process of a test.
func play(role, path string) int {
	l, err := Open(Options{Path: path, Name: role, MaxBytes: 40 << 10, MaxFiles: 1000, Queue: 64, retry: 20 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch role {
	case "forever":
		for i := uint64(1); ; i++ {
			l.Append(call(i))
		}
	case "some":
		for i := range uint64(200) {
			l.Append(call(i))
		}
	default:
		return limited(l, path)
	}
	if err := l.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(l.Path())
	return 0
}

func call(i uint64) Entry {
	return Entry{
		Session: 1, Client: Client{"test", "1.0"}, Request: i, Server: "files", Tool: "read",
		Args: json.RawMessage(fmt.Sprintf(`{"pin": "x%d"}`, 1000+i)), Outcome: OutcomeOK, Duration: 1234 * time.Microsecond, ResultBytes: 99,
	}
}

// clock is a clock that the test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func open(t testing.TB, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, l) })
	return l
}

func shut(t testing.TB, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Close(ctx); err != nil {
		t.Error(err)
	}
}

// written makes a closed chain of n calls.
func written(t testing.TB, o Options, n int) {
	t.Helper()
	l := open(t, o)
	for i := range n {
		l.Append(call(uint64(i)))
	}
	shut(t, l)
}

func whole(t testing.TB, path string, noted ...Head) Report {
	t.Helper()
	r, err := Verify(t.Context(), path, noted...)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Whole() {
		t.Fatalf("broken: %+v", r.Breaks)
	}
	return r
}

func records(t testing.TB, path string) []Record {
	t.Helper()
	var all []Record
	for r, err := range Records(path) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// rows are lines with their newlines.
func rows(text []byte) [][]byte {
	return slices.DeleteFunc(bytes.SplitAfter(text, []byte("\n")), func(row []byte) bool { return len(row) == 0 })
}

func place(t testing.TB) string { return filepath.Join(t.TempDir(), "audit.jsonl") }
