package local

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C from the worker: the host ends it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup ends the worker, which starts no other process.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
