//go:build unix

package proctree

import (
	"errors"
	"syscall"
)

// Kill sends SIGKILL to p unless its PID belongs to another process by now.
// It reports whether a process was there to be killed.
func Kill(p Process) bool { return p.signal(syscall.SIGKILL) }

// Stop sends SIGSTOP as Kill sends SIGKILL: whoever is stopped starts nobody
// while others are killed.
func Stop(p Process) { p.signal(syscall.SIGSTOP) }

func (p *Process) signal(sig syscall.Signal) bool {
	if p.PID <= 1 {
		return false
	}
	if start, ok := StartTime(p.PID); !ok || start != p.Start {
		return false
	}
	return syscall.Kill(p.PID, sig) == nil
}

// SignalGroup sends a signal to a whole process group. It refuses group
// numbers that would mean something else to the kernel.
func SignalGroup(group int, sig syscall.Signal) error {
	if group <= 1 {
		return syscall.ESRCH
	}
	return syscall.Kill(-group, sig)
}

// GroupAlive reports whether the group has members, zombies included.
func GroupAlive(group int) bool {
	err := SignalGroup(group, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
