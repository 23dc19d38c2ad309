package clients

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// Status is what becomes of a file.
type Status string

// The stati of a change.
const (
	StatusAdd     Status = "add"     // entries are added
	StatusUpdate  Status = "update"  // an entry of metamcp is made to start this one
	StatusRemove  Status = "remove"  // entries are taken out
	StatusRestore Status = "restore" // what was there before comes back
	StatusPresent Status = "present" // nothing is to be done
	StatusFailed  Status = "failed"
)

// Change is what is to be done to one file, or was done.
type Change struct {
	Client string `json:"client"` // its id; "metamcp" for metamcp's own configuration
	Name   string `json:"name"`   // for people
	File   string `json:"file"`
	Status Status `json:"status"`
	// Written says that the file was changed.
	Written bool `json:"written"`
	// Diff is the change without what looks like a secret.
	Diff string `json:"diff,omitempty"`
	// Notes are what a person should know.
	Notes []string `json:"notes,omitempty"`
	// Problem is why it failed, and what to do.
	Problem string `json:"error,omitempty"`
	// Backup is the file that holds what was there before.
	Backup string `json:"backup,omitempty"`
	// Looks says that the client's entry, as it is or is to be, names no configuration:
	// metamcp looks for its files where the client starts it.
	Looks bool `json:"-"`

	client *Client
	found  *content
	after  []byte
	gone   bool      // the file is removed: it was not there before
	undone []*record // what a restored file makes needless
}

// Pending reports whether there is something to write.
func (c *Change) Pending() bool {
	return !c.Written && c.Status != StatusPresent && c.Status != StatusFailed
}

func (c *Change) fail(format string, args ...any) {
	c.Status, c.Problem, c.Diff = StatusFailed, fmt.Sprintf(format, args...), ""
}

func (c *Change) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// own is the pseudo client of metamcp's configuration.
var own = &Client{ID: "metamcp", Name: "metamcp's configuration", Key: "mcpServers", refs: refShell}

// propose says what a changed text does to the file.
func (c *Change) propose(after []byte, status Status) {
	c.after, c.Status = after, status
	if err := c.found.writable(); err != nil {
		c.fail("%v", err)
		return
	}
	c.Diff = shown(c.client, c.File, c.found.data, after)
}

// Apply writes the changes of one command that are pending, in their order,
// each with a backup that [Setup.Undo] finds. One that cannot be written is
// failed afterwards and keeps its file as it is; the others go on, but for those
// that stand behind a failed change of metamcp's own configuration: what is
// taken out of a client's file must be there first.
func (s *Setup) Apply(command string, changes []*Change) {
	broken := map[bool]bool{} // of ours, of a client's
	for _, c := range changes {
		ours := c.Client == own.ID
		switch {
		case !c.Pending():
		case broken[true] && c.Status == StatusRemove:
			c.fail("not changed, since metamcp's own configuration could not be written")
		case ours && broken[false] && c.Status == StatusRestore:
			c.fail("%s", keptForClients)
		default:
			if err := s.write(command, c); err != nil {
				c.fail("%v", err)
			}
		}
		broken[ours] = broken[ours] || c.Status == StatusFailed
	}
}

// keptForClients is why metamcp's configuration is not restored.
const keptForClients = "kept, since a client's file could not be restored: its servers would be in neither file"

// write makes one change.
func (s *Setup) write(command string, c *Change) error {
	if err := c.found.unchanged(); err != nil {
		return err
	}
	if c.Status == StatusRestore {
		return s.restore(c)
	}
	folders, err := makeFolders(c.found.path)
	if err != nil {
		return fmt.Errorf("its folder cannot be made: %w", err)
	}
	r, err := s.backUp(command, c, folders)
	if err != nil {
		return fmt.Errorf("the backup could not be written to %s: %w", s.Backups, err)
	}
	if err := c.found.replace(c.after); err != nil {
		if c.found.unchanged() == nil {
			return errors.Join(err, s.forget(r))
		}
		// It was being written in place: the backup is what is left of it.
		return fmt.Errorf("%w; what was there before is in %s", err, filepath.Join(s.Backups, r.name+copySuffix))
	}
	c.Written, c.Backup = true, filepath.Join(s.Backups, r.name+copySuffix)
	if slices.Contains(editCommands, command) {
		if err := s.prune(); err != nil {
			c.note("old backups could not be removed: %v", err)
		}
	}
	return nil
}

// Failed are the changes that failed.
func Failed(changes []*Change) []*Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c *Change) bool { return c.Status != StatusFailed })
}

// Pending reports whether any of the changes is still to be written.
func Pending(changes []*Change) bool { return slices.ContainsFunc(changes, (*Change).Pending) }
