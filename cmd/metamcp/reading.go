package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

// sayReading tells a person whose terminal is read what is read there and how it ends: a
// command that waits for input looks like one that hangs. Of other inputs it says nothing.
func sayReading(stderr io.Writer, in io.Reader, what string) {
	if f, ok := in.(*os.File); !ok || !isTerminal(f) {
		return
	}
	end := "Ctrl-D"
	if runtime.GOOS == "windows" {
		end = "Ctrl-Z and Enter"
	}
	fmt.Fprintf(stderr, "metamcp: reading %s from this terminal; %s on a line of its own ends it\n", what, end)
}
