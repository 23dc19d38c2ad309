package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

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
	// in are the files in which --undo goes back; nil: those that are named, or else any.
	in []string
	// then is done after the changes were written; nil: nothing is. Not where one
	// of them failed, nor with --dry-run.
	then func(ctx context.Context) error
}

func (f *editFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what would be written, and write nothing")
	fl.BoolVar(&f.undo, "undo", false, "put back what was there before the last change of this command; with --config, in that file")
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
// them. plan nil: what --undo means, back by the last change of the command. report
// is the answer for scripts; nil: the changes alone.
func (f *editFlags) edit(cmd *cobra.Command, c *common, command string, plan func(s *clients.Setup) ([]*clients.Change, error), report func(changes []*clients.Change) any) error {
	s, err := c.setup()
	if err != nil {
		return err
	}
	if f.in == nil {
		f.in, _ = namedFiles(c.files)
	}
	if plan == nil {
		plan = func(s *clients.Setup) ([]*clients.Change, error) { return s.UndoLast(command, f.in) }
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
			var after error
			if !f.dryRun {
				s.Apply(command, changes)
				if f.then != nil && len(clients.Failed(changes)) == 0 {
					after = f.then(ctx)
				}
			}
			if f.raw {
				if err := printJSON(out, report(changes)); err != nil {
					return err
				}
				return errors.Join(after, failures(changes))
			}
			if len(changes) == 0 && f.undo && f.then == nil {
				where := ""
				if len(f.in) > 0 {
					where = " in " + printable(strings.Join(f.in, " or "))
				}
				fmt.Fprintf(out, "There is nothing that metamcp %s has changed%s.\n", command, where)
			}
			for _, ch := range changes {
				f.print(out, ch)
			}
			return errors.Join(after, failures(changes))
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
seconds. A server that was provisioned goes with its files, among them what it
wrote beside its code, which is named. --undo brings back what was removed last,
either kind, with its files: these are kept for 30 days, of the last 20 servers
and of all that the last command removed.

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
	Provisioned []*removedServer `json:"provisioned"`
}

// removedServer is a provisioned server that goes with its files.
type removedServer struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Package string `json:"package"`
	Version string `json:"version,omitempty"`
	Removed bool   `json:"removed"`
	// Written are the files in its folder that were not installed, or that
	// changed since.
	Written []provisioned.Difference `json:"written,omitempty"`
	Data    string                   `json:"data,omitempty"` // the folder of its data, which stays
	KeptIn  string                   `json:"keptIn,omitempty"`
	KeptTo  *time.Time               `json:"keptUntil,omitempty"`
	Notes   []string                 `json:"notes,omitempty"`
}

func (r *removedServer) String() string {
	return fmt.Sprintf("%s, which was provisioned (%s)", r.Name, strings.TrimSpace(r.Kind+":"+r.Package+" "+r.Version))
}

// remove takes servers out of the configuration, and sets provisioned ones
// aside. A name that is both goes from the configuration, and the other counts
// then.
func (f *editFlags) remove(cmd *cobra.Command, c *common, given []string) error {
	if f.undo {
		return f.undoRemove(cmd, c)
	}
	began := time.Now()
	lock, locked, err := c.provisioned()
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "note:", printable(err.Error()))
	}
	gone := []*removedServer{}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	plan := func(s *clients.Setup) ([]*clients.Change, error) {
		for {
			changes, err := s.PlanRemove(c.configFiles(), given)
			var unknown *clients.NotThereError
			if !errors.As(err, &unknown) {
				return changes, err
			}
			i := slices.IndexFunc(locked, func(l provisioned.Locked) bool { return l.Name == unknown.Name })
			if i < 0 {
				alsoLocked(unknown, locked)
				return nil, unknown
			}
			gone = append(gone, goingServer(ctx, lock, &locked[i]))
			given = slices.DeleteFunc(slices.Clone(given), func(n string) bool { return n == unknown.Name })
		}
	}
	f.then = func(ctx context.Context) error { return setAside(ctx, lock, gone, began) }
	err = f.edit(cmd, c, "remove", plan, func(changes []*clients.Change) any {
		return removeReport{editReport{Version: buildVersion(), DryRun: f.dryRun, Changes: append([]*clients.Change{}, changes...)}, gone}
	})
	if f.raw {
		return err
	}
	for _, g := range gone {
		g.print(out, f.dryRun)
	}
	for _, l := range locked {
		if err == nil && slices.Contains(given, l.Name) {
			fmt.Fprintf(out, "note: %[1]s was provisioned too, and that one counts now; metamcp remove %[1]s again removes it\n", printable(l.Name))
		}
	}
	return err
}

// alsoLocked adds the provisioned servers to those that there are.
func alsoLocked(unknown *clients.NotThereError, locked []provisioned.Locked) {
	for i := range locked {
		unknown.Known = append(unknown.Known, locked[i].Name)
	}
	slices.Sort(unknown.Known)
	unknown.Known = slices.Compact(unknown.Known)
}

// goingServer is a server that is about to be removed.
func goingServer(ctx context.Context, lock *provisioned.Lock, l *provisioned.Locked) *removedServer {
	r := &removedServer{Name: l.Name, Kind: l.Source.Kind, Package: l.Source.Package, Version: l.Source.Version}
	var err error
	if r.Written, err = lock.Differences(ctx, l); err != nil {
		r.Notes = append(r.Notes, "what it wrote could not be found out: "+err.Error())
	}
	if dir := lock.DataDir(&l.Source); dir != "" {
		if _, err := os.Stat(dir); err == nil {
			r.Data = dir
		}
	}
	return r
}

// setAside removes servers so that they can come back.
func setAside(ctx context.Context, lock *provisioned.Lock, gone []*removedServer, began time.Time) error {
	for _, g := range gone {
		kept, err := lock.SetAside(ctx, g.Name, began)
		if kept.Name == "" {
			return fmt.Errorf("%s was not removed: %w", g.Name, err)
		}
		if err != nil {
			g.Notes = append(g.Notes, "older ones that are kept could not be deleted: "+err.Error())
		}
		until := kept.At.Add(provisioned.KeptFor)
		g.Removed, g.KeptIn, g.KeptTo = true, kept.Dir(), &until
	}
	return nil
}

// print says what became of it.
func (r *removedServer) print(out io.Writer, dryRun bool) {
	switch {
	case r.Removed:
		fmt.Fprintf(out, "✓ removed %s\n", printable(r.String()))
	case dryRun:
		fmt.Fprintf(out, "Would remove %s.\n", printable(r.String()))
	default:
		return
	}
	const most = 10
	for i, w := range r.Written {
		if i == most {
			fmt.Fprintf(out, "  and %d more files\n", len(r.Written)-most)
			break
		}
		fmt.Fprintf(out, "  %s since it was installed: %s\n", w.What, printable(w.Path))
	}
	if r.Data != "" {
		fmt.Fprintf(out, "  its data stays in %s\n", printable(r.Data))
	}
	if r.Removed {
		fmt.Fprintf(out, "  kept with all its files in %s until %s, or until a later metamcp remove when %d newer ones are kept; metamcp remove --undo brings it back\n",
			printable(r.KeptIn), r.KeptTo.Local().Format(time.DateOnly), provisioned.KeptMost)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(out, "note: %s\n", printable(n))
	}
}

// configured are the names that the configuration has.
func (c *common) configured() []string {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range cfg.Servers {
		if s.Provisioned == nil {
			names = append(names, s.Name)
		}
	}
	return names
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
			if f.undo {
				return f.edit(cmd, c, word, nil, nil)
			}
			return f.edit(cmd, c, word, func(s *clients.Setup) ([]*clients.Change, error) {
				changes, err := s.PlanSwitch(c.configFiles(), given, off)
				var unknown *clients.NotThereError
				if errors.As(err, &unknown) {
					_, locked, _ := c.provisioned() // what is wrong with the lock file is said by list
					if slices.ContainsFunc(locked, func(l provisioned.Locked) bool { return l.Name == unknown.Name }) {
						return nil, usageError{fmt.Errorf("%[1]q was provisioned and has no entry that could be changed; metamcp remove %[1]s removes it", unknown.Name)}
					}
					alsoLocked(unknown, locked)
				}
				return changes, err
			}, nil)
		},
	}
	f.register(cmd)
	return cmd
}
