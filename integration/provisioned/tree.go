package provisioned

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/integration/regular"
)

// listName is the file in a server's folder that has a line for each of its
// other files; the tree of the lock file is the hash of it.
const listName = "files.sha256"

const (
	maxFiles = 500_000
	maxList  = 256 << 20 // bytes
)

// What a line of the list is about.
const (
	plainFile = 'f'
	program   = 'x' // a file that may be executed
	link      = 'l' // the hash is that of what it points to, as written
)

// Tree is what is in a server's folder.
type Tree struct {
	Hash  string // "sha256-" and 64 hexadecimal digits
	Files int
	Bytes int64
}

// node is one file of a folder.
type node struct {
	path string // with slashes, relative
	kind byte
	size int64
	hash [sha256.Size]byte
}

// isData says that a file, by its name, is nothing that a runtime loads by
// itself: servers keep such files beside their code, as server-memory does with
// what it remembers.
func isData(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".jsonl", ".log", ".txt", ".md", ".csv", ".db", ".sqlite", ".sqlite3", ".db-wal", ".db-shm", ".sqlite-wal", ".sqlite-shm":
		return true
	}
	return false
}

// Record writes the list of all files of a folder into it and returns what it
// comes to. Links stay links; anything that is neither file, folder nor link is
// an error.
func Record(ctx context.Context, dir string) (Tree, error) {
	nodes, err := scan(ctx, dir)
	if err != nil {
		return Tree{}, err
	}
	text, tree := writeList(nodes)
	if err := os.WriteFile(filepath.Join(dir, listName), text, 0o600); err != nil {
		return Tree{}, err
	}
	return tree, nil
}

func writeList(nodes []node) ([]byte, Tree) {
	var b bytes.Buffer
	tree := Tree{Files: len(nodes)}
	for i := range nodes {
		n := &nodes[i]
		tree.Bytes += n.size
		b.WriteString(hex.EncodeToString(n.hash[:]))
		b.WriteByte(' ')
		b.WriteByte(n.kind)
		b.WriteByte(' ')
		b.WriteString(strconv.Quote(n.path))
		b.WriteByte('\n')
	}
	tree.Hash = hashOf(b.Bytes())
	return b.Bytes(), tree
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + hex.EncodeToString(sum[:])
}

// A ChangedError says that the files of a server are not those that were
// installed.
type ChangedError struct {
	Server string
	Path   string // of the first file that differs
	What   string // what is wrong with it
	More   int    // how many others differ
}

// Error names the file and says what to do.
func (e *ChangedError) Error() string {
	more := ""
	if e.More > 0 {
		more = fmt.Sprintf(", and %d more differ", e.More)
	}
	return fmt.Sprintf("the files of %q are not those that were installed, so it is not started: %s %s%s", e.Server, e.Path, e.What, more)
}

// Verify holds the files of a server to what the lock file says of them. The
// error is a *[ChangedError] where they differ. A server without files here
// passes. It reads every file, which takes some hundred milliseconds for a
// package with many dependencies. What a server itself writes into folders
// called .cache or __pycache__ is not looked at.
func (l *Lock) Verify(ctx context.Context, s *Locked) error {
	return Verify(ctx, s.Name, l.Dir(s), s.Tree)
}

// Verify is [Lock.Verify] for a folder and the hash that it should have; an
// empty dir passes.
func Verify(ctx context.Context, server, dir, tree string) error {
	if dir == "" {
		return nil
	}
	err := verify(ctx, server, dir, tree)
	var changed *ChangedError
	if err == nil || ctx.Err() != nil || errors.As(err, &changed) {
		return err
	}
	return fmt.Errorf("the files of %q could not be looked at, so it is not started: %w", server, err)
}

func verify(ctx context.Context, server, dir, tree string) error {
	changed := func(path, what string) *ChangedError { return &ChangedError{Server: server, Path: path, What: what} }
	listPath := filepath.Join(dir, listName)
	info, err := os.Lstat(listPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return changed(dir, "is gone")
		}
		return changed(listPath, "is gone")
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() > maxList:
		return changed(listPath, "was changed")
	}
	text, _, err := regular.Read(listPath, maxList)
	if err != nil {
		return err
	}
	if hashOf(text) != tree {
		return changed(listPath, "was changed")
	}
	want, err := readList(text)
	if err != nil {
		return changed(listPath, err.Error())
	}
	have, err := scan(ctx, dir)
	if err != nil {
		return err
	}
	var first *ChangedError
	differ := func(path, what string) {
		if first == nil {
			first = changed(filepath.Join(dir, filepath.FromSlash(path)), what)
		} else {
			first.More++
		}
	}
	for len(want) > 0 || len(have) > 0 {
		switch {
		case len(have) == 0 || len(want) > 0 && want[0].path < have[0].path:
			differ(want[0].path, "is gone")
			want = want[1:]
		case len(want) == 0 || have[0].path < want[0].path:
			if have[0].kind != plainFile || !isData(have[0].path) {
				differ(have[0].path, "was added")
			}
			have = have[1:]
		default:
			if want[0].hash != have[0].hash || want[0].kind != have[0].kind {
				differ(want[0].path, "was changed")
			}
			want, have = want[1:], have[1:]
		}
	}
	if first != nil {
		return first
	}
	return nil
}

func readList(text []byte) ([]node, error) {
	broken := errors.New("is no list of files")
	var nodes []node
	for line := range bytes.Lines(text) {
		const hashed = 2 * sha256.Size
		if len(line) < hashed+len(` f ""`) || len(nodes) == maxFiles {
			return nil, broken
		}
		var n node
		if _, err := hex.Decode(n.hash[:], line[:hashed]); err != nil {
			return nil, broken
		}
		n.kind = line[hashed+1]
		var err error
		if n.path, err = strconv.Unquote(string(bytes.TrimSuffix(line[hashed+3:], []byte("\n")))); err != nil {
			return nil, broken
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// written are folders into which programs write while they run.
var written = []string{".cache", "__pycache__"}

// scan reads all files of a folder, sorted by path.
func scan(ctx context.Context, dir string) ([]node, error) {
	var nodes []node
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && path != dir && slices.Contains(written, d.Name()):
			return fs.SkipDir
		case d.IsDir() || rel == listName:
			return nil
		case len(nodes) == maxFiles:
			return fmt.Errorf("%s has more than %d files", dir, maxFiles)
		}
		n := node{path: filepath.ToSlash(rel), kind: link}
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			n.hash = sha256.Sum256([]byte(filepath.ToSlash(target)))
		case d.Type().IsRegular():
			n.kind = plainFile
		default:
			return fmt.Errorf("%s is neither a file nor a folder nor a link", path)
		}
		nodes = append(nodes, n)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.path, b.path) })
	return nodes, hashFiles(ctx, dir, nodes)
}

// hashFiles fills in what is in the files, on some goroutines: most of the time
// goes into opening them.
func hashFiles(ctx context.Context, dir string, nodes []node) error {
	const most = 4
	var next atomic.Int64
	var workers sync.WaitGroup
	errs := make([]error, min(most, runtime.GOMAXPROCS(0)))
	for w := range errs {
		workers.Go(func() {
			buf := bufio.NewReaderSize(nil, 1<<15)
			for {
				i := int(next.Add(1)) - 1
				if i >= len(nodes) {
					return
				}
				if nodes[i].kind == link {
					continue
				}
				if errs[w] = errors.Join(ctx.Err(), nodes[i].read(dir, buf)); errs[w] != nil {
					next.Store(int64(len(nodes)))
					return
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

func (n *node) read(dir string, buf *bufio.Reader) error {
	f, err := regular.Open(filepath.Join(dir, filepath.FromSlash(n.path)), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode()&0o100 != 0 {
		n.kind = program
	}
	h := sha256.New()
	buf.Reset(f)
	if n.size, err = io.Copy(h, buf); err != nil {
		return err
	}
	h.Sum(n.hash[:0])
	return nil
}
