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
// that changes single servers. No change means that there is none to undo.
func (s *Setup) UndoLast(command string) ([]*Change, error) {
	all, err := s.records()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(r *record) bool { return r.Command == command })
	if i < 0 {
		return nil, nil
	}
	file := all[i].File
	return []*Change{s.undoFile(command, file, slices.DeleteFunc(all, func(r *record) bool { return r.File != file }), 1)}, nil
}

// LastChange is when a command last changed a file that [Setup.UndoLast] would
// put back; zero: there is none.
func (s *Setup) LastChange(command string) (time.Time, error) {
	all, err := s.records()
	if err != nil {
		return time.Time{}, err
	}
	if i := slices.IndexFunc(all, func(r *record) bool { return r.Command == command }); i >= 0 {
		return all[i].Time, nil
	}
	return time.Time{}, nil
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
