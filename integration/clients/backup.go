package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/wallclock"
	"github.com/metamcp/metamcp/messages"
)

// Suffixes of the two files of a backup.
const (
	recordSuffix = ".json"
	copySuffix   = ".bak"
)

// record says what a command did to a file. Its copy of the file may hold
// keys, so both are for their owner alone.
type record struct {
	Command string      `json:"command"` // "init", "import", "add", …
	Client  string      `json:"client"`
	Time    time.Time   `json:"time"`
	Path    string      `json:"path"` // as the client names it
	File    string      `json:"file"` // where it really is
	Existed bool        `json:"existed"`
	Mode    fs.FileMode `json:"mode"` // before
	Before  string      `json:"before"`
	After   string      `json:"after"`             // SHA-256 of both
	Folders []string    `json:"folders,omitempty"` // that were made for it

	name string // of its files, without suffix; they sort by time, where the clock goes on
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// backUp keeps what is there before it is changed.
func (s *Setup) backUp(command string, c *Change, folders []string) (*record, error) {
	r := &record{
		Command: command, Client: c.Client, Time: time.Now().UTC(), Path: c.File, File: c.found.path, Existed: c.found.info != nil,
		Before: sum(c.found.data), After: sum(c.after), Folders: folders,
	}
	if r.Existed {
		r.Mode = c.found.info.Mode().Perm()
	}
	r.name = r.Time.Format("20060102T150405.000000000Z") + "-" + command + "-" + c.Client
	if err := os.MkdirAll(s.Backups, 0o700); err != nil {
		return nil, cause(err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := s.keep(r.name+copySuffix, c.found.data); err != nil {
		return nil, err
	}
	return r, s.keep(r.name+recordSuffix, append(text, '\n'))
}

// keep writes a new file that only its owner can read.
func (s *Setup) keep(name string, data []byte) error {
	c := &content{path: filepath.Join(s.Backups, name)}
	return c.replace(data)
}

// forget removes a backup that is of no more use.
func (s *Setup) forget(r *record) error {
	err := os.Remove(filepath.Join(s.Backups, r.name+recordSuffix))
	return errors.Join(err, os.Remove(filepath.Join(s.Backups, r.name+copySuffix)))
}

// records are all backups, the newest first. Those from before the clock went back, so
// that they are dated after now, come last. One that cannot be read is left alone.
func (s *Setup) records() ([]*record, error) {
	list, err := os.ReadDir(s.Backups)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the backups in %s cannot be read: %w", s.Backups, cause(err))
	}
	var all []*record
	for _, e := range slices.Backward(list) {
		name, ok := strings.CutSuffix(e.Name(), recordSuffix)
		if !ok {
			continue
		}
		c, err := readFile(filepath.Join(s.Backups, e.Name()))
		if err != nil || c.info == nil {
			continue
		}
		r := &record{name: name}
		if json.Unmarshal(c.data, r) == nil && filepath.IsAbs(r.File) {
			all = append(all, r)
		}
	}
	now := time.Now()
	slices.SortStableFunc(all, func(a, b *record) int { return wallclock.Compare(b.Time, a.Time, now) })
	return all, nil
}

// Undo plans to put back what was there before a command changed it: each
// file as it was before the first change of that command that nobody has
// changed since. ids are the clients that are meant; empty: all.
func (s *Setup) Undo(command string, ids []string) ([]*Change, error) {
	all, err := s.records()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, r := range all {
		if r.Command == command && !slices.Contains(files, r.File) && (len(ids) == 0 || slices.Contains(ids, r.Client)) {
			files = append(files, r.File)
		}
	}
	var clients, ours []*Change
	for _, file := range files {
		c := s.undoFile(command, file, slices.DeleteFunc(slices.Clone(all), func(r *record) bool { return r.File != file }), len(all))
		if c.Client == own.ID {
			ours = append(ours, c)
		} else {
			clients = append(clients, c)
		}
	}
	// What was taken out of a client's file must be back there before it goes
	// from ours.
	for _, c := range ours {
		if c.Pending() && len(Failed(clients)) > 0 {
			c.fail("%s", keptForClients)
		}
	}
	return append(clients, ours...), nil
}

// undoneBy is the command line that takes the change back.
func (r *record) undoneBy() string {
	line := "metamcp " + r.Command + " --undo"
	if slices.Contains(editCommands, r.Command) { // without the file, its last change may be of another one
		line += " --config " + messages.ShellWord(r.Path)
	}
	return line
}

// undoFile goes back through the changes of one file, the newest first, and
// through so many of the command at most.
func (s *Setup) undoFile(command, file string, all []*record, most int) *Change {
	newest := all[slices.IndexFunc(all, func(r *record) bool { return r.Command == command })]
	c := &Change{Client: newest.Client, Name: own.Name, File: newest.Path, client: own}
	if known := Find(newest.Client); known != nil {
		c.client, c.Name = known, known.Name
	}
	copyOf := func(r *record) string { return filepath.Join(s.Backups, r.name+copySuffix) }
	found, err := readFile(file)
	if err != nil {
		c.fail("%v; what was there before is in %s", err, copyOf(newest))
		return c
	}
	c.found, c.after = found, found.data
	now := sum(found.data)
	existed := found.info != nil
	for _, r := range all {
		if r.After != now || !existed || len(c.undone) == most {
			break
		}
		if r.Command != command {
			if len(c.undone) == 0 {
				c.fail("metamcp %s changed it later; undo that first: %s", r.Command, r.undoneBy())
				return c
			}
			break
		}
		data, err := readFile(copyOf(r))
		if err != nil || sum(data.data) != r.Before {
			c.fail("the backup %s is gone or was changed", copyOf(r))
			return c
		}
		c.undone, c.after, now, existed = append(c.undone, r), data.data, r.Before, r.Existed
	}
	if found.info == nil && command == "init" {
		// The entry is gone with its file, which is all that was to be undone.
		c.Status = StatusPresent
		c.note("it was removed since and is not made again; what was there before is in %s", copyOf(newest))
		return c
	}
	if len(c.undone) == 0 {
		c.fail("it was changed since, or removed, and is left as it is; what was there before is in %s", copyOf(newest))
		return c
	}
	c.gone = !existed
	c.propose(c.after, StatusRestore)
	if c.gone && c.Pending() {
		c.note("the file was not there before and is removed")
	}
	return c
}

// restore puts a file back.
func (s *Setup) restore(c *Change) error {
	oldest := c.undone[len(c.undone)-1]
	if c.gone {
		if err := os.Remove(c.found.path); err != nil {
			return cause(err)
		}
		for _, dir := range slices.Backward(oldest.Folders) {
			_ = os.Remove(dir) // only where nothing else came into it
		}
	} else {
		if err := c.found.replace(c.after); err != nil {
			return err
		}
		if c.found.info.Mode().Perm() != oldest.Mode {
			if err := os.Chmod(c.found.path, oldest.Mode); err != nil {
				return cause(err)
			}
		}
		if back, err := readFile(c.found.path); err != nil || !bytes.Equal(back.data, c.after) {
			return errors.New("the file is not what was written; the backup is kept")
		}
	}
	c.Written = true
	var errs []error
	for _, r := range c.undone {
		errs = append(errs, s.forget(r))
	}
	if err := errors.Join(errs...); err != nil {
		c.note("its backups could not be removed: %v", err)
	}
	return nil
}
