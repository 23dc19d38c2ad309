//go:build unix

package local

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps signals of the terminal from the worker: the host ends it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
