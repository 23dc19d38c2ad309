//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// rootDir is a worker's working directory: it holds no folder busy.
func rootDir() string { return "/" }

func environment() []string { return []string{} }

// sysProcAttr puts a worker into a session of its own, so that signals of a
// terminal do not reach it and its group can be killed.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// killGroup ends the process and whatever it might have started. The process
// is not reaped yet, so that the number is its own.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
