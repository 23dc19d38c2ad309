//go:build unix

package watchdog

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/regular"
)

// compactAfter is how many lines of a journal may be of no more use before it
// is written anew.
const compactAfter = 1000

// journal is the list on disk. It is not synced: what a power failure loses
// has no processes left. Its owner serialises all calls.
type journal struct {
	path   string
	head   string
	dog    string // the record of the last watchdog; "": there was none
	f      *os.File
	dead   int  // lines that no longer say anything
	broken bool // the last write may have left half a line
	// headed says that the head is written. A journal without one is nobody's, and
	// the next start deletes it.
	headed bool
}

// A journal's name is host-PID-START-N.journal; N tells apart what several hosts in one
// process write, since one of them would begin the file of the other anew.
const (
	namePrefix = "host-"
	nameSuffix = ".journal"
)

// opened counts the journals of this process.
var opened atomic.Uint64

// runDir is where journals are.
func runDir(stateDir string) string { return stateDir + "/run" }

func openJournal(stateDir, hostID string) (*journal, error) {
	dir := runDir(stateDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, explain("no journal of children (they are not ended by the next start if this host and its watchdog are killed)", err)
	}
	pid := os.Getpid()
	start, _ := proctree.StartTime(pid)
	j := &journal{
		path: dir + "/" + namePrefix + strconv.Itoa(pid) + "-" + strconv.FormatUint(start, 10) + "-" + strconv.FormatUint(opened.Add(1), 10) + nameSuffix,
		head: record{verb: verbHost, pid: pid, start: start, marker: hostID, boot: proctree.BootID(), space: proctree.Namespace()}.String(),
	}
	f, err := regular.Open(j.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND)
	if err != nil {
		return nil, explain("no journal of children", err)
	}
	j.f = f
	return j, j.write("")
}

// write adds a line, and before it the head where that could not be written yet, as
// on a full disk.
func (j *journal) write(line string) error {
	if !j.headed {
		line = j.head + line
	}
	if j.broken {
		line = "\n" + line
	}
	_, err := j.f.WriteString(line)
	j.broken = err != nil
	if err != nil {
		return explain("journal of children", err)
	}
	j.headed = true
	return nil
}

// watchedBy adds the record of a watchdog, which stays in the journal: whoever
// reads it leaves the trees to that one for as long as it is at work.
func (j *journal) watchedBy(pid int, start uint64) error {
	j.dog = record{verb: verbDog, pid: pid, start: start}.String()
	return j.write(j.dog)
}

// append adds a record; trees is the list after it. Where the last one could not be
// written, all are written anew. Where the file cannot be compacted it goes on as it
// is, until there is as much again to leave out.
func (j *journal) append(r record, trees list) error {
	if r.verb == verbDel {
		j.dead += 2
	}
	if j.dead > compactAfter || j.broken {
		err := j.compact(trees)
		if err == nil {
			return nil
		}
		j.dead = 0
		return errors.Join(err, j.write(r.String()))
	}
	return j.write(r.String())
}

// compact replaces the file by one that holds only what is true now.
func (j *journal) compact(trees list) error {
	text := []byte(j.head + j.dog)
	for _, r := range trees {
		text = append(text, r.String()...)
	}
	fresh := j.path + ".new"
	f, err := regular.Open(fresh, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND)
	if err != nil {
		return explain("journal of children", err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = os.Rename(fresh, j.path)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(fresh)
		return explain("journal of children", err)
	}
	_ = j.f.Close()
	j.f, j.dead, j.broken, j.headed = f, 0, false, true
	return nil
}

// close lets go of the file and removes it where it is of no more use.
func (j *journal) close(remove bool) {
	_ = j.f.Close()
	if remove {
		_ = os.Remove(j.path)
	}
}
