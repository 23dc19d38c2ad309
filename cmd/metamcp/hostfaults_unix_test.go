//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/limits"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

const faultPatience = 3 * time.Minute

// faultyHost is a host with faults, and clients of it that have none.
type faultyHost struct {
	t      *testing.T
	home   string
	mark   string
	faults faults
	// shellVars are variables that a shell sets, with a blank behind: one that has the
	// number of the process can be set by nobody else.
	shellVars string
}

func newFaultyHost(t *testing.T, servers map[string]map[string]any, settings map[string]any) *faultyHost {
	t.Helper()
	home, err := os.MkdirTemp("", "mmfault") //nolint:usetesting // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	h := &faultyHost{t: t, home: home, mark: testkit.NewMark()}
	testkit.WriteConfig(t, h.config(), h.mark, servers, settings)
	t.Cleanup(func() { testkit.KillMarked(t, h.mark) })
	return h
}

func (h *faultyHost) config() string { return filepath.Join(h.home, "mcp.json") }

// program starts metamcp with the faults.
func (h *faultyHost) program(words ...string) *testkit.Process {
	h.t.Helper()
	own, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	return testkit.StartCommand(h.t, testkit.Command{
		Path: "/bin/sh", Args: append([]string{"-c", h.shellVars + `exec "$0" "$@"`, own}, append(words, "--config", h.config())...),
		Env: []string{"HOME=" + h.home, h.faults.env(h.t)}, Dir: h.home,
	})
}

// shell runs a command of metamcp to its end, without faults.
func (h *faultyHost) shell(words ...string) ([]byte, error) {
	cmd := osexec.Command(testkit.PlainBinary(h.t), append(words, "--config", h.config())...)
	cmd.Env, cmd.Dir = append(os.Environ(), "HOME="+h.home), h.home
	return cmd.Output()
}

// pid is the process that serves as host.
func (h *faultyHost) pid() (int, error) {
	text, err := h.shell("host", "status", "--json")
	if err != nil {
		return 0, err
	}
	var st struct{ PID int }
	return st.PID, json.Unmarshal(text, &st)
}

func (h *faultyHost) serves(by *testkit.Process) {
	h.t.Helper()
	testkit.Eventually(h.t, faultPatience, func() error {
		if pid, err := h.pid(); err != nil || pid != by.PID {
			return fmt.Errorf("the host is %d, %w", pid, err)
		}
		return nil
	})
}

// client attaches to the host.
func (h *faultyHost) client() *testkit.Lines {
	h.t.Helper()
	p := testkit.StartCommand(h.t, testkit.Command{
		Path: testkit.PlainBinary(h.t), Args: []string{"--attach=require", "--config", h.config()}, Env: []string{"HOME=" + h.home}, Dir: h.home,
	})
	l := p.Lines(h.t)
	l.Handshake()
	return l
}

func askFor(l *testkit.Lines, id int, server, tool, args string) {
	l.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":%q,"tool":%q,"args":%s}}}`, id, server, tool, args))
}

// wantText waits for an answer that has a text in it and is no error.
func wantText(t *testing.T, l *testkit.Lines, id int, text string) {
	t.Helper()
	answer := string(l.Response(fmt.Sprint(id)))
	if !strings.Contains(answer, text) || strings.Contains(answer, `"isError":true`) || strings.Contains(answer, `"error":`) {
		t.Errorf("request %d is answered with %.1000s, want %q", id, answer, text)
	}
}

// demoServers are so many servers, d0 and so on.
func demoServers(t *testing.T, n int, flags ...string) map[string]map[string]any {
	servers := map[string]map[string]any{}
	for i := range n {
		servers[fmt.Sprint("d", i)] = testkit.DemoServer(t, flags...)
	}
	return servers
}

// poisonable is how many servers there are whose lists the index warns of: each makes
// it fail once, which is more often than a host bears.
const poisonable = 8

// newPoisonable is a host that a file makes fail.
func newPoisonable(t *testing.T) *faultyHost {
	t.Helper()
	h := newFaultyHost(t, demoServers(t, poisonable, "--odd-tools"), nil)
	h.faults = faults{Poison: filepath.Join(h.home, "poison"), Line: "a server listed tools that cannot be used"}
	return h
}

// echoAll calls servers, from id on.
func echoAll(t *testing.T, l *testkit.Lines, servers, id int, text string) {
	t.Helper()
	for i := range servers {
		askFor(l, id+i, fmt.Sprint("d", i), "echo", fmt.Sprintf(`{"text":%q}`, text))
		wantText(t, l, id+i, text)
	}
}

// poison makes the index of a host fail with each list that it is given, and has
// every server announce a new one.
func (h *faultyHost) poison(l *testkit.Lines) {
	h.t.Helper()
	if err := os.WriteFile(h.faults.Poison, nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
	for i := range poisonable {
		askFor(l, 1000+i, fmt.Sprint("d", i), "add_tool", `{"name":"more"}`)
	}
	for i := range poisonable {
		l.Response(fmt.Sprint(1000 + i))
	}
}

// A host in which an actor fails again and again starts the host that takes over from
// it. Clients see a pause: each call has its answer, also one that is in flight.
func TestDamagedHostPassesOn(t *testing.T) {
	h := newPoisonable(t)
	damaged := h.program("host", "--log-level", "info")
	h.serves(damaged)
	one, two := h.client(), h.client()
	echoAll(t, one, poisonable, 0, "before")
	askFor(one, 100, "d0", "slow", `{"ms":4000}`)
	h.poison(two)
	for i, next := 0, 0; next == 0 || next == damaged.PID; i++ {
		askFor(two, i, "d1", "echo", `{"text":"all the time"}`)
		wantText(t, two, i, "all the time")
		if pid, err := h.pid(); err == nil {
			next = pid
		}
		if i > 1000 {
			t.Fatalf("no other host takes over:\n%s", damaged.Stderr)
		}
	}
	t.Cleanup(func() { _, _ = h.shell("host", "stop", "--now") })
	wantText(t, one, 100, "took")
	if code := damaged.Wait(t, faultPatience); code != exitFailed {
		t.Errorf("the damaged host ended with status %d", code)
	}
	for _, want := range []string{"the runtime gave up", "is damaged and starts another one, which takes over; that one's log is ", "failed again and again"} {
		if !damaged.Stderr.Contains(want) {
			t.Errorf("the log of the damaged host lacks %q", want)
		}
	}
	for i, l := range []*testkit.Lines{one, two} {
		askFor(l, 5000, "d0", "echo", `{"text":"after"}`)
		wantText(t, l, 5000, "after")
		for _, line := range l.Unread() {
			if strings.Contains(string(line.Raw), string(messages.CodeHostAway)) {
				t.Errorf("client %d was told %s", i, line.Raw)
			}
		}
	}
	testkit.Eventually(t, faultPatience, func() error {
		text, err := h.shell("host", "status", "--json")
		var st struct{ Clients []struct{} }
		if err := errors.Join(err, json.Unmarshal(text, &st)); err != nil || len(st.Clients) != 2 {
			return fmt.Errorf("%d clients are attached, %w", len(st.Clients), err)
		}
		return nil
	})
}

// No other host is started where several in a row found themselves damaged, and by one
// that systemd keeps: the status says that it failed.
func TestDamagedHostEnds(t *testing.T) {
	for _, c := range []struct {
		name, shell, says string
		words             []string
	}{
		{"after others", "", "no other one is started, since that did not help before", []string{"--recovered", fmt.Sprint(mostRecoveries)}},
		{"kept by systemd", "SYSTEMD_EXEC_PID=$$ ", "it is started anew by who keeps it", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newPoisonable(t)
			h.shellVars = c.shell
			damaged := h.program(append([]string{"host"}, c.words...)...)
			h.serves(damaged)
			l := h.client()
			echoAll(t, l, poisonable, 0, "before")
			h.poison(l)
			if code := damaged.Wait(t, faultPatience); code != exitFailed || !damaged.Stderr.Contains(c.says) {
				t.Errorf("it ended with status %d", code)
			}
			if pid, err := h.pid(); err == nil {
				t.Errorf("the host %d runs", pid)
			}
		})
	}
}

// Without a host a damaged metamcp says so and ends with an error.
func TestDamagedWithoutHost(t *testing.T) {
	h := newPoisonable(t)
	alone := h.program("--attach=never")
	l := alone.Lines(t)
	l.Handshake()
	echoAll(t, l, poisonable, 0, "before")
	h.poison(l)
	if code := alone.Wait(t, faultPatience); code != exitFailed || !alone.Stderr.Contains("failed again and again") {
		t.Errorf("it ended with status %d", code)
	}
}

// Idle children of a host end when memory is short, before the kernel ends anything;
// what works goes on, and what was ended is back with the next call.
func TestMemoryPressureOfAHost(t *testing.T) {
	const servers = 6
	h := newFaultyHost(t, demoServers(t, servers), nil)
	h.faults.Memory = limits.Memory{Groups: filepath.Join(h.home, "cgroup"), Proc: filepath.Join(h.home, "proc")}
	pressure := filepath.Join(h.faults.Memory.Proc, "pressure", "memory")
	if err := os.MkdirAll(filepath.Dir(pressure), 0o700); err != nil {
		t.Fatal(err)
	}
	press := func(avg string) {
		t.Helper()
		if err := os.WriteFile(pressure+".new", []byte("some avg10="+avg+" avg60=0.00 avg300=0.00 total=1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(pressure+".new", pressure); err != nil {
			t.Fatal(err)
		}
	}
	press("0.00")
	host := h.program("host")
	h.serves(host)
	one, two := h.client(), h.client()
	echoAll(t, two, servers, 0, "before")
	askFor(one, 100, "d0", "slow", `{"ms":600000}`)
	living := func(want int) {
		t.Helper()
		testkit.Eventually(t, faultPatience, func() error {
			if procs, err := testkit.Marked(h.mark); err != nil || len(procs) != want {
				return fmt.Errorf("%d children live, not %d, %w", len(procs), want, err)
			}
			return nil
		})
	}
	living(servers)
	press("35.00")
	living(1) // the one that works
	press("0.00")
	testkit.Eventually(t, faultPatience, func() error {
		if !host.Stderr.Contains("memory is short; idle servers are ended") || !host.Stderr.Contains("waited for memory 35 %") {
			return errors.New("the log does not say why servers were ended")
		}
		return nil
	})
	if host.Stderr.Contains("a server was lost") {
		t.Error("what was ended on purpose is said to be lost")
	}
	echoAll(t, two, servers, 200, "after")
	host.Signal(t, syscall.SIGTERM)
	host.Wait(t, faultPatience)
}
