package main

import (
	"os"

	"golang.org/x/term"
)

// readHidden reads one line that the terminal does not show.
func readHidden(in *os.File) ([]byte, error) { return term.ReadPassword(int(in.Fd())) }
