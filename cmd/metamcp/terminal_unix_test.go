//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/creack/pty"
)

// What hangs on a terminal, such as attaching to a host and what is made harmless, does
// not hang on other devices.
func TestDevicesAreNoTerminals(t *testing.T) {
	person, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer person.Close()
	defer tty.Close()
	if !isTerminal(tty) {
		t.Error("a terminal is none")
	}
	for _, device := range []string{os.DevNull, "/dev/zero", "/dev/urandom"} {
		f, err := os.Open(device)
		if err != nil {
			t.Fatal(err)
		}
		if isTerminal(f) {
			t.Errorf("%s is a terminal", device)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
