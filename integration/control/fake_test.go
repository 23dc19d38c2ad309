package control_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

// fakeHost is a fake: what it says is what a test put into it.
type fakeHost struct {
	mu      sync.Mutex
	status  messages.HostStatus
	fail    error
	logDir  string
	viewers int
	records chan messages.TraceRecord // what every viewer gets a share of
	looks   int                       // how often Status was asked for
	hang    bool                      // Status waits for its context
	asked   chan struct{}             // gets one where Status hangs
}

func newFakeHost() *fakeHost {
	return &fakeHost{records: make(chan messages.TraceRecord, 16), asked: make(chan struct{}, 64)}
}

func (h *fakeHost) set(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
}

func (h *fakeHost) Status(ctx context.Context, actors bool) (*messages.HostStatus, error) {
	h.mu.Lock()
	h.looks++
	st, fail, hang := h.status, h.fail, h.hang
	h.mu.Unlock()
	if hang {
		h.asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if actors {
		st.Actors = []messages.ActorStatus{{ID: "metamcp/pool"}}
	}
	return &st, fail
}

func (h *fakeHost) Draining(context.Context) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status.Draining, h.fail
}

func (h *fakeHost) Trace(ctx context.Context) (<-chan messages.TraceRecord, error) {
	h.set(func() { h.viewers++ })
	context.AfterFunc(ctx, func() { h.set(func() { h.viewers-- }) })
	return h.records, nil
}

func (h *fakeHost) watched() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.viewers
}

func (h *fakeHost) LogFiles(server string) ([]string, error) {
	if server == "unknown" {
		return nil, &messages.Error{Code: messages.CodeServerNotFound, Message: "no server unknown", Hint: "look at the list"}
	}
	return control.LogFiles(h.logDir, server)
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// start serves a host and ends it with the test.
func start(t *testing.T, o control.Options) *control.Server {
	t.Helper()
	if o.StateDir == "" {
		o.StateDir = t.TempDir()
	}
	s, err := control.Serve(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, s) })
	return s
}

func end(t *testing.T, s *control.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func dial(t *testing.T, s *control.Server) *control.Client {
	t.Helper()
	c, err := control.Dial(s.Info())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	hosts, err := control.Hosts(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, h := range hosts {
		list = append(list, h.Name)
	}
	return list
}

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// files lists what is announced.
func files(t *testing.T, stateDir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(stateDir, "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		if e.Name() != ".lock" {
			list = append(list, e.Name())
		}
	}
	return list
}
