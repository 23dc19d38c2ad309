package local_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index/embed/local"
	"github.com/metamcp/metamcp/integration/testkit"
)

// scratch is a folder for what is made once for all tests.
var scratch string

func TestMain(m *testing.M) {
	if role := os.Getenv("LLAMA_TEST_ROLE"); role != "" {
		fakeWorker(role)
		return
	}
	var err error
	if scratch, err = os.MkdirTemp("", "metamcp-embed-test"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := testkit.Leaks(); err != nil && code == 0 {
		os.Stderr.WriteString(err.Error())
		code = 1
	}
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

func testLog(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func open(t *testing.T, cfg local.Config) *local.Embedder {
	t.Helper()
	e := local.New(cfg)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// eventually polls until ok, or fails after a time that is never needed.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		case <-tick.C:
		}
	}
}
