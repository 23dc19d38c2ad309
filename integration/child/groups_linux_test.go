package child

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/messages"
)

func init() {
	moreFakes["eat"] = func() { eat(1 << 30) }
	moreFakes["eat-below"] = func() { start("eat", nil, nil, os.Environ()) } // which says nothing
	moreFakes["fork"] = func() {
		for range 1000 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), fakeVar+"=deaf")
			if err := cmd.Start(); err != nil {
				fmt.Fprintln(os.Stderr, "no more:", err)
				os.Exit(5)
			}
		}
	}
	moreFakes["hide"] = func() { // a grandchild that neither the marker nor its parents lead to
		start("deaf", nil, &syscall.SysProcAttr{Setsid: true}, []string{"PATH=" + os.Getenv("PATH")})
	}
}

// eat takes so many bytes of memory.
func eat(bytes int) {
	const block, page = 1 << 20, 4096
	var all [][]byte
	for range bytes / block {
		b := make([]byte, block)
		for i := 0; i < len(b); i += page {
			b[i] = 1
		}
		all = append(all, b)
	}
	say(fmt.Sprint(len(all), " MB were there"))
}

const groupMount = "/sys/fs/cgroup"

// delegate hands a control group over to this process until the test is over, as
// systemd does for a unit. "": control groups (version 2) do not bound memory and
// processes on this machine, or this user may make none.
func delegate(t *testing.T) (dir string) {
	t.Helper()
	put := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }
	have, _ := os.ReadFile(filepath.Join(groupMount, "cgroup.controllers"))
	if !strings.Contains(string(have), "memory") || !strings.Contains(string(have), "pids") {
		return ""
	}
	pid := strconv.Itoa(os.Getpid())
	own, err := os.ReadFile("/proc/self/cgroup")
	_, before, ok := strings.Cut(strings.TrimSpace(string(own)), "0::")
	if err != nil || !ok || put(filepath.Join(groupMount, "cgroup.subtree_control"), "+memory +pids") != nil {
		return ""
	}
	dir = filepath.Join(groupMount, "metamcp-test-"+pid)
	if os.Mkdir(dir, 0o755) != nil {
		return ""
	}
	t.Cleanup(func() {
		if err := put(filepath.Join(groupMount, before, "cgroup.procs"), pid); err != nil {
			t.Error(err)
		}
		_ = os.Remove(filepath.Join(dir, "metamcp-host")) // where nobody made it, it is not there
		if err := os.Remove(dir); err != nil {
			t.Error("a group stays:", err)
		}
	})
	for _, err := range []error{unix.Setxattr(dir, "user.delegate", []byte("1"), 0), put(filepath.Join(dir, "cgroup.procs"), pid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestControlGroups tests the limits of whole trees where this machine lets it make
// control groups, and elsewhere that nothing is promised that nobody keeps.
func TestControlGroups(t *testing.T) {
	dir := delegate(t)
	if dir == "" {
		s := spec("echo")
		s.Limits.Processes = 50
		p, err := newLauncher(t, nil).Launch(s, 1, newRecorder())
		if err == nil {
			p.Release()
			t.Fatal("a server runs with a limit that nobody keeps")
		}
		if !strings.Contains(err.Error(), "limits.processes needs a control group") {
			t.Error(err)
		}
		return
	}
	l := newLauncher(t, nil)
	t.Run("nothing happens below the limits", func(t *testing.T) {
		p, r := launch(t, l, "echo", func(s *messages.ServerSpec) { s.Limits = messages.Limits{MemoryMB: 256, Processes: 100} })
		in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.Pid()))
		if err != nil || !strings.Contains(string(in), filepath.Base(dir)+"/metamcp-") {
			t.Errorf("it is in %s: %v", in, err)
		}
		if own, err := os.ReadFile("/proc/self/cgroup"); err != nil || !strings.Contains(string(own), "metamcp-host") {
			t.Errorf("the host is in %s: %v", own, err)
		}
		p.CloseInput()
		if e := r.exit(t); e.Code != 0 || e.OutOfMemory || e.OverLimit || e.Refused != 0 {
			t.Errorf("exit %+v", e)
		}
	})
	for _, mode := range []string{"eat", "eat-below"} {
		t.Run(mode, func(t *testing.T) {
			_, r := launch(t, l, mode, func(s *messages.ServerSpec) { s.Limits.MemoryMB = 128 })
			if e := r.exit(t); e.Signal != "SIGKILL" || !e.OverLimit || !e.OutOfMemory {
				t.Errorf("exit %+v", e)
			}
		})
	}
	t.Run("fork", func(t *testing.T) {
		_, r := launch(t, l, "fork", func(s *messages.ServerSpec) { s.Limits.Processes = 60 })
		if e := r.exit(t); e.Code == 0 || e.Refused == 0 || e.OverLimit {
			t.Errorf("exit %+v", e)
		}
	})
	t.Run("hide", func(t *testing.T) {
		p, r := launch(t, l, "hide", func(s *messages.ServerSpec) { s.Limits.Processes = 100 })
		_, hidden := r.method(t, 0)
		r.exit(t)
		if !p.TreeAlive() {
			t.Error("whoever hides does not count")
		}
		p.Release()
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", hidden))
		if err == nil && !strings.Contains(string(stat), ") Z ") { // nobody may have waited for it yet
			t.Errorf("whoever hides lives on: %s", stat)
		}
	})
	t.Cleanup(func() {
		if left, err := filepath.Glob(filepath.Join(dir, "metamcp-*", "memory.max")); err != nil || len(left) > 1 {
			t.Errorf("groups stay: %v, %v", left, err)
		}
	})
}
