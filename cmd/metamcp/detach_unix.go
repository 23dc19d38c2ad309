//go:build unix

package main

import (
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/metamcp/metamcp/integration/attach"
)

// detach lets a process outlive the terminal that it is started from.
func detach(cmd *osexec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// keepNamed has a program inherit the descriptors that its arguments name as files, such
// as --config /dev/fd/9, under the same numbers: all others are closed in it. done is to
// be called once the program was started, or was not.
func keepNamed(cmd *osexec.Cmd) (done func()) {
	const first = 3 // of ExtraFiles
	for _, word := range cmd.Args {
		fd := namedDescriptor(word)
		if fd < first {
			continue
		}
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, first)
		if err != nil {
			continue // it is not open, as who opens the file will say
		}
		for len(cmd.ExtraFiles) <= fd-first {
			cmd.ExtraFiles = append(cmd.ExtraFiles, nil)
		}
		if before := cmd.ExtraFiles[fd-first]; before != nil {
			_ = before.Close() // the same was named before
		}
		cmd.ExtraFiles[fd-first] = os.NewFile(uintptr(own), word)
	}
	return func() {
		for _, f := range cmd.ExtraFiles {
			if f != nil {
				_ = f.Close()
			}
		}
	}
}

// namedDescriptor is the number of the descriptor that an argument, or the value of a
// flag in it, names as a file; -1: it names none.
func namedDescriptor(word string) int {
	if _, value, ok := strings.Cut(word, "="); ok {
		word = value
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if name, ok := strings.CutPrefix(word, dir); ok {
			if fd, err := strconv.Atoi(name); err == nil {
				return fd
			}
		}
	}
	return -1
}

// alive tells whether a process of this number runs.
func alive(pid int) bool { return attach.Lives(pid) }
