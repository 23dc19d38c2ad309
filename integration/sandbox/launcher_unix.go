//go:build unix

package sandbox

import (
	"io"
	"os"
	"syscall"

	"github.com/metamcp/metamcp/integration/rawio"
)

// tryWrite writes what the pipe takes without waiting. An error is left for
// the writer to meet.
func tryWrite(f *os.File, data []byte) int {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	if err := conn.Write(func(fd uintptr) bool {
		if wrote, err := rawio.Write(fd, data); err == nil {
			n = wrote
		}
		return true
	}); err != nil {
		return 0
	}
	return n
}

// fastReader reads a pipe of ours; see package rawio.
func fastReader(f *os.File) io.Reader {
	if r, err := rawio.NewReader(f); err == nil {
		return r
	}
	return f
}

// rootDir is a worker's working directory: it holds no folder busy.
func rootDir() string { return "/" }

func environment() []string { return []string{} }

// sysProcAttr puts a worker into a session of its own, so that signals of a
// terminal do not reach it and its group can be killed.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// killGroup ends the process and whatever it might have started. The process
// is not reaped yet, so that the number is its own.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
