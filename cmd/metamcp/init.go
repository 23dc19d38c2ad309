package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
)

func newInit(c *common) *cobra.Command {
	var f fileFlags
	var entry string
	cmd := &cobra.Command{
		Use: "init [CLIENT...]", Short: "Add metamcp to the LLM clients on this machine",
		Long: `Find the LLM clients that are installed, show what has to be changed in their
files so that they start metamcp, and, when that was agreed to, change it. All
else in the files stays as it is; --undo puts back what was there, byte by byte.
With --config, that file is named in the entry.

Clients: ` + strings.Join(clients.IDs(), ", ") + `.

Exit status: 0 done, or nothing to do; 1 a file could not be changed (the others
were); 2 wrong usage, or --yes is missing where nobody can be asked.`,
		Example: `  metamcp init
  metamcp init cursor vscode --config ~/.metamcp/mcp.json
  metamcp init --dry-run --json
  metamcp init --undo`,
		RunE: func(cmd *cobra.Command, given []string) error {
			list, err := named(given)
			if err != nil {
				return err
			}
			s, err := c.setup()
			if err != nil {
				return err
			}
			if f.undo {
				return f.undoChanges(cmd, s, "init", list)
			}
			changes, err := s.PlanInit(clients.InitOptions{Clients: list, Project: f.project, Entry: entry})
			if err != nil {
				return usageError{err}
			}
			if len(changes) == 0 && !f.raw {
				fmt.Fprintf(cmd.OutOrStdout(), "No known client is installed here. Name one to make its file: metamcp init %s\n", strings.Join(clients.IDs(), " | "))
				return nil
			}
			again := "metamcp init"
			for _, client := range list {
				again += " " + client.ID
			}
			if f.project {
				again += " --project"
			}
			if cmd.Flags().Changed("name") {
				again += " --name " + entry
			}
			f.aside = cmp.Or(cannotStart(s), readElsewhere(s, changes, again))
			err = f.finish(cmd, s, "init", changes, nil)
			if !f.raw {
				afterInit(cmd, s, changes)
			}
			return err
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&entry, "name", "metamcp", "the `NAME` of the entry")
	return cmd
}

// cannotStart says why metamcp would end at its start with the files that entries name;
// "": it would not, or they name none.
func cannotStart(s *clients.Setup) string {
	if len(s.Config) == 0 {
		return ""
	}
	for _, f := range s.Config {
		if info, err := os.Stat(f); err == nil && !info.Mode().IsRegular() {
			return "" // a pipe is for the one who starts it
		}
	}
	if _, err := config.Load(config.Sources{Files: s.Config}); err != nil {
		return "as things are, clients cannot start metamcp with this entry: " + err.Error()
	}
	return ""
}

// readElsewhere says that clients will read other files than metamcp does here, where
// their entries name none; "": they read the same. again is the command line without
// --config.
func readElsewhere(s *clients.Setup, changes []*clients.Change, again string) string {
	looks := func(c *clients.Change) bool { return c.Looks && c.Status != clients.StatusFailed }
	here := onlyHere(s)
	if len(s.Config) > 0 || here == nil || !slices.ContainsFunc(changes, looks) {
		return ""
	}
	return fmt.Sprintf("metamcp reads %s here, and clients that start elsewhere do not: %s%s", strings.Join(here, " and "), again, configFlags(here...))
}

// afterInit says what a person does next.
func afterInit(cmd *cobra.Command, s *clients.Setup, changes []*clients.Change) {
	written := false
	for _, c := range changes {
		written = written || c.Written
	}
	if !written {
		return
	}
	out := cmd.OutOrStdout()
	fmt.Fprintln(out, "Restart the clients to use it; metamcp init --undo takes it back.")
	files := s.Config
	if len(files) == 0 {
		files = s.OwnFiles
	}
	for _, f := range files {
		if _, err := os.Stat(f); err == nil {
			return
		}
	}
	fmt.Fprintf(out, "metamcp has no servers yet: metamcp import --remove%s moves those of your clients behind it.\n", configFlags(first(s.Config)))
}

// onlyHere are the files that metamcp reads in this folder with these variables, where
// one that a client starts in another folder reads others; nil: it reads the same.
func onlyHere(s *clients.Setup) []string {
	read, _ := config.FilesOf(config.Sources{})
	everywhere := filepath.Join(s.Home, ".metamcp", "mcp.json")
	if !slices.ContainsFunc(read, func(f string) bool { return !clients.SameFile(f, everywhere) }) {
		return nil
	}
	return read
}
