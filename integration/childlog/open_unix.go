//go:build unix

package childlog

import "syscall"

// openNonblock makes opening a pipe return without a reader.
const openNonblock = syscall.O_NONBLOCK
