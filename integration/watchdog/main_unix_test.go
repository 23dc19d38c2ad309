//go:build unix

package watchdog_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/watchdog"
)

// The test binary plays every part: the host, its children, and, because it
// imports the package, the watchdog.
const (
	partVar  = "METAMCP_TEST_PART"
	stateVar = "METAMCP_TEST_STATE"
	hostID   = "METAMCP_TEST_HOST"
	lifetime = 2 * time.Minute
)

func TestMain(m *testing.M) {
	switch os.Getenv(partVar) {
	case "host":
		playHost()
	case "child":
		playChild()
	case "runaway":
		deaf()
	default:
		goleak.VerifyTestMain(m)
	}
}

// cast is what the host says of the play.
type cast struct {
	Host, Watchdog int
	Children       []int // each deaf, with a deaf runaway in a session of its own
	Runaways       []int
	Stopped        int // a child under SIGSTOP
}

func playHost() {
	time.AfterFunc(lifetime, func() { os.Exit(99) })
	h := watchdog.New(watchdog.Options{HostID: os.Getenv(hostID), StateDir: os.Getenv(stateVar)})
	c := cast{Host: os.Getpid()}
	for i := range 3 {
		marker := proctree.Marker(h.HostID(), uint64(i))
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), partVar+"=child", proctree.MarkerVar+"="+marker)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		start, _ := proctree.StartTime(cmd.Process.Pid)
		h.Add(cmd.Process.Pid, start, marker)
		var runaway int
		_, err = fmt.Fscan(bufio.NewReader(out), &runaway)
		check(err)
		c.Children = append(c.Children, cmd.Process.Pid)
		c.Runaways = append(c.Runaways, runaway)
	}
	c.Stopped = c.Children[2]
	check(syscall.Kill(c.Stopped, syscall.SIGSTOP))
	c.Watchdog = h.PID()
	check(json.NewEncoder(os.Stdout).Encode(c))
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// playChild starts a runaway, says who it is, and goes deaf.
func playChild() {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), partVar+"=runaway")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	check(cmd.Start())
	ignore() // before anyone can know of us
	fmt.Println(cmd.Process.Pid)
	deaf()
}

func ignore() { signal.Ignore(syscall.SIGTERM, syscall.SIGHUP) }

func deaf() {
	ignore()
	<-time.After(lifetime)
	os.Exit(99)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(98)
	}
}
