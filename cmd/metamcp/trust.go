package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/trust"
)

func newTrust(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "trust", Short: "Say which servers may be installed without asking", Args: args(noArgs),
		Example: `  metamcp trust add @stripe/*
  metamcp trust list`,
		Long: `The trust file (trust.file, or trusted-servers.json in stateDir) says which servers
metamcp may install by itself, and which never. An ENTRY is

  @scope/*  @scope/name  name              a scope or a package of npm
  pypi:NAME                                a package of PyPI
  oci:OWNER/*  oci:HOST/OWNER/NAME         images
  io.github.user/*  io.github.user/NAME    servers of an MCP registry, whatever they install
  remote:https://HOST/*                    servers behind a URL
  mcpb:https://HOST/OWNER/*                bundles

Trust is one condition of several: docs/TRUST.md has them all.`,
	}
	cmd.AddCommand(newTrustList(c), newTrustEdit(c, false), newTrustEdit(c, true))
	return cmd
}

// trustFile is where the trust file is.
func (c *common) trustFile() (string, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		return "", err
	}
	if cfg.Settings.TrustFile == "" {
		return "", errors.New("there is no state folder, so there is no trust file; set --trust-file or --state-dir")
	}
	return cfg.Settings.TrustFile, nil
}

func newTrustList(c *common) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "Show who is trusted and who is blocked", Args: args(noArgs),
		Example: `  metamcp trust list --json`,
		Long: `Show what the trust file says; a missing one is made.

Exit status: 1 where the file cannot be used, so that nobody is trusted.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := c.trustFile()
			if err != nil {
				return err
			}
			p := trust.Load(path)
			if asJSON {
				err = printJSON(shown(cmd.OutOrStdout()), newTrustReport(p))
			} else {
				err = printTrust(shown(cmd.OutOrStdout()), p)
			}
			if err != nil {
				return err
			}
			if p.Note != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "note:", printable(p.Note))
			}
			if p.Problem != "" {
				return fmt.Errorf("nobody is trusted, since the trust file cannot be used: %s", printable(p.Problem))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// trustReport is the trust file for scripts.
type trustReport struct {
	File      string       `json:"file"`
	Problem   string       `json:"problem,omitempty"`
	Threshold float64      `json:"threshold"`
	Trusted   []trustEntry `json:"trusted"`
	Blocked   []trustEntry `json:"blocked"`
}

type trustEntry struct {
	Entry string `json:"entry"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	All   bool   `json:"all"`
}

func newTrustReport(p *trust.Policy) trustReport {
	entries := func(list []trust.Entry) []trustEntry {
		out := []trustEntry{}
		for _, e := range list {
			out = append(out, trustEntry{e.Text, string(e.Kind), e.Name, e.All})
		}
		return out
	}
	return trustReport{p.File, p.Problem, p.Threshold, entries(p.Trusted), entries(p.Blocked)}
}

func printTrust(out io.Writer, p *trust.Policy) error {
	t := table{width: terminalWidth(out)}
	t.row("LIST", "KIND", "ENTRY")
	for _, e := range p.Trusted {
		t.row("trusted", string(e.Kind), e.Text)
	}
	for _, e := range p.Blocked {
		t.row("blocked", string(e.Kind), e.Text)
	}
	if len(t.rows) == 1 {
		_, err := fmt.Fprintln(out, "nobody is trusted, and nobody is blocked")
		return err
	}
	return t.print(out)
}

// trustChange is what became of one entry, for scripts.
type trustChange struct {
	List    trust.List `json:"list"`
	Entry   string     `json:"entry"`
	Changed bool       `json:"changed"`
	File    string     `json:"file"`
}

func newTrustEdit(c *common, remove bool) *cobra.Command {
	var asJSON, blocked, force bool
	cmd := &cobra.Command{
		Use: "add ENTRY…", Short: "Trust a namespace or a name, or block it", Args: args(someArgs),
		Long: `Add entries to the trust file; comments in it stay. With --block, what is named is
never installed by itself, whoever trusts it. A running host takes the change at
once.

A name that imitates a well-known one is refused.`,
		Example: `  metamcp trust add @stripe/* pypi:mcp-server-fetch
  metamcp trust add --block @evil/*`,
	}
	if remove {
		cmd.Use, cmd.Short = "remove ENTRY…", "Take entries out of the trust file"
		cmd.Long = "Take entries out of the list of who is trusted; with --block, out of who is blocked.\nComments in the file stay. What is installed already stays, too."
		cmd.Example = "  metamcp trust remove @stripe/*"
	} else {
		cmd.Flags().BoolVar(&force, "force", false, "trust a name even if it imitates another")
	}
	cmd.Flags().BoolVar(&blocked, "block", false, "the list of who is blocked")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		which := trust.TrustedList
		if blocked {
			which = trust.BlockedList
		}
		var entries []trust.Entry
		for _, text := range given {
			e, err := trust.ParseEntry(text)
			if err != nil {
				return usageError{err}
			}
			if im := trust.Suspicion(&e); im != nil && !remove && !blocked && !force {
				return fmt.Errorf("%s was not added: it imitates %s (%s); look twice, and use --force where it is meant", e.Text, im.Of, im.How)
			}
			entries = append(entries, e)
		}
		path, err := c.trustFile()
		if err != nil {
			return err
		}
		return interruptible(cmd.Context(), "run it again", func(ctx context.Context) error {
			return editTrust(ctx, shown(cmd.OutOrStdout()), path, which, entries, remove, asJSON)
		})
	}
	return cmd
}

func editTrust(ctx context.Context, out io.Writer, path string, which trust.List, entries []trust.Entry, remove, asJSON bool) error {
	changes := []trustChange{}
	for _, e := range entries {
		changed, err := trust.Edit(ctx, path, which, e, remove)
		if err != nil {
			return err
		}
		changes = append(changes, trustChange{which, e.Text, changed, path})
		if asJSON {
			continue
		}
		text := fmt.Sprintf("%s is %s now", e.Text, which)
		switch {
		case remove && changed:
			text = fmt.Sprintf("%s is not %s any more", e.Text, which)
		case remove:
			text = fmt.Sprintf("%s was not %s", e.Text, which)
		case !changed:
			text = fmt.Sprintf("%s is %s already", e.Text, which)
		}
		fmt.Fprintln(out, text)
	}
	if asJSON {
		return printJSON(out, changes)
	}
	return nil
}
