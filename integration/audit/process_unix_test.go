//go:build unix

package audit

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/testkit"
)

func init() { limited = playLimited }

func other(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, "METAMCP_AUDIT_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	return cmd
}

// total is the size of all files of a chain.
func total(path string) (sum int64) {
	files, _ := listFiles(path)
	for _, f := range files {
		if info, err := os.Stat(f.path); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// A host that is killed again and again leaves a whole chain.
func TestKilledTwentyTimes(t *testing.T) {
	path := place(t)
	const kills = 20
	for range kills {
		before := total(path)
		cmd := other(t, "forever", path)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, time.Minute, func() error {
			if now := total(path); now < before+10<<10 {
				return fmt.Errorf("%d bytes, %d before", now, before)
			}
			return nil
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		whole(t, path)
	}
	starts := 0
	for _, r := range records(t, path) {
		if r.Kind == KindStart {
			starts++
		}
	}
	if starts != kills {
		t.Errorf("%d starts, want %d", starts, kills)
	}
}

// Hosts that run at the same time write chains of their own.
func TestTwoProcessesAtOnce(t *testing.T) {
	path := place(t)
	mine := open(t, Options{Path: path})
	var running []*exec.Cmd
	var outs []*bytes.Buffer
	for range 3 {
		cmd, out := other(t, "some", path), &bytes.Buffer{}
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running, outs = append(running, cmd), append(outs, out)
	}
	for i := range uint64(200) {
		mine.Append(call(i))
	}
	for i, cmd := range running {
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(outs[i].String()); got == path {
			t.Errorf("two hosts wrote %s", got)
		}
	}
	shut(t, mine)
	chains, err := Chains(path)
	if err != nil || len(chains) < 2 {
		t.Fatalf("chains %q, %v", chains, err)
	}
	calls := uint64(0)
	for _, chain := range chains {
		calls += whole(t, chain).Lost
		for _, r := range records(t, chain) {
			if r.Kind == KindCall {
				calls++
			}
		}
	}
	if calls != 800 {
		t.Errorf("%d calls are on record, want 800", calls)
	}
	if keys, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"+keySuffix+"*")); len(keys) != 1 {
		t.Errorf("keys %q", keys)
	}
}

// playLimited writes until the file may not grow, fills the queue, and goes on
// when it may.
func playLimited(l *Log, path string) int {
	const limit = 3000
	signal.Ignore(unix.SIGXFSZ)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		return 2
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: old.Max}); err != nil {
		return 3
	}
	for i := range uint64(500) {
		l.Append(call(i))
	}
	fmt.Println("full")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return 4
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > limit {
		return 5
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &old); err != nil {
		return 6
	}
	if err := l.Close(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 7
	}
	return 0
}

// A file that cannot grow costs entries and nothing else, and the log says how
// many.
func TestFullDisk(t *testing.T) {
	path := place(t)
	cmd := other(t, "limited", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if n := total(path); n < 2000 {
			return fmt.Errorf("%d bytes", n)
		}
		return nil
	})
	if r, err := Verify(t.Context(), path); err != nil || !r.Whole() {
		t.Errorf("while full: %+v, %v", r.Breaks, err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	r := whole(t, path)
	calls := uint64(0)
	for _, rec := range records(t, path) {
		if rec.Kind == KindCall {
			calls++
		}
	}
	if r.Lost == 0 || calls+r.Lost != 500 {
		t.Errorf("%d calls on record and %d lost of 500", calls, r.Lost)
	}
	if r.Torn != 0 {
		t.Errorf("%d torn lines are left", r.Torn)
	}
	if info, err := os.Stat(path + keySuffix); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key: %v, %v", info.Mode(), err)
	}
}
