//go:build unix

package main

import (
	"errors"
	osexec "os/exec"
	"syscall"
)

// detach lets a process outlive the terminal that it is started from.
func detach(cmd *osexec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// alive tells whether there is a process of this number, which this user may
// signal.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
