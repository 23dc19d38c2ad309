package proctree

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

// A shell with two children, one of which burns time.
func TestUseOfATree(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 60 & while :; do :; done & wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seen Use
	defer func() {
		for _, pid := range append(take().children[cmd.Process.Pid], cmd.Process.Pid) {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
		_ = cmd.Wait()
	}()
	testkit.Eventually(t, time.Minute, func() error {
		seen = take().Of(cmd.Process.Pid, cmd.Process.Pid)
		if seen.Processes == 3 && seen.CPU >= 50*time.Millisecond && seen.Memory > 100<<10 {
			return nil
		}
		return fmt.Errorf("the tree is %+v", seen)
	})
	if all := take().Of(os.Getpid()); all.Processes < seen.Processes+1 {
		t.Errorf("the test's own tree is %+v", all)
	}
	if none := take().Of(1 << 30); none != (Use{}) {
		t.Errorf("nobody is %+v", none)
	}
}

func TestParseStat(t *testing.T) {
	line := "7 (a) b (c) S 3 7 7 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 1 0 500 1000000 25 18446744073709551615"
	p, ok := parseStat(7, []byte(line))
	want := process{pid: 7, parent: 3, memory: 25 * int64(os.Getpagesize()), cpu: 2 * time.Second}
	if !ok || p != want {
		t.Errorf("%+v, %v, want %+v", p, ok, want)
	}
	for _, bad := range []string{"", "7", "7 (x)", "7 (x) S 3"} {
		if p, ok := parseStat(7, []byte(bad)); ok {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}

func TestSamplesAreShared(t *testing.T) {
	var s Sampler
	if a, b := s.Take(), s.Take(); a == nil || a != b {
		t.Error("two at once are two looks:", fmt.Sprint(a != nil))
	}
	var none *Sample
	if u := none.Of(1); u != (Use{}) {
		t.Errorf("without a sample: %+v", u)
	}
}
