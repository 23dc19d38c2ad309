package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// confinedCommand makes the test binary confine itself and try to get out: what
// a script could do that has taken over the engine.
const confinedCommand = "be-confined"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confinedCommand {
		attemptAll(os.Args[2])
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == landlockedCommand {
		attemptFiles()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tried is what attemptAll prints.
type tried struct {
	Status  sandbox.Status
	Results map[string]string // attempt: its error, "" where it succeeded
}

func attemptAll(file string) {
	// A thread from before must be confined, too.
	var wg sync.WaitGroup
	jobs, results := make(chan func() error), make(chan error)
	wg.Go(func() {
		runtime.LockOSThread()
		for f := range jobs {
			results <- f()
		}
	})
	jobs <- func() error { return nil }
	<-results
	parent := os.Getppid()
	out := tried{Status: confine(), Results: make(map[string]string)}
	attempts := map[string]func() error{
		"open a file to read":      func() error { _, err := syscall.Open(file, syscall.O_RDONLY, 0); return err },
		"open a file to write":     func() error { _, err := syscall.Open(file, syscall.O_WRONLY|syscall.O_CREAT, 0o600); return err },
		"openat2":                  func() error { _, err := unix.Openat2(unix.AT_FDCWD, file, &unix.OpenHow{}); return err },
		"stat":                     func() error { var st syscall.Stat_t; return syscall.Stat(file, &st) },
		"remove":                   func() error { return syscall.Unlink(file) },
		"rename":                   func() error { return syscall.Rename(file, file+"x") },
		"mkdir":                    func() error { return syscall.Mkdir(file+"d", 0o700) },
		"chdir":                    func() error { return syscall.Chdir("/tmp") },
		"chmod":                    func() error { return syscall.Chmod(file, 0o777) },
		"symlink":                  func() error { return syscall.Symlink(file, file+"l") },
		"mount":                    func() error { return syscall.Mount("none", "/mnt", "tmpfs", 0, "") },
		"memfd":                    func() error { _, err := unix.MemfdCreate("x", 0); return err },
		"a folder's list":          func() error { _, err := os.ReadDir("/"); return err },
		"the environment in /proc": func() error { _, err := os.ReadFile("/proc/1/environ"); return err },
		"exec":                     func() error { return syscall.Exec("/bin/true", []string{"true"}, nil) },
		"fork and exec":            func() error { return exec.Command("/bin/true").Run() },
		"fork": func() error {
			_, _, e := syscall.RawSyscall(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0)
			return errnoOf(e)
		},
		"unshare":         func() error { return syscall.Unshare(syscall.CLONE_NEWUSER) },
		"ptrace":          func() error { return syscall.PtraceAttach(parent) },
		"kill the host":   func() error { return syscall.Kill(parent, 0) },
		"kill everybody":  func() error { return syscall.Kill(-1, 0) },
		"tgkill the host": func() error { return unix.Tgkill(parent, parent, 0) },
		"a pipe's owner": func() error {
			_, err := unix.FcntlInt(0, unix.F_SETOWN, parent)
			return err
		},
		"a pipe's owner, extended": func() error {
			_, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, 0, unix.F_SETOWN_EX, 0)
			return errnoOf(e)
		},
		"a pipe's signal":   func() error { _, err := unix.FcntlInt(0, unix.F_SETSIG, int(syscall.SIGKILL)); return err },
		"signals of a pipe": func() error { _, err := unix.FcntlInt(0, unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK); return err },
		"a lease":           func() error { _, err := unix.FcntlInt(0, unix.F_SETLEASE, unix.F_UNLCK); return err },
		"a pidfd":           func() error { _, err := unix.PidfdOpen(parent, 0); return err },
		"read the host's memory": func() error {
			buf := make([]byte, 8)
			local := []unix.Iovec{{Base: &buf[0], Len: 8}}
			_, err := unix.ProcessVMReadv(parent, local, []unix.RemoteIovec{{Base: 4096, Len: 8}}, 0)
			return err
		},
		"another's limits": func() error { return unix.Prlimit(parent, unix.RLIMIT_CORE, nil, &unix.Rlimit{}) },
		"a TCP socket":     func() error { _, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0); return err },
		"a UDP socket":     func() error { _, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0); return err },
		"a Unix socket":    func() error { _, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); return err },
		"a netlink socket": func() error { _, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW, 0); return err },
		"a socket pair":    func() error { _, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); return err },
		"net.Dial":         func() error { _, err := net.Dial("tcp", "127.0.0.1:1"); return err },
		"net.Listen":       func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err },
		"io_uring":         func() error { _, _, e := syscall.RawSyscall(unix.SYS_IO_URING_SETUP, 8, 0, 0); return errnoOf(e) },
		"bpf":              func() error { _, _, e := syscall.RawSyscall(unix.SYS_BPF, 0, 0, 0); return errnoOf(e) },
		"perf events":      func() error { _, err := unix.PerfEventOpen(&unix.PerfEventAttr{}, 0, -1, -1, 0); return err },
		"keys":             func() error { _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false); return err },
		"the host's name":  func() error { return unix.Sethostname([]byte("x")) },
		"the clock":        func() error { return unix.Settimeofday(&unix.Timeval{Sec: 1}) },
		"become another":   func() error { return syscall.Setuid(12345) },
		"prctl":            func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) },
		"ioctl":            func() error { _, err := unix.IoctlGetInt(0, unix.TIOCSTI); return err },
	}
	if out.Status.Seccomp != "on" {
		clear(attempts) // they would succeed
	}
	for name, f := range attempts {
		jobs <- f
		out.Results[name+", old thread"] = textOf(<-results)
		out.Results[name] = textOf(f())
	}
	close(jobs)
	wg.Wait()
	// What is left must work: pipes, threads, memory, time.
	flags, err := unix.FcntlInt(1, unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(1, unix.F_SETFL, flags)
	}
	if err != nil {
		out.Results["a pipe's flags"] = err.Error()
	}
	for range 20 {
		wg.Go(func() {
			runtime.LockOSThread() // ends with its thread
			_ = bytes.Repeat([]byte("x"), 1<<20)
		})
	}
	wg.Wait()
	runtime.GC()
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

func errnoOf(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func textOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return "denied"
	}
	return err.Error()
}

// Whoever takes over the engine has a process that can do nothing: no file, no
// network, no other process, not even with the thread that was there before.
func TestConfined(t *testing.T) {
	file := t.TempDir() + "/secret"
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], confinedCommand, file)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &complaints)
	}
	var got tried
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got.Status.Seccomp != "on" {
		t.Logf("this kernel does not confine: %+v", got.Status)
		return
	}
	if !strings.HasPrefix(got.Status.Landlock, "on") || got.Status.Rlimits != "on" {
		t.Logf("not every layer is there: %+v", got.Status)
	}
	if len(got.Results) < 80 {
		t.Errorf("only %d attempts", len(got.Results))
	}
	for name, result := range got.Results {
		if result != "denied" {
			t.Errorf("%s: %s", name, fmt.Sprintf("%q, want denied", result))
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "x" {
		t.Errorf("the file: %q %v", data, err)
	}
}

// landlockedCommand makes the test binary confine itself by Landlock alone.
const landlockedCommand = "be-landlocked"

func attemptFiles() {
	var s sandbox.Status
	if err := restrictFiles(&s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, path := range []string{"/etc/passwd", "/proc/self/environ", "/", "/dev/null", "/tmp"} {
		if _, err := os.Open(path); !errors.Is(err, syscall.EACCES) {
			fmt.Fprintf(os.Stderr, "open %s: %v\n", path, err)
			os.Exit(1)
		}
	}
	if _, err := net.Dial("tcp4", "127.0.0.1:1"); landlocked(4) && !errors.Is(err, syscall.EACCES) {
		fmt.Fprintln(os.Stderr, "connect:", err)
		os.Exit(1)
	}
}

func landlocked(abi int) bool {
	got, err := landlocksys.LandlockGetABIVersion()
	return err == nil && got >= abi
}

// Without seccomp, Landlock alone keeps files and TCP away.
func TestLandlockAlone(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), os.Args[0], landlockedCommand).CombinedOutput()
	if err != nil || (len(out) != 0 && landlocked(1)) {
		t.Errorf("%v: %s", err, out)
	}
}
