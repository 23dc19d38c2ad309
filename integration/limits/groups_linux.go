package limits

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Into has a process start in the group; started is called after that.
func (c *Group) Into(attr *os.ProcAttr) (started func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	dir, err := os.Open(c.path)
	if err != nil {
		return nil, fmt.Errorf("the control group of the server: %w", err)
	}
	if attr.Sys == nil {
		attr.Sys = &syscall.SysProcAttr{}
	}
	attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(dir.Fd())
	return func() { _ = dir.Close() }, nil // it was only named
}

// handedOver tells what systemd writes on a group that it gives away, for all to read
// or for root.
func handedOver(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var value [8]byte
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return false
}
