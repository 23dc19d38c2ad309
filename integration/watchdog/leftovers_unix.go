//go:build unix

package watchdog

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/regular"
)

const (
	// journalLimit bounds what is read of a journal; compaction keeps real
	// ones far below.
	journalLimit = 16 << 20
	// foreignAge is after what time without a change the journal of another
	// PID namespace (a container with the same folder) is taken for
	// abandoned.
	foreignAge = 30 * 24 * time.Hour
	// dogLimit is how long a watchdog that is at work is left to it.
	dogLimit = 4 * time.Second
)

// Ended is a process that outlived its host and was ended.
type Ended struct {
	Host   int // PID of the host that it belonged to
	PID    int
	Name   string // short name of its executable
	Marker string // see proctree.Marker; "" where it had none
}

// EndLeftovers ends, by SIGKILL, the children of hosts that were killed
// together with their watchdogs, and deletes the journals of these hosts. It
// takes up to some seconds where something is left and is called once at the
// start, from a goroutine that nobody waits for. Journals of running hosts are
// not touched; a broken line in a journal is skipped. The error names the
// journals that could not be read or deleted; the others are done all the
// same.
func EndLeftovers(stateDir string) ([]Ended, error) {
	dir := runDir(stateDir)
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, explain("journals of children", err)
	}
	var ended []Ended
	var errs []error
	for _, file := range files {
		if name := file.Name(); !strings.HasPrefix(name, namePrefix) || !strings.HasSuffix(name, nameSuffix) {
			continue
		}
		e, err := endLeftover(dir + "/" + file.Name())
		ended = append(ended, e...)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return ended, errors.Join(errs...)
}

func endLeftover(path string) ([]Ended, error) {
	host, dogs, trees, age, err := readJournal(path)
	if err != nil {
		return nil, err
	}
	if host.verb != verbHost {
		// The host died between making the file and writing its first line,
		// or makes it right now.
		if age < time.Minute {
			return nil, nil
		}
		return nil, os.Remove(path)
	}
	if host.boot != proctree.BootID() {
		return nil, os.Remove(path) // none of its processes outlived the boot
	}
	if host.space != proctree.Namespace() {
		if age < foreignAge {
			return nil, nil
		}
		return nil, os.Remove(path)
	}
	if alive(host) {
		return nil, nil
	}
	for until := time.Now().Add(dogLimit); anyAlive(dogs) && time.Now().Before(until); {
		time.Sleep(50 * time.Millisecond)
	}
	var ended []Ended
	for _, p := range endTrees(trees.roots(), host.marker, host.start, nil) {
		ended = append(ended, Ended{Host: host.pid, PID: p.PID, Name: p.Name, Marker: p.Marker})
	}
	return ended, os.Remove(path)
}

func readJournal(path string) (host record, dogs []record, trees list, age time.Duration, err error) {
	f, err := regular.Open(path, os.O_RDONLY)
	if err != nil {
		return host, nil, nil, 0, explain("journal of children", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return host, nil, nil, 0, explain("journal of children", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, journalLimit))
	if err != nil {
		return host, nil, nil, 0, explain("journal of children", err)
	}
	trees = make(list)
	for line := range strings.Lines(string(text)) {
		r, ok := parseRecord(line)
		switch {
		case !ok:
		case r.verb == verbHost:
			host = r
		case r.verb == verbDog:
			dogs = append(dogs, r)
		default:
			trees.apply(r)
		}
	}
	return host, dogs, trees, time.Since(info.ModTime()), nil
}

func alive(r record) bool {
	start, ok := proctree.StartTime(r.pid)
	return ok && start == r.start
}

func anyAlive(rs []record) bool {
	for _, r := range rs {
		if alive(r) {
			return true
		}
	}
	return false
}
