package main

import (
	osexec "os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// detach lets a process outlive the console that it is started from.
func detach(cmd *osexec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// keepNamed has nothing to do here, where no path names an open file.
func keepNamed(*osexec.Cmd) (done func()) { return func() {} }

// alive tells whether a process of this number runs.
func alive(pid int) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid)) //nolint:gosec // process ids are small
	if err != nil {
		return false
	}
	defer func() { _ = windows.CloseHandle(h) }() // only looked at
	event, err := windows.WaitForSingleObject(h, 0)
	return err == nil && event == uint32(windows.WAIT_TIMEOUT)
}
