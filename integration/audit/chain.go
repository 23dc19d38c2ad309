package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/integration/regular"
)

// maxHosts is how many hosts may write beside one path at the same time.
const maxHosts = 64

// What stands beside a log.
const (
	lockSuffix = ".lock"
	headSuffix = ".head"
	keySuffix  = ".key"
)

var errLocked = errors.New("another host holds it")

// slot returns the path of the n-th host's log: audit.jsonl, audit-2.jsonl, …
func slot(path string, n int) string {
	if n == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + strconv.Itoa(n) + ext
}

// take locks the first chain that no other running host holds.
func take(path string) (chain string, lock *os.File, err error) {
	for n := 1; n <= maxHosts; n++ {
		chain = slot(path, n)
		if err := ours(chain); err != nil {
			return "", nil, err
		}
		lock, err = regular.Open(chain+lockSuffix, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return "", nil, err
		}
		err = tryLock(lock)
		if err == nil {
			return chain, lock, nil
		}
		err = errors.Join(err, lock.Close())
		if !errors.Is(err, errLocked) {
			return "", nil, fmt.Errorf("lock %s: %w", chain+lockSuffix, err)
		}
	}
	return "", nil, fmt.Errorf("%d hosts write audit logs beside %s already; give this one a file of its own with --audit-file", maxHosts, path)
}

// ours fails where something else than a log stands in a chain's file. One that has a
// head is ours, whatever was done to it.
func ours(chain string) error {
	if _, err := os.Lstat(chain + headSuffix); err == nil {
		return nil
	}
	if ok, err := regular.Begins(chain, recordStart); err != nil || ok {
		return err
	}
	return fmt.Errorf("%s holds something else than an audit log, and nothing was written to it; choose another file with --audit-file", chain)
}

// Chains returns the logs of all hosts that have written beside path: each is
// a chain of its own for [Verify] and [Records]. It is empty where nothing was
// written yet.
func Chains(path string) ([]string, error) {
	var found []string
	for n := 1; n <= maxHosts; n++ {
		chain := slot(path, n)
		files, err := listFiles(chain)
		if err != nil {
			return nil, err
		}
		_, err = os.Lstat(chain + headSuffix)
		if len(files) > 0 || err == nil {
			found = append(found, chain)
		}
	}
	return found, nil
}

// numbered is one file of a chain. Rotated files are called PATH.000001 and so
// on; the one that is written has number 0 here.
type numbered struct {
	path   string
	number uint64
}

// listFiles returns the files of a chain, oldest first.
func listFiles(path string) ([]numbered, error) {
	list, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []numbered
	current := false
	for _, entry := range list {
		if entry.Name() == filepath.Base(path) {
			current = true
			continue
		}
		digits, ours := strings.CutPrefix(entry.Name(), filepath.Base(path)+".")
		if n, err := strconv.ParseUint(digits, 10, 64); ours && err == nil && n > 0 && rotated(path, n) == filepath.Join(filepath.Dir(path), entry.Name()) {
			files = append(files, numbered{filepath.Join(filepath.Dir(path), entry.Name()), n})
		}
	}
	slices.SortFunc(files, func(a, b numbered) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	if current {
		files = append(files, numbered{path: path})
	}
	return files, nil
}

func rotated(path string, n uint64) string { return fmt.Sprintf("%s.%06d", filepath.Clean(path), n) }
