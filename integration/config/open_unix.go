//go:build unix

package config

import "syscall"

// openNonblock makes opening a pipe return without a writer.
const openNonblock = syscall.O_NONBLOCK
