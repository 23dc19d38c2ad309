package testkit_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// The test binary is the process under test, too: what it does as a child is in
// this variable.
const roleVariable = "TESTKIT_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "echo": // sends back what comes in, until it ends
		_, _ = os.Stdout.ReadFrom(os.Stdin)
		os.Exit(7)
	case "parent": // starts a grandchild that nothing but a kill ends, then another line
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), roleVariable+"=sleeper")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("started\n")
		select {}
	case "sleeper":
		<-time.After(5 * time.Minute)
		os.Exit(1)
	}
	os.Exit(testkit.Main(m))
}

func start(t *testing.T, role string) *testkit.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return testkit.StartCommand(t, testkit.Command{Path: self, Env: []string{roleVariable + "=" + role}})
}

func TestLinesAreTakenByIDAndMethod(t *testing.T) {
	p := start(t, "echo")
	l := p.Lines(t)
	for _, line := range []string{
		`not JSON`,
		`{"id":2,"result":{"n":1.0e2}}`,
		`{"id":"1","result":{}}`,
		`{"method":"notifications/progress","params":{}}`,
		`{"id":1,"error":{"code":-1}}`,
	} {
		l.Send([]byte(line))
	}
	if got := string(l.Response(`1`)); got != `{"id":1,"error":{"code":-1}}` {
		t.Errorf("id 1: %s", got)
	}
	if got := string(l.Response(`2`)); got != `{"id":2,"result":{"n":1.0e2}}` {
		t.Errorf("id 2 is not byte for byte what was sent: %s", got)
	}
	if got := string(l.Notification("notifications/progress")); !strings.Contains(got, "params") {
		t.Errorf("notification: %s", got)
	}
	if rest := l.Unread(); len(rest) != 2 || string(rest[0].Raw) != "not JSON" || string(rest[1].ID) != `"1"` {
		t.Errorf("left over: %v", rest)
	}
	p.CloseStdin()
	if code := p.Wait(t, time.Minute); code != 7 {
		t.Errorf("exit status %d, want 7", code)
	}
	if _, err := l.Match(time.Minute, func(testkit.Line) bool { return false }); err == nil {
		t.Error("a line came after the end")
	}
}

func TestMarkedFindsTheWholeTree(t *testing.T) {
	p := start(t, "parent")
	if _, err := p.Lines(t).Match(time.Minute, func(l testkit.Line) bool { return string(l.Raw) == "started" }); err != nil {
		t.Fatal(err)
	}
	// A process is only itself, environment and all, once it has executed.
	testkit.Eventually(t, time.Minute, func() error {
		marked, err := testkit.Marked(p.Mark)
		if err == nil && len(marked) != 2 {
			err = errors.New("not parent and grandchild")
		}
		return err
	})
	below, err := testkit.Descendants(p.PID)
	if err != nil || len(below) != 1 || below[0].PPID != p.PID {
		t.Errorf("descendants %v, error %v", below, err)
	}
	if live := testkit.Live(below); len(live) != 1 {
		t.Errorf("the grandchild does not live: %v", below)
	}
	if other, err := testkit.Marked(testkit.NewMark()); err != nil || len(other) != 0 {
		t.Errorf("a mark that nobody has: %v, error %v", other, err)
	}
	testkit.KillMarked(t, p.Mark)
	testkit.AwaitMarkedGone(t, time.Minute, p.Mark)
	if code := p.Wait(t, time.Minute); code != -1 {
		t.Errorf("exit status %d of a process that was killed", code)
	}
}

func TestNothingOutlivesItsTest(t *testing.T) {
	var mark string
	t.Run("with a stubborn grandchild", func(t *testing.T) {
		p := start(t, "parent")
		mark = p.Mark
		if _, err := p.Lines(t).Match(time.Minute, func(l testkit.Line) bool { return string(l.Raw) == "started" }); err != nil {
			t.Fatal(err)
		}
	})
	if left, err := testkit.Marked(mark); err != nil || len(left) != 0 {
		t.Errorf("left %v, error %v", left, err)
	}
}

// failure is a TB that remembers that it failed and lets the test go on.
type failure struct {
	testing.TB
	failed atomic.Bool
}

func (f *failure) Helper() {}
func (f *failure) Fatalf(string, ...any) {
	f.failed.Store(true)
}

func TestEventually(t *testing.T) {
	n := 0
	testkit.Eventually(t, time.Minute, func() error {
		if n++; n < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if n != 3 {
		t.Errorf("looked %d times, want 3", n)
	}
	f := &failure{TB: t}
	testkit.Eventually(f, 30*time.Millisecond, func() error { return errors.New("never") })
	if !f.failed.Load() {
		t.Error("a condition that never holds did not fail the test")
	}
}

func TestWriteConfigMarksEveryStdioServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".mcp.json")
	entry := map[string]any{"command": "x", "env": map[string]string{"A": "1"}}
	testkit.WriteConfig(t, path, "m", map[string]map[string]any{
		"a": entry, "b": {"command": "y"}, "c": {"url": "http://127.0.0.1:1/mcp"},
	}, map[string]any{"drainTimeoutMs": 1})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(data), testkit.MarkVariable); got != 2 {
		t.Errorf("%d marks, want 2 in %s", got, data)
	}
	for _, want := range []string{`"A": "1"`, `"drainTimeoutMs": 1`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in %s", want, data)
		}
	}
	if len(entry["env"].(map[string]string)) != 1 {
		t.Error("the caller's entry was changed")
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var tail testkit.Tail
	for range 20 {
		_, _ = tail.Write([]byte(strings.Repeat("x", 64<<10)))
	}
	_, _ = tail.Write([]byte("the end"))
	if s := tail.String(); len(s) != 256<<10 || !strings.HasSuffix(s, "the end") {
		t.Errorf("%d bytes kept, ending in %q", len(s), s[len(s)-10:])
	}
	if !tail.Contains("the end") || tail.Contains("beginning") {
		t.Error("Contains does not tell what is kept")
	}
}

// A busy machine, on which each look takes longer than it should, does not use up
// the time of those that are to be gone.
func TestLateLooksCountAsOnesInTime(t *testing.T) {
	looks := 0
	testkit.AwaitGone(t, 300*time.Millisecond, func() ([]testkit.Proc, error) {
		<-time.After(100 * time.Millisecond)
		if looks++; looks > 5 {
			return nil, nil
		}
		return []testkit.Proc{{PID: 1}}, nil
	})
}
