//go:build unix

package demoserver

import "syscall"

// ownSession takes a process out of its parent's session and process group.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
