//go:build unix && !linux

package main

import "golang.org/x/sys/unix"

// How the modes of a terminal are read and set.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)
