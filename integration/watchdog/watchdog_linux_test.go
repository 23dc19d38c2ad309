package watchdog_test

import (
	_ "net/http" // to be initialised after the watchdog has taken over
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/watchdog"
)

// TestTakesOverEarly: a process that is started as a watchdog gets there
// before the packages that the rest of the program needs are initialised.
func TestTakesOverEarly(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"metamcp-watchdog"}
	cmd.Env = []string{"METAMCP_WATCHDOG=early 0", "GODEBUG=inittrace=1"}
	control, ours, err := os.Pipe() // closed without a goodbye: nothing to end
	if err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	cmd.ExtraFiles = []*os.File{control}
	out, err := cmd.CombinedOutput()
	_ = control.Close()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("initialised before the watchdog:\n%s", out)
	for _, late := range []string{"testing", "net", "net/http", "mime"} {
		if strings.Contains(string(out), "init "+late+" @") {
			t.Errorf("%s was initialised before the watchdog took over", late)
		}
	}
}

// TestHoldsNothing: the watchdog has the null device three times and two
// pipes, and sits in a session of its own.
func TestHoldsNothing(t *testing.T) {
	h := watchdog.New(watchdog.Options{HostID: "nothing"})
	// A descriptor without the close-on-exec mark, as a careless parent of the
	// host may have left one.
	leaky, err := syscall.Open(filepath.Join(t.TempDir(), "leaky"), syscall.O_CREAT|syscall.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(leaky) }()
	h.Add(1<<30, 1, "nothing.1")
	defer func() {
		h.Remove(1<<30, 1)
		h.Close()
	}()
	dir := filepath.Join("/proc", strconv.Itoa(h.PID()))
	var links []string
	eventually(t, "only null and pipes", func() bool {
		links = nil
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			link, _ := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if strings.HasPrefix(link, "anon_inode:") {
				continue // the runtime's poller
			}
			if link != os.DevNull {
				link, _, _ = strings.Cut(link, ":")
			}
			links = append(links, link)
		}
		return strings.Join(links, " ") == "/dev/null /dev/null /dev/null pipe pipe"
	})
	environ, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(environ), "PATH=") {
		t.Error("the watchdog has inherited the environment")
	}
	status, err := os.ReadFile(filepath.Join(dir, "smaps_rollup"))
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "Private_Dirty") || strings.HasPrefix(line, "Rss") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}
