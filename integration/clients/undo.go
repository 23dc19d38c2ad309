package clients

import (
	"errors"
	"slices"
	"time"
)

// editCommands are the commands that change single servers; each change can be
// undone by itself.
var editCommands = []string{"add", "remove", "enable", "disable"}

// keptEdits is how many of their changes can be undone.
const keptEdits = 50

// UndoLast plans to put back what was there before the last change of a command
// that changes single servers: in one of the files, or, where none are named, in any
// that is still there. No change means that there is none to undo.
func (s *Setup) UndoLast(command string, files []string) ([]*Change, error) {
	all, err := s.records()
	if err != nil {
		return nil, err
	}
	i := lastOf(all, command, files)
	if i < 0 {
		return nil, nil
	}
	file := all[i].File
	c := s.undoFile(command, file, slices.DeleteFunc(slices.Clone(all), func(r *record) bool { return r.File != file }), 1)
	if c.Status == StatusFailed && len(files) == 0 {
		others := slices.DeleteFunc(all, func(r *record) bool { return r.File == file })
		if i := lastOf(others, command, nil); i >= 0 {
			c.Problem += "; the last change of another file is taken back by " + others[i].undoneBy()
		}
	}
	return []*Change{c}, nil
}

// LastChange is when a command made the change that [Setup.UndoLast] would take
// back; zero: there is none.
func (s *Setup) LastChange(command string, files []string) (time.Time, error) {
	all, err := s.records()
	if err != nil {
		return time.Time{}, err
	}
	if i := lastOf(all, command, files); i >= 0 {
		return all[i].Time, nil
	}
	return time.Time{}, nil
}

// lastOf is the newest record of a command in one of the files, or in any that is still
// there; -1: none.
func lastOf(all []*record, command string, files []string) int {
	return slices.IndexFunc(all, func(r *record) bool {
		return r.Command == command && (len(files) == 0 && exists(r.File) || slices.ContainsFunc(files, r.of))
	})
}

// of reports whether the record is of a file, by whichever name.
func (r *record) of(file string) bool {
	return SameFile(r.File, file) || r.Path == file && !exists(file)
}

// prune forgets edits that are older than those that can be undone.
func (s *Setup) prune() error {
	all, err := s.records()
	if err != nil {
		return err
	}
	n := 0
	var errs []error
	for _, r := range all {
		if slices.Contains(editCommands, r.Command) {
			if n++; n > keptEdits {
				errs = append(errs, s.forget(r))
			}
		}
	}
	return errors.Join(errs...)
}
