package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// A host that has started and lost many servers holds no more descriptors than
// one that has not, and reaps whom it has started.
func TestNothingLeaksOverManyServers(t *testing.T) {
	t.Parallel()
	const early, rounds = 2, 10
	ephemeral := testkit.DemoServer(t, "--fork")
	ephemeral["lifecycle"] = "ephemeral"
	entries := servers{"short": ephemeral, "stays": testkit.DemoServer(t)}
	for i := range early + rounds { // one each, since a server that keeps failing is started ever more slowly
		entries[fmt.Sprint("dies", i)] = with(testkit.DemoServer(t), "retry", "never")
		entries[fmt.Sprint("fails", i)] = map[string]any{"command": "metamcp-no-such-program"}
		entries[fmt.Sprint("exits", i)] = testkit.DemoServer(t, "--exit-at-start", "1")
	}
	c := host(t, entries, nil)
	round := func(i int) {
		c.echo("short", "once")
		c.call(fmt.Sprint("dies", i), "crash", `{}`)
		c.call(fmt.Sprint("fails", i), "echo", `{"text":"x"}`)
		c.call(fmt.Sprint("exits", i), "echo", `{"text":"x"}`)
		c.ask("tools/call", callParams("stays", "refuse", `{}`))
	}
	settled := func() bool {
		procs, err := testkit.Descendants(c.p.PID)
		return err == nil && len(procs) == 2 // the watchdog and the server that stays
	}
	for i := range early {
		round(i)
	}
	eventually(t, "the host's processes are not ended and reaped", settled)
	before := descriptors(t, c.p.PID)
	for i := range rounds {
		round(early + i)
	}
	eventually(t, "the host's processes are not ended and reaped", settled)
	eventually(t, fmt.Sprintf("there are more descriptors than before:\n%s", before), func() bool {
		return strings.Count(descriptors(t, c.p.PID), "\n") <= strings.Count(before, "\n")+2
	})
}

// descriptors lists the open descriptors of a process, one a line.
func descriptors(t testing.TB, pid int) string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for _, e := range entries {
		target, _ := os.Readlink(dir + "/" + e.Name()) // it may have been closed
		if strings.Contains(target, "/.metamcp/catalog/") {
			continue // the index store opens late, and has no more files for more servers
		}
		list.WriteString(e.Name() + " " + target + "\n")
	}
	return list.String()
}
