package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/limits"
	"github.com/metamcp/metamcp/integration/testkit"
)

// asProgram makes the test binary the program itself, with the faults that the
// variable describes.
const asProgram = "METAMCP_TEST_AS_PROGRAM"

// faults are what a test does to a program.
type faults struct {
	// Poison is a file; as long as it is there, whoever writes Line to the log
	// panics: an actor, on its own goroutine.
	Poison, Line string
	Memory       limits.Memory
}

func TestMain(m *testing.M) {
	if text := os.Getenv(asProgram); text != "" {
		os.Exit(faultyProgram(text))
	}
	os.Exit(testkit.Main(m))
}

func faultyProgram(text string) int {
	var f faults
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitUsage
	}
	root := newRoot(poisoned{os.Stderr, f}, func(o *metamcp.Options) { o.Memory = f.Memory })
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "metamcp:", err)
		return exitFailed
	}
	return exitOK
}

// env is the environment of such a program.
func (f faults) env(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return asProgram + "=" + string(text)
}

type poisoned struct {
	io.Writer
	f faults
}

func (w poisoned) Write(text []byte) (int, error) {
	if w.f.Line != "" && strings.Contains(string(text), w.f.Line) {
		if _, err := os.Stat(w.f.Poison); err == nil {
			panic("the log is poisoned")
		}
	}
	return w.Writer.Write(text)
}
