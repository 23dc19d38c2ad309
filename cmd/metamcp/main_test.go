package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// A value that a flag does not take is answered with what it takes, and not in the words
// of Go, whichever command it is.
func TestFlagsSayWhatTheyTake(t *testing.T) {
	var visit func(cmd *cobra.Command)
	said := map[string]bool{}
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"x", "99999999999999999999", ""} {
				root := newRoot(io.Discard)
				target, _, err := root.Find(path)
				if err != nil || target.DisableFlagParsing {
					return
				}
				if target.ParseFlags([]string{"--" + f.Name + "=" + value}) == nil {
					continue
				}
				root.SetArgs(append(slices.Clone(path), "--"+f.Name+"="+value))
				err = root.ExecuteContext(t.Context())
				if !errors.As(err, new(usageError)) || strings.Contains(err.Error(), "strconv.") || strings.Contains(err.Error(), "time: ") || strings.HasSuffix(err.Error(), "flag: ") {
					t.Errorf("metamcp %s --%s=%s: %v", strings.Join(path, " "), f.Name, value, err)
				}
				said[f.Value.Type()] = true
			}
		})
	}
	visit(newRoot(io.Discard))
	for _, kind := range []string{"int", "bool", "duration"} {
		if !said[kind] {
			t.Errorf("no flag of type %s was tried", kind)
		}
	}
	root := newRoot(io.Discard)
	root.SetArgs([]string{"logs", "demo", "--lines", "x"})
	const want = `invalid argument "x" for "-n, --lines" flag: use a whole number; see metamcp logs --help`
	if err := root.ExecuteContext(t.Context()); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
