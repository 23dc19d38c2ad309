//go:build unix

package main

import (
	osexec "os/exec"
	"syscall"

	"github.com/metamcp/metamcp/integration/attach"
)

// detach lets a process outlive the terminal that it is started from.
func detach(cmd *osexec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// alive tells whether a process of this number runs.
func alive(pid int) bool { return attach.Lives(pid) }
