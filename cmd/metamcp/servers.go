package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/provisioned"
)

// editFlags are the flags of the commands that change single servers of the
// configuration. Whoever names a server has said what is to be done, so they do
// not ask.
type editFlags struct {
	dryRun, undo, raw bool
}

func (f *editFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what would be written, and write nothing")
	fl.BoolVar(&f.undo, "undo", false, "put back what was there before the last change of this command")
	fl.BoolVar(&f.raw, "json", false, "print JSON")
}

// withoutNames makes names a usage error where --undo is given, and missing
// ones otherwise.
func (f *editFlags) withoutNames(_ *cobra.Command, given []string) error {
	switch {
	case f.undo && len(given) > 0:
		return errors.New("--undo takes no names: it goes back by one change")
	case !f.undo && len(given) == 0:
		return errors.New("it needs the name of a server at least")
	}
	return nil
}

// editReport is the answer for scripts.
type editReport struct {
	Version string            `json:"version"`
	DryRun  bool              `json:"dryRun"`
	Changes []*clients.Change `json:"changes"`
}

// edit makes the changes of a plan while no other metamcp makes any, and shows
// them. report is the answer for scripts; nil: the changes alone.
func (f *editFlags) edit(cmd *cobra.Command, c *common, command string, plan func(s *clients.Setup) ([]*clients.Change, error), report func(changes []*clients.Change) any) error {
	s, err := c.setup()
	if err != nil {
		return err
	}
	if f.undo {
		plan = func(s *clients.Setup) ([]*clients.Change, error) { return s.UndoLast(command) }
		report = nil
	}
	if report == nil {
		report = func(changes []*clients.Change) any {
			return editReport{Version: buildVersion(), DryRun: f.dryRun, Changes: append([]*clients.Change{}, changes...)}
		}
	}
	out := cmd.OutOrStdout()
	return interruptible(cmd.Context(), "nothing was written", func(ctx context.Context) error {
		return s.Exclusive(ctx, func() error {
			changes, err := plan(s)
			if err != nil {
				var unknown *clients.NotThereError
				if errors.As(err, &unknown) {
					return usageError{err}
				}
				return err
			}
			if !f.dryRun {
				s.Apply(command, changes)
			}
			if f.raw {
				if err := printJSON(out, report(changes)); err != nil {
					return err
				}
				return failures(changes)
			}
			if len(changes) == 0 && f.undo {
				fmt.Fprintf(out, "There is nothing that metamcp %s has changed.\n", command)
			}
			for _, ch := range changes {
				f.print(out, ch)
			}
			return failures(changes)
		})
	})
}

// print shows one change and what became of it.
func (f *editFlags) print(out io.Writer, ch *clients.Change) {
	if ch.Status == clients.StatusFailed || ch.Status == clients.StatusPresent {
		printChange(out, ch)
		return
	}
	fmt.Fprint(out, ch.Diff)
	for _, n := range ch.Notes {
		fmt.Fprintf(out, "note: %s\n", printable(n))
	}
	if f.dryRun {
		fmt.Fprintln(out, "Nothing was written, since --dry-run was given.")
		return
	}
	printWritten(out, ch)
}

// configFiles are the configuration files in use, the strongest last.
func (c *common) configFiles() []string {
	files, _ := config.FilesOf(c.sources())
	return files
}

func newRemove(c *common) *cobra.Command {
	var f editFlags
	cmd := &cobra.Command{
		Use: "remove NAME…", Aliases: []string{"rm"}, Short: "Take servers out of the configuration",
		Long: `Take servers out of the configuration file whose entry is in force: of --config,
else of METAMCP_CONFIG, else ./.mcp.json, else ~/.metamcp/mcp.json. Comments and
everything else in it stay. A running host ends their processes within two
seconds. A server that was provisioned is deleted with its files; --undo does not
bring it back.

Exit status: 0 done, 1 a file could not be read or written, 2 wrong usage, or
there is no such server.`,
		Example: `  metamcp remove github
  metamcp remove github slack --dry-run
  metamcp remove --undo`,
		Args: args(f.withoutNames),
		RunE: func(cmd *cobra.Command, given []string) error { return f.remove(cmd, c, given) },
	}
	f.register(cmd)
	return cmd
}

// removeReport is the answer of remove for scripts.
type removeReport struct {
	editReport
	Provisioned []removedServer `json:"provisioned"`
}

// removedServer is a provisioned server that goes with its files.
type removedServer struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Package string `json:"package"`
	Version string `json:"version,omitempty"`
	Removed bool   `json:"removed"`
}

// remove takes servers out of the configuration, and deletes provisioned ones.
// A name that is both goes from the configuration, and the other counts then.
func (f *editFlags) remove(cmd *cobra.Command, c *common, given []string) error {
	if f.undo {
		return f.edit(cmd, c, "remove", nil, nil)
	}
	lock, locked, err := c.provisioned()
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", printable(err.Error()))
	}
	gone := []removedServer{}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	plan := func(s *clients.Setup) ([]*clients.Change, error) {
		for {
			changes, err := s.PlanRemove(c.configFiles(), given)
			var unknown *clients.NotThereError
			if !errors.As(err, &unknown) {
				return changes, errors.Join(err, f.deleteProvisioned(ctx, lock, gone))
			}
			i := slices.IndexFunc(locked, func(l provisioned.Locked) bool { return l.Name == unknown.Name })
			if i < 0 {
				return nil, err
			}
			src := locked[i].Source
			gone = append(gone, removedServer{Name: locked[i].Name, Kind: src.Kind, Package: src.Package, Version: src.Version})
			given = slices.DeleteFunc(slices.Clone(given), func(n string) bool { return n == unknown.Name })
		}
	}
	err = f.edit(cmd, c, "remove", plan, func(changes []*clients.Change) any {
		return removeReport{editReport{Version: buildVersion(), DryRun: f.dryRun, Changes: append([]*clients.Change{}, changes...)}, gone}
	})
	if f.raw {
		return err
	}
	for _, g := range gone {
		what := fmt.Sprintf("%s, which was provisioned (%s)", g.Name, strings.TrimSpace(g.Kind+":"+g.Package+" "+g.Version))
		switch {
		case g.Removed:
			fmt.Fprintf(out, "✓ deleted %s, and its files\n", printable(what))
		case f.dryRun:
			fmt.Fprintf(out, "Would delete %s, and its files.\n", printable(what))
		}
	}
	for _, l := range locked {
		if err == nil && slices.Contains(given, l.Name) {
			fmt.Fprintf(out, "note: %[1]s was provisioned too, and that one counts now; metamcp remove %[1]s again deletes it\n", printable(l.Name))
		}
	}
	return err
}

// deleteProvisioned deletes servers with their files.
func (f *editFlags) deleteProvisioned(ctx context.Context, lock *provisioned.Lock, gone []removedServer) error {
	if f.dryRun {
		return nil
	}
	for i := range gone {
		if _, err := lock.Remove(ctx, gone[i].Name); err != nil {
			return err
		}
		gone[i].Removed = true
	}
	return nil
}

// provisioned are the servers of the lock file.
func (c *common) provisioned() (*provisioned.Lock, []provisioned.Locked, error) {
	settings, err := c.settings()
	if err != nil || settings.StateDir == "" {
		return nil, nil, err
	}
	lock := provisioned.Open(settings.StateDir)
	locked, err := lock.List()
	return lock, locked, err
}

func newSwitch(c *common, off bool) *cobra.Command {
	var f editFlags
	word, short := "enable", "Turn servers on again that were turned off"
	long := "Take \"disabled\" out of the entries of servers. A running host has them within two\nseconds; they start with their first use."
	if off {
		word, short = "disable", "Turn servers off without taking them out"
		long = "Write \"disabled\": true into the entries of servers. A running host ends their\nprocesses within two seconds, and refuses calls of their tools."
	}
	cmd := &cobra.Command{
		Use: word + " NAME…", Short: short,
		Long: long + ` Everything
else in the file stays.

Exit status: 0 done, or nothing to do; 1 a file could not be read or written;
2 wrong usage, or there is no such server.`,
		Example: fmt.Sprintf("  metamcp %[1]s github\n  metamcp %[1]s github slack --dry-run\n  metamcp %[1]s --undo", word),
		Args:    args(f.withoutNames),
		RunE: func(cmd *cobra.Command, given []string) error {
			return f.edit(cmd, c, word, func(s *clients.Setup) ([]*clients.Change, error) {
				changes, err := s.PlanSwitch(c.configFiles(), given, off)
				var unknown *clients.NotThereError
				if errors.As(err, &unknown) {
					_, locked, _ := c.provisioned() // what is wrong with the lock file is said by list
					if slices.ContainsFunc(locked, func(l provisioned.Locked) bool { return l.Name == unknown.Name }) {
						return nil, usageError{fmt.Errorf("%[1]q was provisioned and has no entry that could be changed; metamcp remove %[1]s deletes it", unknown.Name)}
					}
				}
				return changes, err
			}, nil)
		},
	}
	f.register(cmd)
	return cmd
}
