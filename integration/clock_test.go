package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wallOnly are the calls after which a time has lost its monotonic reading, so that
// the distance to another one changes when somebody sets the clock.
var wallOnly = regexp.MustCompile(`\.(UTC|Local|Unix|UnixMilli|UnixMicro|UnixNano)\(\)|\.(Round\(0|Truncate|In|AddDate)\(|\.Round\(0\)`)

// forPeople are the lines where that is right: what is written down or shown.
var forPeople = map[string][]string{
	"supervision/breaker.go":        {"t.Truncate(time.Second)"}, // the clock time in a hint
	"actors/trace_watcher.go":       {"r.Time.UTC()"},
	"integration/control/stream.go": {"Time: time.Now().UTC(), Kind: messages.TraceStart"},
	"integration/control/server.go": {"Started: o.Started.UTC().Round(0)"},
}

// Timers, backoff, quarantine, leases and sessions go by the monotonic clock: a clock
// that jumps ends and starts nothing.
func TestNothingGoesByTheWallClock(t *testing.T) {
	looked := 0
	for _, dir := range []string{"supervision", "supervision/kernel", "actors", "integration/front", "integration/relay", "integration/attach", "integration/child", "integration/limits", "integration/remote", "integration/control"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			looked++
			name := dir + "/" + filepath.Base(file)
			for line := range strings.Lines(string(text)) {
				for _, right := range forPeople[name] {
					line = strings.Replace(line, right, "", 1)
				}
				if wallOnly.MatchString(line) {
					t.Errorf("%s drops the monotonic clock: %s", name, strings.TrimSpace(line))
				}
			}
		}
	}
	if looked < 100 {
		t.Errorf("only %d files were found", looked)
	}
}
