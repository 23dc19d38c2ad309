package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
	"github.com/metamcp/metamcp/integration/testkit"
)

// A worker is confined before it takes a script, has no environment and nothing
// open but its pipes, its poller and its meter.
func TestProcess(t *testing.T) {
	t.Setenv("METAMCP_TEST_SECRET", "hush")
	// Somebody in the host has opened this without a mark to close it.
	var leak [2]int
	if err := syscall.Pipe(leak[:]); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = syscall.Close(leak[0]), syscall.Close(leak[1]) }()
	h := launch(t, nil)
	proc := fmt.Sprintf("/proc/%d/", h.w.PID())
	status, err := os.ReadFile(proc + "status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("status lacks %q:\n%s", want, status)
		}
	}
	tasks, err := os.ReadDir(proc + "task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(proc + "task/" + task.Name() + "/status")
		if err == nil && !strings.Contains(string(status), "Seccomp:\t2") {
			t.Errorf("thread %s has no filter", task.Name())
		}
	}
	if env, err := os.ReadFile(proc + "environ"); err != nil || len(env) != 0 {
		t.Errorf("environment %q %v", env, err)
	}
	if score, err := os.ReadFile(proc + "oom_score_adj"); err != nil || string(score) != "1000\n" {
		t.Errorf("where memory is short it goes %q %v, want 1000: before all others", score, err)
	}
	if dir, err := os.Readlink(proc + "cwd"); err != nil || dir != "/" {
		t.Errorf("folder %q %v", dir, err)
	}
	fds, err := os.ReadDir(proc + "fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(proc + "fd/" + fd.Name())
		if err != nil {
			continue
		}
		std := fd.Name() == "0" || fd.Name() == "1" || fd.Name() == "2"
		if !std && !strings.HasPrefix(to, "anon_inode:") && !strings.HasSuffix(to, "/statm") {
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
	limits, err := os.ReadFile(proc + "limits")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Max file size", "Max core file size"} {
		for line := range strings.Lines(string(limits)) {
			if strings.HasPrefix(line, name) && strings.Fields(strings.TrimPrefix(line, name))[1] != "0" {
				t.Error(line)
			}
		}
	}
}

// switches is how often threads of a process were switched to, all in all.
func switches(t *testing.T, pid int) (sum int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("the worker has no threads: %v", err)
	}
	for _, file := range files {
		status, _ := os.ReadFile(file) // a thread may have ended
		for line := range strings.Lines(string(status)) {
			if _, count, ok := strings.Cut(line, "ctxt_switches:"); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(count))
				sum += n
			}
		}
	}
	return sum
}

// A worker that has rested watches its script no less than a new one: it ends what
// computes without an end, and knows the line.
func TestAWorkerThatHasRestedWatches(t *testing.T) {
	t.Parallel()
	h := launch(t, nil)
	last, since := 0, time.Now()
	testkit.Eventually(t, patience, func() error {
		if now := switches(t, h.w.PID()); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < time.Second {
			return errors.New("the worker has something to do")
		}
		return nil
	})
	if err := h.w.Run(1, &sandbox.Script{Code: "for (;;) {}", Limits: sandbox.Limits{Wall: 300 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	select {
	case o := <-h.finished:
		if o.Failure == nil || o.Failure.Kind != sandbox.FailTimeout || o.Failure.Line != 1 {
			t.Errorf("outcome %+v", o.Failure)
		}
	case <-time.After(patience / 3): // the runtime would look by itself after a minute
		t.Fatal("a script without an end is not ended")
	}
}

// A host that is killed takes its workers along, whatever they do.
func TestHostIsKilled(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{"idle": "", "busy": "for (;;);", "in native code": "const a = []; a.length = 4294967295; a.indexOf(1)"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], hostCommand, code)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var pid int
			if _, err := fmt.Fscan(out, &pid); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			testkit.Eventually(t, patience, func() error {
				data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // nothing to read: it has ended
				if len(data) == 0 || strings.Contains(string(data), ") Z ") {
					return nil
				}
				return fmt.Errorf("the worker still runs: %s", data)
			})
		})
	}
}
