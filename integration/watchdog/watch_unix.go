//go:build unix

package watchdog

import (
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/metamcp/metamcp/integration/openfds"
)

// The descriptors of a watchdog; 0 to 2 are the null device.
const (
	controlFD = 3 // records from the host
	lifeFD    = 4 // held open as long as the watchdog lives
)

// ready is the one byte that a watchdog ever says.
const ready = 'r'

// watch is the life of a watchdog: it follows the records until the pipe
// closes. It works with plain blocking reads, so that the process needs no
// poller and next to no memory.
func watch(hostID string, since uint64) {
	openfds.CloseFrom(lifeFD + 1)
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	// From here on nothing but SIGKILL ends us early: the host waits for this.
	_, _ = syscall.Write(lifeFD, []byte{ready})
	trees := make(list)
	buf := make([]byte, 4096)
	rest := ""
	for {
		n, err := syscall.Read(controlFD, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		rest += string(buf[:n])
		for {
			line, after, found := strings.Cut(rest, "\n")
			if !found {
				break
			}
			rest = after
			if r, ok := parseRecord(line); ok && trees.apply(r) {
				return
			}
		}
	}
	// The children's stdin has closed with the host: the first step of the
	// ladder is done.
	time.Sleep(50 * time.Millisecond)
	endTrees(trees.roots(), hostID, since, []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond,
	})
}
