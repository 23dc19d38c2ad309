package demoserver

import "syscall"

// ownSession takes a process out of its parent's console process group, the
// nearest thing that Windows has to a session of its own.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
