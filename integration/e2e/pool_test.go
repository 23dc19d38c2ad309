package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// sampler looks at the process table again and again, and keeps the largest
// number of process trees that were alive at once.
type sampler struct {
	mu    sync.Mutex
	most  int
	which string
	looks int
	stop  chan struct{}
	ended chan struct{}
	marks map[string]string // mark → name of the server
}

// sample begins to look. Each mark is the mark of one server's processes.
func sample(t *testing.T, marks map[string]string) *sampler {
	t.Helper()
	s := &sampler{marks: marks, stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for {
			select {
			case <-s.stop:
				return
			default:
				s.look()
			}
		}
	}()
	t.Cleanup(func() { s.end() })
	return s
}

// look takes two looks: whoever is in both was alive between them, together
// with all others that are.
func (s *sampler) look() {
	first := markedAmong(s.marks)
	second := markedAmong(s.marks)
	var names []string
	for name, procs := range first {
		if slices.ContainsFunc(procs, func(p testkit.Proc) bool { return slices.Contains(second[name], p) }) {
			names = append(names, name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if len(names) > s.most {
		s.most, s.which = len(names), strings.Join(names, ", ")
	}
}

// end stops looking and returns the largest number of trees and whose they were.
func (s *sampler) end() (int, string) {
	s.mu.Lock()
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.mu.Unlock()
	<-s.ended
	return s.most, s.which
}

const poolOf = 8

// pooled makes servers s0 to s7, each with a mark of its own. Some have a
// grandchild, some are deaf to SIGTERM: their trees end slowly.
func pooled(t *testing.T, more map[string]any) (servers, map[string]string) {
	t.Helper()
	tempers := [][]string{{}, {"--fork"}, {"--ignore-term", "--ignore-eof"}, {"--fork-setsid", "--ignore-term"}}
	entries, marks := servers{}, map[string]string{}
	for i := range poolOf {
		name := fmt.Sprint("s", i)
		m, entry := mark(t, testkit.DemoServer(t, tempers[i%len(tempers)]...))
		for k, v := range more {
			entry[k] = v
		}
		entries[name], marks[m] = entry, name
	}
	return entries, marks
}

func TestNeverMoreThanTwoTreesAreAlive(t *testing.T) {
	t.Parallel()
	t.Run("in turn", func(t *testing.T) {
		t.Parallel()
		entries, marks := pooled(t, nil)
		c := host(t, entries, map[string]any{"pool": map[string]any{"poolSize": 2}})
		s := sample(t, marks)
		for i := range poolOf * 3 / 2 {
			c.echo(fmt.Sprint("s", i%poolOf), fmt.Sprint("call ", i))
		}
		most, which := s.end()
		if most > 2 {
			t.Errorf("%d process trees were alive at once: %s", most, which)
		}
		if most < 2 {
			t.Errorf("the sampler saw %d trees in %d looks", most, s.looks)
		}
		// Everything that was evicted is still found, without a start.
		d := c.discover(`{}`)
		for _, line := range d.Servers {
			if line.Tools == nil || *line.Tools < 10 {
				t.Errorf("%s is not in the catalog any more: %+v", line.Name, line)
			}
		}
		found := map[string]bool{}
		for _, m := range c.discover(`{"query":"echo","limit":100}`).Matches {
			found[m.Server] = found[m.Server] || m.Tool == "echo"
		}
		if len(found) != poolOf {
			t.Errorf("echo is found on %d servers only", len(found))
		}
		if n := len(markedAmong(marks)); n > 2 {
			t.Errorf("looking things up has started servers: %d are alive", n)
		}
	})
	t.Run("all at once", func(t *testing.T) {
		t.Parallel()
		entries, marks := pooled(t, nil)
		c := host(t, entries, map[string]any{"pool": map[string]any{"poolSize": 2, "acquireTimeoutMs": 60_000}})
		s := sample(t, marks)
		var ids []string
		for i := range poolOf * 4 {
			ids = append(ids, c.start(fmt.Sprint("s", i%poolOf), "slow", `{"ms":20}`))
		}
		for _, id := range ids {
			if result := string(c.resultOf(id)); !strings.Contains(result, "took 20 ms") {
				t.Errorf("answer %.500s", result)
			}
		}
		if most, which := s.end(); most > 2 {
			t.Errorf("%d process trees were alive at once: %s", most, which)
		}
	})
	t.Run("discovered", func(t *testing.T) {
		t.Parallel()
		entries, marks := pooled(t, nil)
		c := host(t, entries, map[string]any{"pool": map[string]any{"poolSize": 2}, "discoverTimeoutMs": 60_000})
		s := sample(t, marks)
		eventually(t, "not all servers are known", func() bool {
			found := map[string]bool{}
			for _, m := range c.discover(`{"query":"echo","limit":100}`).Matches {
				found[m.Server] = true
			}
			return len(found) == poolOf
		})
		if most, which := s.end(); most > 2 {
			t.Errorf("%d process trees were alive at once: %s", most, which)
		}
	})
}

// markedAmong returns the live processes of each server that has some. The
// table is as good as it can be read; who is missed is seen by the next look.
func markedAmong(marks map[string]string) map[string][]testkit.Proc {
	by, err := testkit.MarkedBy(slices.Collect(maps.Keys(marks))...)
	if err != nil {
		return nil
	}
	named := map[string][]testkit.Proc{}
	for m, procs := range by {
		for _, p := range procs {
			p.State = 0 // running or asleep, it is the same process
			named[marks[m]] = append(named[marks[m]], p)
		}
	}
	return named
}

// With all places taken by calls in flight, a further server waits, and is
// told so when it takes too long.
func TestPoolThatIsFullSaysSo(t *testing.T) {
	t.Parallel()
	entries := servers{"a": testkit.DemoServer(t), "b": testkit.DemoServer(t)}
	c := host(t, entries, map[string]any{"pool": map[string]any{"poolSize": 1, "acquireTimeoutMs": 300}})
	slow := c.start("a", "slow", `{"ms":600000}`)
	c.prompt("a")
	r := c.refuse("b", "echo", `{"text":"x"}`, "POOL_SATURATED")
	if !r.Retryable || r.Hint == "" {
		t.Errorf("no advice in %+v", r)
	}
	c.prompt("a")
	c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + slow + `}}`))
	eventually(t, "the place does not come free", func() bool {
		return strings.Contains(string(c.call("b", "echo", `{"text":"my turn"}`)), "my turn")
	})
}

func TestEphemeralServersEndAfterTheirCall(t *testing.T) {
	t.Parallel()
	m, entry := mark(t, testkit.DemoServer(t, "--fork"))
	entry["lifecycle"] = "ephemeral"
	c := host(t, servers{"x": entry}, nil)
	pids := map[string]bool{}
	for range 3 {
		pids[textOf(t, c.call("x", "whoami", `{}`))] = true
		testkit.AwaitMarkedGone(t, patience, m)
	}
	if len(pids) != 3 {
		t.Errorf("three calls had %d processes", len(pids))
	}
	eventually(t, "a process that has ended is not reaped", func() bool {
		procs, err := testkit.Descendants(c.p.PID)
		return err == nil && !slices.ContainsFunc(procs, testkit.Proc.Zombie)
	})
}

// A keep-alive server survives the idle timeout that ends the others, and is
// evicted only where nothing else can be.
func TestKeepAliveServersStay(t *testing.T) {
	t.Parallel()
	kept, keep := mark(t, testkit.DemoServer(t))
	keep["lifecycle"] = map[string]any{"mode": "keep-alive"}
	plain, other := mark(t, testkit.DemoServer(t))
	third, last := mark(t, testkit.DemoServer(t))
	c := host(t, servers{"keep": keep, "plain": other, "third": last}, map[string]any{"pool": map[string]any{"poolSize": 2, "idleTimeoutMs": 600_000}})
	c.echo("keep", "first")
	first := alive(t, kept)
	c.echo("plain", "second")
	// It is so a moment after its answer, and until then the other is all that could go.
	eventually(t, "the second server is not idle", func() bool {
		for _, s := range c.discover(`{}`).Servers {
			if s.Name == "plain" {
				return s.State == "IDLE"
			}
		}
		return false
	})
	c.echo("third", "third")
	eventually(t, "none was evicted", func() bool { return len(alive(t, plain)) == 0 || len(alive(t, kept)) == 0 })
	if now := alive(t, kept); len(now) != 1 || len(first) != 1 || now[0].PID != first[0].PID {
		t.Errorf("the keep-alive server, used least recently, was evicted: %v, then %v", first, now)
	}
	if len(alive(t, third)) != 1 {
		t.Error("the third server does not live")
	}
}

func TestIdleServersAreSwept(t *testing.T) {
	t.Parallel()
	kept, keep := mark(t, testkit.DemoServer(t))
	keep["lifecycle"] = "keep-alive"
	plain, other := mark(t, testkit.DemoServer(t, "--ignore-term"))
	c := host(t, servers{"keep": keep, "plain": other}, map[string]any{"pool": map[string]any{"idleTimeoutMs": 300}})
	c.echo("keep", "one")
	c.echo("plain", "two")
	testkit.AwaitMarkedGone(t, patience, plain)
	if len(alive(t, kept)) != 1 {
		t.Error("the keep-alive server was swept")
	}
	c.echo("plain", "anew")
}

// Sixteen first calls at once start one process, also where the server refuses
// what comes before its handshake is over.
func TestFirstCallsAtOnceStartOneProcess(t *testing.T) {
	t.Parallel()
	pids := tempFile(t, "pids")
	c := host(t, servers{"x": testkit.DemoServer(t, "--strict", "--era", "legacy", "--start-delay", "200ms", "--pid-file", pids)}, nil)
	var ids []string
	for i := range 16 {
		ids = append(ids, c.start("x", "echo", fmt.Sprintf(`{"text":"t%d"}`, i)))
	}
	for i, id := range ids {
		if got := textOf(t, c.resultOf(id)); got != fmt.Sprint("t", i) {
			t.Errorf("call %d is answered with %s", i, got)
		}
	}
	if n := strings.Count(readFile(t, pids), "server"); n != 1 {
		t.Errorf("%d processes were started", n)
	}
}

// A busy server may have several processes, up to maxInstances.
func TestSeveralInstances(t *testing.T) {
	t.Parallel()
	m, entry := mark(t, testkit.DemoServer(t))
	entry["maxInstances"] = 3
	c := host(t, servers{"x": entry}, nil)
	var ids []string
	for range 9 {
		ids = append(ids, c.start("x", "slow", `{"ms":600000}`))
	}
	eventually(t, "there are not three instances", func() bool { return len(alive(t, m)) == 3 })
	c.prompt("x")
	for _, id := range ids {
		c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`))
	}
	if n := len(alive(t, m)); n > 3 {
		t.Errorf("%d instances", n)
	}
	c.prompt("x")
}
