package install

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
)

const (
	maxZipFiles = 50_000
	maxZipPath  = 1024 // bytes
	maxZipDepth = 64
)

// unzip unpacks an archive into a folder that is there. It trusts nothing that
// the archive says: files are regular files and folders below the folder, each
// once, and what comes out is counted while it is written.
func unzip(ctx context.Context, archive, dir string, most int64) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fail(BadBundle, "", "the bundle is no zip archive: %v", err)
	}
	defer func() { _ = z.Close() }() // it was only read
	root, err := os.OpenRoot(dir)
	if err != nil {
		return onDisk("opening "+dir, err)
	}
	defer func() { _ = root.Close() }() // nothing is written through it any more
	if len(z.File) > maxZipFiles {
		return fail(BadBundle, "", "the bundle has %d files, more than %d", len(z.File), maxZipFiles)
	}
	u := unpacking{root: root, left: most, most: most, seen: map[string]bool{}}
	var said uint64
	for _, f := range z.File {
		said += f.UncompressedSize64
		if said > uint64(most) || f.UncompressedSize64 > uint64(most) {
			return u.tooLarge()
		}
	}
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := u.file(f); err != nil {
			return err
		}
	}
	return nil
}

// unpacking is one archive on its way to the disk.
type unpacking struct {
	root       *os.Root
	left, most int64
	seen       map[string]bool // by path, in lower case
}

func (u *unpacking) tooLarge() error {
	return fail(BadBundle, "", "what is in the bundle is larger than %d MiB", u.most>>20)
}

func (u *unpacking) file(f *zip.File) error {
	name := strings.TrimSuffix(f.Name, "/")
	mode := f.Mode()
	if err := checkZipName(name); err != nil {
		return fail(BadBundle, "", "the bundle has a file %q: %v", shorten(f.Name), err)
	}
	// Two names for one file, as file systems that ignore case see it.
	key := strings.ToLower(path.Clean(name))
	if u.seen[key] && !mode.IsDir() {
		return fail(BadBundle, "", "the bundle has the file %q twice", shorten(name))
	}
	u.seen[key] = true
	rel := filepath.FromSlash(path.Clean(name))
	switch {
	case mode.IsDir():
		return u.written(name, u.root.MkdirAll(rel, 0o700))
	case !mode.IsRegular():
		return fail(BadBundle, "", "%q in the bundle is neither a file nor a folder but %s; links could lead anywhere", shorten(name), kindOf(mode))
	}
	if parent := filepath.Dir(rel); parent != "." {
		if err := u.root.MkdirAll(parent, 0o700); err != nil {
			return u.written(name, err)
		}
	}
	perm := fs.FileMode(0o600)
	if mode&0o111 != 0 {
		perm = 0o700
	}
	out, err := u.root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return u.written(name, err)
	}
	in, err := f.Open()
	if err != nil {
		return errors.Join(fail(BadBundle, "", "%q in the bundle cannot be unpacked: %v", shorten(name), err), out.Close())
	}
	read := &readErrors{r: in}
	n, err := io.Copy(out, io.LimitReader(read, u.left+1))
	u.left -= n
	closeErr := errors.Join(out.Close(), in.Close())
	switch {
	case u.left < 0:
		return u.tooLarge()
	case read.err != nil:
		return fail(BadBundle, "", "%q in the bundle cannot be unpacked: %v", shorten(name), read.err)
	case err != nil:
		return u.written(name, err)
	}
	return u.written(name, closeErr)
}

func (u *unpacking) written(name string, err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR) {
		return fail(BadBundle, "", "%q in the bundle is a file and a folder at once", shorten(name))
	}
	return onDisk("unpacking "+shorten(name), err)
}

// checkZipName wants a path below the folder that means the same everywhere.
func checkZipName(name string) error {
	switch {
	case name == "" || len(name) > maxZipPath || strings.Count(name, "/") > maxZipDepth:
		return errors.New("its name is empty, too long or too deep")
	case strings.ContainsAny(name, "\\:") || strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("its name has a backslash, a colon or control characters")
	case strings.HasPrefix(name, "/") || !filepath.IsLocal(filepath.FromSlash(name)):
		return errors.New("its name leads out of the bundle")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return errors.New("its name leads out of the bundle")
		}
	}
	return nil
}

func kindOf(mode fs.FileMode) string {
	if mode&fs.ModeSymlink != 0 {
		return "a link"
	}
	return "a device or the like"
}

func shorten(text string) string {
	const most = 120
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
