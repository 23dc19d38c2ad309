//go:build unix

package regular

import "syscall"

// nonblock makes opening a pipe return without another end.
const nonblock = syscall.O_NONBLOCK
