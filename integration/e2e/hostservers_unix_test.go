//go:build unix

package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// whole is status of a host that is there.
func (p *place) whole() *messages.HostStatus {
	p.t.Helper()
	st, err := p.status()
	if err != nil {
		p.t.Fatal(err)
	}
	return st
}

// awaitTrees waits until the servers have so many processes and places.
func (p *place) awaitTrees(n int) {
	p.t.Helper()
	testkit.Eventually(p.t, patience, func() error {
		if procs := alive(p.t, p.mark); len(procs) != n {
			return fmt.Errorf("%d processes live, not %d: %v", len(procs), n, procs)
		}
		if used := p.whole().Pool.Used; used != n {
			return fmt.Errorf("%d places are used, not %d", used, n)
		}
		return nil
	})
}

// awaitLog waits until a host's log says all of these.
func awaitLog(t testing.TB, h *testkit.Process, words ...string) {
	t.Helper()
	testkit.Eventually(t, patience, func() error {
		for line := range strings.Lines(h.Stderr.String()) {
			missing := false
			for _, w := range words {
				missing = missing || !strings.Contains(line, w)
			}
			if !missing {
				return nil
			}
		}
		return fmt.Errorf("no line of the log has %q", words)
	})
}

// notes are those that an instance of a server has been given.
func (c *client) notes(server string) (notes []string) {
	c.t.Helper()
	var r struct {
		StructuredContent struct{ Notes []string }
	}
	if err := json.Unmarshal(c.call(server, "notes_list", "{}"), &r); err != nil {
		c.t.Fatal(err)
	}
	return r.StructuredContent.Notes
}

// Each client of a host has its own instance of a server with the scope session,
// which ends with the client however that ends; a shared server has one.
func TestInstanceOfEachClient(t *testing.T) {
	own := with(testkit.DemoServer(t), "scope", "session")
	p := newPlace(t, servers{"own": own, "common": testkit.DemoServer(t)}, nil)
	h := p.host()
	clients := []*client{p.client(), p.client(), p.client()}
	for i, c := range clients {
		for _, server := range []string{"own", "common"} {
			c.call(server, "notes_add", fmt.Sprintf(`{"text":"of %d"}`, i))
		}
	}
	for i, c := range clients {
		if got, want := fmt.Sprint(c.notes("own")), fmt.Sprintf("[of %d]", i); got != want {
			t.Errorf("client %d sees the notes %s in an instance of its own, want %s", i, got, want)
		}
		if got := fmt.Sprint(c.notes("common")); got != "[of 0 of 1 of 2]" {
			t.Errorf("client %d sees the notes %s in the shared instance", i, got)
		}
	}
	p.awaitTrees(4)
	sessions := map[uint64]int{}
	for _, s := range p.whole().Servers {
		for _, in := range s.Instances {
			sessions[in.Session]++
		}
	}
	if len(sessions) != 4 || sessions[0] != 1 {
		t.Errorf("instances are for the sessions %v", sessions)
	}

	clients[0].p.CloseStdin()
	clients[0].p.Wait(t, patience)
	p.awaitTrees(3)
	clients[1].start("own", "slow", `{"ms":600000}`) // it works when its client dies
	clients[1].p.Signal(t, syscall.SIGKILL)
	p.awaitTrees(2)
	if got := fmt.Sprint(clients[2].notes("own")); got != "[of 2]" {
		t.Errorf("the client that is left sees the notes %s", got)
	}
	h.Signal(t, syscall.SIGTERM)
	h.Wait(t, patience)
	testkit.AwaitMarkedGone(t, patience, p.mark)
}

// A call of a client that is killed is cancelled at the server, which goes on for
// the others.
func TestClientKilledInACall(t *testing.T) {
	dir := t.TempDir()
	calls, cancels := filepath.Join(dir, "calls"), filepath.Join(dir, "cancels")
	p := newPlace(t, servers{"d0": testkit.DemoServer(t, "--calls-file", calls, "--cancels-file", cancels)}, nil)
	p.host()
	gone, kept := p.client(), p.client()
	kept.echoes("d0", "before")
	pid := records(t, calls)[0].PID
	for range 5 {
		gone.start("d0", "slow", `{"ms":600000}`)
	}
	eventually(t, "the calls do not begin", func() bool { return len(records(t, calls)) >= 6 })
	gone.p.Signal(t, syscall.SIGKILL)
	eventually(t, "the calls are not cancelled", func() bool { return len(records(t, cancels)) == 5 })
	kept.echoes("d0", "after")
	all := records(t, calls)
	if last := all[len(all)-1]; last.PID != pid {
		t.Errorf("the server was started anew: %d, then %d", pid, last.PID)
	}
	p.awaitClients(1)
}

// A server that dies again and again between its answers is set aside, for all
// clients. The log and mcp_discover say so; it comes back by itself.
func TestQuarantineOfAHost(t *testing.T) {
	t.Parallel()
	const aside = 20 * time.Second
	p := newPlace(t, demos(t, 2), map[string]any{"pool": map[string]any{"flapRestarts": 3, "cooldownMs": aside.Milliseconds() / 2}})
	h := p.host()
	clients := []*client{p.client(), p.client()}
	for i := range 3 {
		c := clients[i%2]
		c.echoes("d0", fmt.Sprint("alive ", i))
		c.refuse("d0", "crash", "{}", string(messages.CodeToolExecution))
	}
	awaitLog(t, h, "a server was lost", "server=d0", "ended unexpectedly", "code 1")
	awaitLog(t, h, "a server is set aside, in quarantine", "server=d0", "for=20s", "3 times within")
	began := time.Now()
	for _, c := range clients {
		r := c.refuse("d0", "echo", `{"text":"x"}`, string(messages.CodeCircuitOpen))
		if !strings.Contains(r.Message, "in quarantine") || !strings.Contains(r.Hint, "comes back by itself") {
			t.Errorf("the call is refused with %s", r)
		}
		told := false
		for _, note := range c.discover(`{"query":"echo"}`).Notes {
			told = told || strings.HasPrefix(note, "Do not call d0 ") && strings.Contains(note, "in quarantine")
		}
		if !told {
			t.Error("mcp_discover does not tell of the quarantine")
		}
		c.echoes("d1", "the other server")
	}
	if late := time.Since(began); late > aside {
		t.Fatalf("the machine is too slow for this test: %v", late)
	}
	awaitLog(t, h, "a server is back from quarantine", "server=d0")
	for i, c := range clients {
		c.echoes("d0", fmt.Sprint("back ", i))
	}
}

// A host that stands still for longer than its children have to answer a ping takes
// none of them for dead afterwards: their answers wait in the pipes.
func TestHostStandsStillWhileChildrenArePinged(t *testing.T) {
	t.Parallel()
	const still = 20 * time.Second
	calls := tempFile(t, "calls")
	entries := servers{"busy": testkit.DemoServer(t, "--calls-file", calls)}
	for name, entry := range demos(t, 8) {
		entries[name] = with(with(entry, "lifecycle", "keep-alive"), "healthIntervalMs", 1)
	}
	p := newPlace(t, entries, nil)
	h := p.host()
	c := p.client()
	for name := range entries {
		c.echoes(name, "before")
	}
	before := alive(t, p.mark)
	var slow []string
	for range 8 { // they are over, and so is their time, when the host goes on
		slow = append(slow, c.request("tools/call", `{"name":"mcp_call","arguments":{"server":"busy","tool":"slow","args":{"ms":3000},"timeoutMs":15000}}`))
	}
	eventually(t, "the calls do not begin", func() bool { return len(records(t, calls)) > len(slow) })
	h.Signal(t, syscall.SIGSTOP)
	<-time.After(still) // what is tested is that time passes
	h.Signal(t, syscall.SIGCONT)
	for _, id := range slow {
		if result := c.resultOf(id); bytes.Contains(result, []byte(`"isError":true`)) {
			t.Errorf("a call that was answered while the host stood still ended with %s", result)
		}
	}
	for name := range entries {
		c.echoes(name, "after")
	}
	if now := alive(t, p.mark); fmt.Sprint(pids(now)) != fmt.Sprint(pids(before)) {
		t.Errorf("the children were %v and are %v", before, now)
	}
	if strings.Contains(h.Stderr.String(), "a server was lost") {
		t.Error("the log says that a server was lost")
	}
}

func pids(procs []testkit.Proc) map[int]bool {
	all := map[int]bool{}
	for _, p := range procs {
		all[p.PID] = true
	}
	return all
}

// A child that stands still is replaced when it does not answer its ping, and does
// not come back beside its successor when it goes on.
func TestChildStandsStill(t *testing.T) {
	t.Parallel()
	p := newPlace(t, servers{"d0": with(with(testkit.DemoServer(t), "lifecycle", "keep-alive"), "healthIntervalMs", 100)}, nil)
	h := p.host()
	c := p.client()
	c.echoes("d0", "before")
	old := alive(t, p.mark)[0].PID
	if err := syscall.Kill(old, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitLog(t, h, "a server was lost", "server=d0", "stopped answering")
	if err := syscall.Kill(old, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Fatal(err)
	}
	c.echoes("d0", "after")
	p.awaitTrees(1)
	if now := alive(t, p.mark)[0].PID; now == old {
		t.Error("the child that stood still serves on")
	}
}
