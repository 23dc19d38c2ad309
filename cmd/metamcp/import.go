package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
)

func newImport(c *common) *cobra.Command {
	var f fileFlags
	var remove bool
	cmd := &cobra.Command{
		Use: "import [CLIENT...]", Short: "Take the MCP servers of the LLM clients into metamcp's configuration",
		Long: `Read the MCP servers out of the files of the LLM clients and write them into
metamcp's configuration: that of --config, else of METAMCP_CONFIG, else
~/.metamcp/mcp.json. A server that is there already, or that two clients have,
is taken once, turned on where one client has it on; of two servers of one name the
second one gets a new name. The clients' files stay as they are unless --remove is
given, and a server that is on there and off in metamcp's configuration stays there.

Values of variables and headers are copied, and never shown.`,
		Example: `  metamcp import --dry-run
  metamcp import cursor claude-code
  metamcp import --remove && metamcp init
  metamcp import --undo`,
		RunE: func(cmd *cobra.Command, given []string) error {
			list, err := named(given)
			if err != nil {
				return err
			}
			if f.undo && len(list) > 0 {
				return usageError{errors.New("--undo takes no clients: their servers and metamcp's configuration belong together")}
			}
			s, err := c.setup()
			if err != nil {
				return err
			}
			if f.undo {
				return f.undoChanges(cmd, s, "import", nil)
			}
			target, err := importTarget(s)
			if err != nil {
				return err
			}
			plan, err := s.PlanImport(clients.ImportOptions{Clients: list, Project: f.project, Target: target, Remove: remove})
			if err != nil {
				return err
			}
			if !f.raw {
				if err := printTaken(shown(cmd.OutOrStdout()), plan); err != nil {
					return err
				}
			}
			err = f.finish(cmd, s, "import", plan.Changes, func(problem string) any {
				return importReport{Version: buildVersion(), DryRun: f.dryRun, Plan: plan, Error: problem}
			})
			taken := slices.ContainsFunc(plan.Servers, func(t *clients.Taken) bool { return t.Status != clients.TakenSkipped })
			declined := !f.dryRun && clients.Pending(plan.Changes)
			if err != nil || !taken || f.raw || declined {
				return err
			}
			if read, _ := config.FilesOf(c.sources()); len(read) > 0 && !slices.Contains(read, target) {
				fmt.Fprintf(cmd.OutOrStdout(), "metamcp reads %s here; use%s for these servers.\n", printable(read[0]), configFlags(target))
			}
			if !remove {
				again := "metamcp import"
				for _, client := range list {
					again += " " + client.ID
				}
				if f.project {
					again += " --project"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "The clients still start these servers themselves: %s --remove%s takes them out of their files.\n", again, configFlags(first(s.Config)))
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&remove, "remove", false, "take the servers out of the clients' files; metamcp init puts metamcp there")
	return cmd
}

// importReport is the answer for scripts.
type importReport struct {
	Version string `json:"version"`
	DryRun  bool   `json:"dryRun"`
	*clients.Plan
	Error string `json:"error,omitempty"`
}

// importTarget is the one file that gets the servers.
func importTarget(s *clients.Setup) (string, error) {
	files := s.Config
	if len(files) == 0 {
		files, _ = namedFiles(nil)
	}
	switch len(files) {
	case 0:
		return filepath.Join(s.Home, ".metamcp", "mcp.json"), nil
	case 1:
		return files[0], nil
	default:
		return "", usageError{errors.New("several configuration files are named; say with one --config which of them gets the servers")}
	}
}

func printTaken(out io.Writer, plan *clients.Plan) error {
	if len(plan.Servers) == 0 {
		fmt.Fprintln(out, "The clients have no servers to take.")
	} else {
		t := table{width: terminalWidth(out)}
		t.row("CLIENT", "SERVER", "BECOMES", "WHY")
		for _, s := range plan.Servers {
			becomes := printable(s.As)
			if s.Status == clients.TakenSkipped {
				becomes = "not taken"
			}
			t.row(s.Client, printable(s.Name), becomes, printable(s.Reason))
		}
		if err := t.print(out); err != nil {
			return err
		}
	}
	for _, s := range plan.Servers {
		for _, n := range s.Notes {
			fmt.Fprintf(out, "note: %s: %s\n", printable(s.As), printable(n))
		}
	}
	for _, n := range plan.Notes {
		fmt.Fprintf(out, "note: %s\n", printable(n))
	}
	return nil
}
