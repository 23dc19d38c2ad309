package worker

import (
	"io"
	"os"
)

// pollable is the pipe as it is, and so are its reader and its writer.
func pollable(f *os.File) *os.File { return f }

func fastReader(f *os.File) io.Reader { return f }

func fastWriter(f *os.File) io.Writer { return f }
