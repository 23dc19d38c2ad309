package metamcp

import (
	"context"
	"testing"
	"time"
)

// opened is an engine that is closed at the end of the test.
func opened(t testing.TB, opts Options) *Engine {
	t.Helper()
	e, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return e
}
