package front

import (
	"io"
	"os"
)

// directWriter does not exist on Windows, where a pipe has no write that does
// not wait: all lines go through the goroutine of the Output.
type directWriter struct{}

func (*directWriter) write([]byte) (int, error) { return 0, nil }

func (*directWriter) writev([][]byte) (int, error) { return 0, nil }

func openDirect(file *os.File) (*os.File, func(), *directWriter) {
	return file, func() {}, nil
}

func nonblocking(*os.File) (*os.File, func(), bool) { return nil, nil, false }

// directReader has nothing to offer here.
func directReader(file *os.File) io.Reader { return file }
