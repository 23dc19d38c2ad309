package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/clients"
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
