//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// readHidden reads one line that the terminal does not show, also where that ends with
// Ctrl-D. Of an empty one, which term.ReadPassword would pass over, the error is io.EOF.
func readHidden(in *os.File) ([]byte, error) {
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	now, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	now.Lflag &^= unix.ECHO
	now.Lflag |= unix.ICANON | unix.ISIG
	now.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(fd, setTermios, now); err != nil {
		return nil, err
	}
	text, err := readLine(in)
	return text, errors.Join(err, term.Restore(fd, before))
}

// readLine reads no more than the line: what is typed ahead is for the shell.
func readLine(in io.Reader) ([]byte, error) {
	var text []byte
	for one := make([]byte, 1); ; {
		n, err := in.Read(one)
		switch {
		case n > 0 && one[0] == '\n':
			return bytes.TrimSuffix(text, []byte("\r")), nil
		case n > 0:
			text = append(text, one[0])
		}
		if errors.Is(err, io.EOF) && len(text) > 0 {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
