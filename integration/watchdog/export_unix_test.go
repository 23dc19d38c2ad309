//go:build unix

package watchdog

import (
	"os"
	"syscall"
)

// This file must import nothing that the package does not: the tests hold it to what is
// initialised before a watchdog takes over.

// A FullDisk is a journal that nothing can be written to until there is Room.
type FullDisk struct {
	Path  string
	j     *journal
	trees list
	whole *os.File
}

// NewFullDisk begins the journal, in vain.
func NewFullDisk(stateDir, hostID string) (*FullDisk, error) {
	j, err := openJournal(stateDir, hostID)
	if err != nil {
		return nil, err
	}
	if err := j.f.Truncate(0); err != nil {
		return nil, err
	}
	full, err := os.Open(j.path) // nothing can be written through it
	if err != nil {
		return nil, err
	}
	d := &FullDisk{Path: j.path, j: &journal{path: j.path, head: j.head, f: full}, trees: list{}, whole: j.f}
	_ = d.j.write("") // that is the failure
	return d, os.Mkdir(j.path+".new", 0o700)
}

// Room makes the journal one that can be written to.
func (d *FullDisk) Room() error {
	_ = d.j.f.Close()
	d.j.f = d.whole
	return os.Remove(d.Path + ".new")
}

// Add puts a tree on record.
func (d *FullDisk) Add(pid int, start uint64, marker string) error {
	r := record{verb: verbAdd, pid: pid, start: start, marker: marker}
	d.trees.apply(r)
	return d.j.append(r, d.trees)
}

// WatchedBy puts a watchdog on record.
func (d *FullDisk) WatchedBy(pid int, start uint64) error { return d.j.watchedBy(pid, start) }

// Close ends it.
func (d *FullDisk) Close() { d.j.close(true) }

// Control is the pipe to the watchdog. What holds it holds its closing up.
func (h *Host) Control() (syscall.RawConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.control.SyscallConn()
}
