package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
)

// fileFlags are the flags of the commands that change other programs' files.
type fileFlags struct {
	project, undo, yes, dryRun, raw bool
	// aside is what a person should know before the changes are agreed to.
	aside string
}

func (f *fileFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.project, "project", false, "the files of the working folder, and not the user's")
	fl.BoolVar(&f.undo, "undo", false, "put back what was there before this command changed it")
	fl.BoolVarP(&f.yes, "yes", "y", false, "write without asking")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what would be written, and write nothing")
	fl.BoolVar(&f.raw, "json", false, "print JSON; to write, --yes is needed")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if f.yes && f.dryRun {
			return usageError{errors.New("--yes writes and --dry-run does not; keep one of them")}
		}
		return nil
	}
	cmd.ValidArgs = clients.IDs()
}

// setup is who changes files, as this command line means it.
func (c *common) setup() (*clients.Setup, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("the working folder is not known, so no path can be looked at: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("the home folder is not known, where the clients have their files: %w; set HOME", err)
	}
	s := &clients.Setup{System: clients.System{GOOS: runtime.GOOS, Home: home, Cwd: cwd, Getenv: os.Getenv}}
	if s.Executable, err = ownPath(); err != nil {
		return nil, err
	}
	if len(c.files) > 0 {
		s.Config, _ = namedFiles(c.files)
	}
	var candidates []string
	if s.OwnFiles, candidates = namedFiles(nil); s.OwnFiles == nil {
		s.OwnFiles = candidates
	}
	// The files themselves may be broken or not there yet.
	cfg, err := c.withoutFiles()
	if err != nil {
		return nil, err
	}
	if cfg.Settings.StateDir == "" {
		return nil, errors.New("there is no state folder for the backups; name one with --state-dir")
	}
	s.Backups = filepath.Join(cfg.Settings.StateDir, "backups")
	return s, nil
}

// ownPath is the path under which others should start this program later: that in
// PATH, since it stays when a package manager puts a new version there.
func ownPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("this program's file is not known: %w", err)
	}
	if inPath, err := osexec.LookPath("metamcp"); err == nil {
		if abs, err := filepath.Abs(inPath); err == nil && clients.SameFile(abs, self) {
			return abs, nil
		}
	}
	return self, nil
}

// namedFiles are the configuration files that values of --config name, or, where there
// are none, METAMCP_CONFIG; where nothing names any, those that are looked for.
func namedFiles(flags []string) (named, candidates []string) {
	named, candidates = config.FilesOf(config.Sources{Files: flags})
	if candidates != nil {
		named = nil
	}
	return named, candidates
}

// named are the clients of a command line.
func named(words []string) ([]*clients.Client, error) {
	var list []*clients.Client
	for _, w := range words {
		c := clients.Find(w)
		if c == nil {
			return nil, usageError{fmt.Errorf("there is no client %q; known are %s", w, strings.Join(clients.IDs(), ", "))}
		}
		list = append(list, c)
	}
	return list, nil
}

// errNotWritten is what a script sees that did not say what it wants.
var errNotWritten = usageError{errors.New("nothing was written: add --yes to write this, or --dry-run to only look")}

// carryOut shows the changes, asks where somebody can answer, and writes them.
func (f *fileFlags) carryOut(cmd *cobra.Command, s *clients.Setup, command string, changes []*clients.Change) error {
	out := cmd.OutOrStdout()
	if !f.raw {
		for _, c := range changes {
			printChange(out, c)
		}
		if f.aside != "" {
			fmt.Fprintln(out, printable(f.aside))
		}
	}
	if !f.dryRun && clients.Pending(changes) {
		switch {
		case f.yes:
		case f.raw || !interactive(cmd):
			return errNotWritten
		case !confirmed(cmd.InOrStdin(), out, "Write "+countPending(changes)):
			fmt.Fprintln(out, "Nothing was written.")
			return nil
		}
		pending := slices.DeleteFunc(slices.Clone(changes), func(c *clients.Change) bool { return !c.Pending() })
		s.Apply(command, changes)
		if !f.raw {
			for _, c := range pending { // what failed before was said before
				printWritten(out, c)
			}
		}
	}
	return nil
}

// failures makes changes that failed the end of the command.
func failures(changes []*clients.Change) error {
	if len(clients.Failed(changes)) > 0 {
		return statusError(exitFailed)
	}
	return nil
}

func countPending(changes []*clients.Change) string {
	n := 0
	for _, c := range changes {
		if c.Pending() {
			n++
		}
	}
	if n == 1 {
		return "this file"
	}
	return fmt.Sprintf("these %d files", n)
}

// interactive reports whether somebody sits there who sees the question.
func interactive(cmd *cobra.Command) bool {
	in, ok := cmd.InOrStdin().(*os.File)
	return ok && term.IsTerminal(int(in.Fd())) && terminalWidth(cmd.OutOrStdout()) > 0
}

func confirmed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s? [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\n') // an end of input is no yes
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}

func printChange(out io.Writer, c *clients.Change) {
	switch c.Status {
	case clients.StatusFailed:
		fmt.Fprintf(out, "✗ %s: %s: %s\n", c.Name, printable(c.File), printable(c.Problem))
	case clients.StatusPresent:
		fmt.Fprintf(out, "✓ %s: nothing to do: %s\n", c.Name, printable(c.File))
	default:
		fmt.Fprintf(out, "• %s\n%s", c.Name, c.Diff)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(out, "  note: %s\n", printable(n))
	}
}

func printWritten(out io.Writer, c *clients.Change) {
	switch {
	case c.Written && c.Backup != "":
		fmt.Fprintf(out, "✓ %s: wrote %s (backup: %s)\n", c.Name, printable(c.File), printable(c.Backup))
	case c.Written:
		fmt.Fprintf(out, "✓ %s: restored %s\n", c.Name, printable(c.File))
	case c.Status == clients.StatusFailed:
		fmt.Fprintf(out, "✗ %s: %s: %s\n", c.Name, printable(c.File), printable(c.Problem))
	}
}

// changesReport is the answer of init, and of an undo, for scripts.
type changesReport struct {
	Version string            `json:"version"`
	DryRun  bool              `json:"dryRun"`
	Changes []*clients.Change `json:"changes"`
	Notes   []string          `json:"notes,omitempty"`
	Error   string            `json:"error,omitempty"`
}

// undoChanges takes back what a command did.
func (f *fileFlags) undoChanges(cmd *cobra.Command, s *clients.Setup, command string, list []*clients.Client) error {
	var ids []string
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	changes, err := s.Undo(command, ids)
	if err != nil {
		return err
	}
	if len(changes) == 0 && !f.raw {
		fmt.Fprintf(cmd.OutOrStdout(), "There is nothing that metamcp %s has changed.\n", command)
		return nil
	}
	return f.finish(cmd, s, command, changes, nil)
}

// finish carries changes out and reports them; report is the answer for
// scripts, nil: the changes alone.
func (f *fileFlags) finish(cmd *cobra.Command, s *clients.Setup, command string, changes []*clients.Change, report func(problem string) any) error {
	err := f.carryOut(cmd, s, command, changes)
	if f.raw {
		problem := ""
		if err != nil {
			problem = err.Error()
		}
		if report == nil {
			report = func(problem string) any {
				if changes == nil {
					changes = []*clients.Change{}
				}
				r := changesReport{Version: buildVersion(), DryRun: f.dryRun, Changes: changes, Error: problem}
				if f.aside != "" {
					r.Notes = []string{f.aside}
				}
				return r
			}
		}
		if e := printJSON(cmd.OutOrStdout(), report(problem)); e != nil {
			return e
		}
	}
	if err != nil {
		return err
	}
	return failures(changes)
}
