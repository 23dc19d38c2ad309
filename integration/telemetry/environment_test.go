package telemetry_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/telemetry"
)

// lockedText is a log that several goroutines write.
type lockedText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestOddEnvironment starts with variables that the SDK breaks at, or whose
// values it would tell.
func TestOddEnvironment(t *testing.T) {
	const secret = "SECRETVALUE"
	for name, value := range map[string]string{
		"OTEL_BSP_MAX_QUEUE_SIZE": "-1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "9000000000000",
		"OTEL_EXPORTER_OTLP_HEADERS": "a=%zz" + secret, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://u:" + secret + "%zz@h",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
			t.Setenv(name, value)
			var log lockedText
			logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			telemetry.LogSDK(logger)
			opts := newHost().options()
			opts.Log = logger
			tel := telemetry.New(opts)
			if tel == nil || !tel.Exporting() {
				t.Fatal("nothing is exported")
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			_ = tel.Close(ctx) // nobody takes what is left
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log tells:\n%s", log.String())
			}
			if log.String() == "" {
				t.Error("nothing says that the variable is odd")
			}
		})
	}
}
