package metamcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/messages"
)

// What waits until the audit log is open has the bounds of the log's own queue, in
// entries and in bytes, and the log says how many found no room.
func TestAuditQueueUntilTheLogIsOpen(t *testing.T) {
	const more = 3
	name := strings.Repeat("s", 1<<20)
	large := json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)
	for _, c := range []struct {
		name string
		args json.RawMessage
		fit  int
	}{{"entries", nil, audit.DefaultQueue}, {"bytes", large, 7}} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			a := &auditor{e: &Engine{log: slog.New(slog.DiscardHandler)}, opts: audit.Options{Path: path}, opening: make(chan struct{})}
			for range c.fit + more {
				a.append(audit.Entry{Server: name, Args: c.args})
			}
			if len(a.waiting) != c.fit || a.bytes != c.fit*len(c.args) || len(a.waiting[0].Server) == len(name) {
				t.Errorf("%d entries wait, with %d bytes and names of %d", len(a.waiting), a.bytes, len(a.waiting[0].Server))
			}
			a.open()
			if err := a.close(t.Context()); err != nil {
				t.Fatal(err)
			}
			kinds, lost := map[audit.Kind]int{}, uint64(0)
			for r, err := range audit.Records(path) {
				if err != nil {
					t.Fatal(err)
				}
				kinds[r.Kind]++
				lost += r.Lost
			}
			if kinds[audit.KindCall] != c.fit || kinds[audit.KindGap] != 1 || lost != more {
				t.Errorf("the log has %v, and %d entries are missing; want %d calls, and %d", kinds, lost, c.fit, more)
			}
		})
	}
}

// A call after Close is refused, and opens no log that nobody closes.
func TestNothingIsRecordedAfterClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	r := openReloading(t, fmt.Sprintf(`{"mcpServers":{"s":{"command":"none"}},"metamcp":{"audit":{"file":%q}}}`, path))
	if err := r.e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.e.Execute(t.Context(), "s", "tool", nil, ExecuteOptions{}); !isCode(err, messages.CodeShuttingDown) {
		t.Errorf("the call says %v", err)
	}
	a := r.e.audit
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.opening != nil || len(a.waiting) > 0 {
		t.Error("it is recorded")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a log of it")
	}
}

// A log that is opened when nobody waits for it any more gets what waits, and is closed.
func TestAuditLogThatIsOpenedTooLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a := &auditor{e: &Engine{log: slog.New(slog.DiscardHandler)}, opts: audit.Options{Path: path}, opening: make(chan struct{})}
	a.append(audit.Entry{Server: "s"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("close says %v", err)
	}
	a.append(audit.Entry{Server: "late"})
	a.open()
	kinds := map[audit.Kind]int{}
	for r, err := range audit.Records(path) {
		if err != nil {
			t.Fatal(err)
		}
		kinds[r.Kind]++
	}
	if kinds[audit.KindCall] != 1 || kinds[audit.KindStop] != 1 {
		t.Errorf("the log has %v, want one call and its end", kinds)
	}
}
