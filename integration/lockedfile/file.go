package lockedfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/metamcp/metamcp/integration/atomicfile"
	"github.com/metamcp/metamcp/integration/privatedir"
	"github.com/metamcp/metamcp/integration/regular"
)

// File is a private file. Its methods are safe for any goroutine, and for several
// processes at once.
type File struct {
	// Path is where it is, or a link to it; its lock is beside it. "": there is no
	// state folder, so it is empty and cannot be changed.
	Path string
	// What is what it holds, in the plural, for errors: "the tokens".
	What string
	// Max is the most that it may have, in bytes.
	Max int64
	// Exposed is what to do where others may read or write it, which is an error.
	Exposed string
}

// Bad is the error of a file whose content cannot be used.
func (f *File) Bad(why string) error {
	return fmt.Errorf("%s in %s cannot be used: %s", f.What, f.Path, why)
}

// linkToNothing is what a link is refused with that leads to nothing: taken for a
// file that is not there yet, it would make what is kept look as if it were gone.
const linkToNothing = "it is a link to nothing"

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// Read returns what the file has, and nil where there is none.
func (f *File) Read() ([]byte, error) {
	if f.Path == "" {
		return nil, nil
	}
	text, info, err := regular.Read(f.Path, f.Max)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if isLink(f.Path) {
			return nil, f.Bad(linkToNothing)
		}
		return nil, nil
	case errors.Is(err, regular.ErrNotRegular):
		return nil, f.Bad("it is no regular file; move it away")
	case errors.Is(err, regular.ErrTooLarge):
		return nil, f.Bad("it has more than " + size(f.Max))
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %w", f.What, err)
	case regular.Others(info) != 0:
		return nil, f.Bad(fmt.Sprintf("others on this machine may read it or write to it (mode %o); %s", info.Mode().Perm(), f.Exposed))
	}
	return text, nil
}

// Change replaces what the file has by what change makes of it; nil leaves it as it
// is. Changes wait for each other, so that none is lost. The folder is made.
func (f *File) Change(ctx context.Context, change func(text []byte) ([]byte, error)) (err error) {
	if f.Path == "" {
		return errors.New("there is no state folder, so nothing can be stored; set --state-dir")
	}
	if err := privatedir.Make(filepath.Dir(f.Path)); err != nil {
		return err
	}
	own := *f
	// A link stays a link: what it points to is replaced.
	if target, err := filepath.EvalSymlinks(f.Path); err == nil {
		own.Path = target
	}
	f = &own
	unlock, err := Lock(ctx, f.Path+".lock", Patience)
	if err != nil {
		return fmt.Errorf("%s were not changed: %w", f.What, err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	text, err := f.Read()
	if err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	next, err := change(text)
	switch {
	case err != nil || next == nil:
		return err
	case int64(len(next)) > f.Max:
		return fmt.Errorf("%s were not changed: all together would have more than %s", f.What, size(f.Max))
	}
	return atomicfile.Write(f.Path, next, 0o600)
}

// size is a number of bytes for people.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// ReadTrusted reads a file of the user's that decides what is started. It may be a
// link, but not one to nothing, and not everybody may write to it. The error says
// what is wrong without the path; it is [fs.ErrNotExist] where nothing is there.
func ReadTrusted(path string, most int64) ([]byte, error) {
	text, info, err := regular.Read(path, most)
	const everybodyWrites = 0o002
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if isLink(path) {
			return nil, errors.New(linkToNothing)
		}
		return nil, err
	case errors.Is(err, regular.ErrNotRegular):
		return nil, regular.ErrNotRegular
	case errors.Is(err, regular.ErrTooLarge):
		return nil, errors.New("it is larger than " + size(most))
	case err != nil:
		return nil, err
	case regular.Others(info)&everybodyWrites != 0:
		return nil, errors.New("everybody on this machine may write to it; run chmod 600 on it")
	}
	return text, nil
}
