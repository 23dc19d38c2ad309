//go:build unix

package limits

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ReadDescriptors counts this process's descriptors. The limit is the one that is
// in force: the Go runtime has raised it to the hard one at the start, and children
// get the former one back.
func ReadDescriptors() Descriptors {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return Descriptors{}
	}
	const most = 1 << 30 // what is unlimited is more than anybody has
	d := Descriptors{Open: sizeOfDescriptors(), Limit: int(min(limit.Cur, most))}
	if d.Open > 0 && d.CheckStart() == nil {
		return d
	}
	var err error
	if d.Open, err = listDescriptors(); err != nil {
		return Descriptors{}
	}
	return d
}

// sizeOfDescriptors has Linux say how many there are, which it does since 6.2 (0:
// elsewhere). A list of them at each start would make a thousand children quadratic.
// What it says is not taken for a reason to refuse one, since other systems that look
// like Linux may mean something else by that size.
func sizeOfDescriptors() int {
	if runtime.GOOS != "linux" {
		return 0
	}
	info, err := os.Stat("/proc/self/fd")
	if err != nil {
		return 0
	}
	return int(info.Size())
}

func listDescriptors() (int, error) {
	dir, err := os.Open("/dev/fd")
	if err != nil {
		return 0, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	return len(names) - 1, err // without that of the list itself
}
