package metamcp

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/metamcp/metamcp/integration/config"
)

var errNoRoom = errors.New("no room")

// fullOutput takes nothing.
type fullOutput struct{}

func (fullOutput) Write([]byte) (int, error) { return 0, errNoRoom }

// Close may be called again, and by two at once, whatever it has to write; all say what
// could not be written.
func TestCloseMoreThanOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, trace string // trace is a setting; "FILE": some file
		out         io.Writer
		want        error
	}{
		{"no trace", "", nil, nil},
		{"for people", "stderr", io.Discard, nil},
		{"a file", "FILE", nil, nil},
		{"nobody takes it", "stderr", fullOutput{}, errNoRoom},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.trace == "FILE" {
				c.trace = filepath.Join(dir, "trace.jsonl")
			}
			file := filepath.Join(dir, "mcp.json")
			if err := os.WriteFile(file, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			e, err := Open(t.Context(), Options{
				Sources: config.Sources{Files: []string{file}, Home: dir, Cwd: dir, Environ: []string{"METAMCP_TRACE=" + c.trace}},
				Log:     slog.New(slog.DiscardHandler), TraceOutput: c.out, NoWatchdog: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			if (e.trace != nil) != (c.trace != "") {
				t.Fatal("it is not traced as the test wants it")
			}
			closes := make(chan error)
			for range 2 {
				go func() { closes <- e.Close(t.Context()) }()
			}
			first := <-closes
			if !errors.Is(first, c.want) {
				t.Errorf("it says %v, want %v", first, c.want)
			}
			for _, again := range []error{<-closes, e.Close(t.Context())} {
				if !errors.Is(again, c.want) || c.want != nil && again.Error() != first.Error() {
					t.Errorf("another one says %v, the first %v", again, first)
				}
			}
		})
	}
}
