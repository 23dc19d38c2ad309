package limits

import (
	"fmt"
	"os"
	"strconv"
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

// delegatedVariable is set in the unit of the host beside Delegate=, for a systemd that
// does not write on the group that it gave it away.
const delegatedVariable = "METAMCP_DELEGATED"

// handedOver tells whether systemd gave a group, which this process is in, away: it
// writes that on the group, for all to read or for root, since version 251, though not
// in each version for the units of a user. What a unit says counts for the process that
// systemd has started for it, and not for what that starts: the group of a terminal is
// not for us.
func handedOver(dir string) bool {
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		var value [8]byte
		if n, err := unix.Getxattr(dir, name, value[:]); err == nil && string(value[:n]) == "1" {
			return true
		}
	}
	return os.Getenv(delegatedVariable) == "1" && os.Getenv("SYSTEMD_EXEC_PID") == strconv.Itoa(os.Getpid())
}
