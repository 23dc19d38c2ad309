package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
)

// ErrTooLarge is what a file is refused with that has more than the caller takes.
var ErrTooLarge = errors.New("it is too large")

// Read reads a whole regular file of at most so many bytes, without ever waiting.
// Links are followed. The info is of what was read. Errors are *fs.PathError.
func Read(path string, most int64) (text []byte, info fs.FileInfo, err error) {
	f, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	tooLarge := &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	if info.Size() > most {
		return nil, nil, tooLarge
	}
	// Some keep what they read for as long as they live, so it has no room to spare.
	text = make([]byte, info.Size()+1)
	n, err := io.ReadFull(f, text)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return text[:n], info, nil
	}
	if err != nil {
		return nil, nil, err
	}
	rest, err := io.ReadAll(io.LimitReader(f, most+1-int64(n))) // it has grown, or does not tell its size
	if text = slices.Concat(text, rest); err == nil && int64(len(text)) > most {
		err = tooLarge
	}
	if err != nil {
		return nil, nil, err
	}
	return text, info, nil
}
