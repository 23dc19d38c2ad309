package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/wallclock"
)

// undoReport is the answer of remove --undo for scripts.
type undoReport struct {
	editReport
	Provisioned []string `json:"provisioned"` // that are back, by the names that they have now
}

// undoRemove brings back what was removed last: by one command, so that may be
// servers of both kinds.
func (f *editFlags) undoRemove(cmd *cobra.Command, c *common) error {
	lock, _, err := c.provisioned()
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", printable(err.Error()))
	}
	back := []string{}
	plan := func(s *clients.Setup) ([]*clients.Change, error) {
		last, err := s.LastChange("remove", f.in)
		if err != nil {
			return nil, err
		}
		removed, err := lastRemoved(lock)
		now := time.Now()
		switch {
		case err != nil:
			return nil, err
		case len(removed) == 0 || wallclock.Compare(last, removed[0].At, now) > 0:
			return s.UndoLast("remove", f.in)
		}
		if f.dryRun {
			for i := range removed {
				back = append(back, removed[i].Name)
			}
		}
		taken := func(name string) bool {
			return slices.ContainsFunc(c.configured(), func(n string) bool { return n == name })
		}
		f.then = func(ctx context.Context) error {
			var errs []error
			for i := range removed { // one that cannot come back keeps no other one away
				locked, err := lock.Restore(ctx, &removed[i], taken)
				if locked.Name == "" {
					errs = append(errs, fmt.Errorf("%s is not back: %w", removed[i].Name, err))
					continue
				}
				back = append(back, locked.Name)
				if err != nil {
					errs = append(errs, fmt.Errorf("%s is back, but what is left of it in %s could not be deleted: %w", locked.Name, removed[i].Dir(), err))
				}
			}
			return errors.Join(errs...)
		}
		if wallclock.Compare(last, removed[0].Began, now) < 0 {
			return nil, nil
		}
		return s.UndoLast("remove", f.in) // the same command took it out of a file
	}
	err = f.edit(cmd, c, "remove", plan, func(changes []*clients.Change) any {
		return undoReport{editReport{Version: buildVersion(), DryRun: f.dryRun, Changes: append([]*clients.Change{}, changes...)}, back}
	})
	if f.raw {
		return err
	}
	for _, name := range back {
		if f.dryRun {
			fmt.Fprintf(cmd.OutOrStdout(), "Would bring %s back, with its files.\n", printable(name))
		} else {
			fmt.Fprintf(cmd.OutOrStdout(), "✓ %s, which was provisioned, is back with its files\n", printable(name))
		}
	}
	return err
}

// lastRemoved are the provisioned servers that the last command removed that
// removed any.
func lastRemoved(lock *provisioned.Lock) ([]provisioned.Removed, error) {
	if lock == nil {
		return nil, nil
	}
	all, err := lock.Removed()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	began := all[0].Began
	return slices.DeleteFunc(all, func(r provisioned.Removed) bool { return !r.Began.Equal(began) }), nil
}
