package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
)

func newDiscover(c *common) *cobra.Command {
	var ask metamcp.DiscoverRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "discover [QUERY]",
		Short: "List servers, or find tools",
		Long: `Without a query: the configured servers. With one: the tools that fit it best.
--server lists one server's tools, --server with --tool shows one tool whole.`,
		Example: `  metamcp discover
  metamcp discover "take a screenshot of a page"
  metamcp discover --server github --tool list_issues`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ask.Query = strings.Join(args, " ")
			return withEngine(cmd.Context(), c, func(ctx context.Context, e *metamcp.Engine) error {
				a, err := e.Discover(ctx, ask)
				if err != nil {
					return err
				}
				if asJSON || a.Tool != nil {
					enc := json.NewEncoder(cmd.OutOrStdout())
					enc.SetIndent("", "  ")
					enc.SetEscapeHTML(false)
					return enc.Encode(a)
				}
				return printAnswer(cmd.OutOrStdout(), a)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&ask.Server, "server", "", "only this server")
	f.StringVar(&ask.Tool, "tool", "", "with --server: this tool, whole")
	f.IntVar(&ask.Limit, "limit", 0, "at most so many, up to 100")
	f.StringVar(&ask.Detail, "detail", "", "brief or full")
	f.BoolVar(&asJSON, "json", false, "print what a model would get")
	return cmd
}

// stateWord is a server's state for people: a command has just begun, so most
// servers have no connection that could be idle.
func stateWord(s metamcp.ServerLine) string {
	switch {
	case s.Disabled:
		return "disabled"
	case s.State == "IDLE" && !s.Connected:
		return "not started"
	}
	return strings.ToLower(s.State)
}

func printAnswer(out io.Writer, a *metamcp.DiscoverAnswer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	switch {
	case len(a.Servers) > 0:
		fmt.Fprintln(w, "SERVER\tSTATE\tTOOLS\tDESCRIPTION")
		for _, s := range a.Servers {
			tools := "?"
			if s.Enabled != nil {
				tools = strconv.Itoa(*s.Enabled)
			}
			text := s.Description
			if s.Error != "" {
				text = s.Error
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, stateWord(s), tools, text)
		}
	case len(a.Matches) > 0:
		fmt.Fprintln(w, "SCORE\tSERVER\tTOOL\tSUMMARY")
		for _, m := range a.Matches {
			fmt.Fprintf(w, "%.2f\t%s\t%s\t%s\n", m.Score, m.Server, m.Tool, m.Summary)
		}
	case len(a.Tools) > 0:
		fmt.Fprintln(w, "TOOL\tSUMMARY")
		for _, t := range a.Tools {
			fmt.Fprintf(w, "%s\t%s\n", t.Name, t.Summary)
		}
	case a.Matches != nil:
		fmt.Fprintln(w, "nothing found")
	}
	for _, f := range a.Failed {
		fmt.Fprintf(w, "failed: %s: %s\n", f.Server, f.Error)
	}
	if len(a.Pending) > 0 {
		fmt.Fprintf(w, "not ready in time: %s (--discover-timeout waits longer)\n", strings.Join(a.Pending, ", "))
	}
	if a.Omitted > 0 {
		fmt.Fprintf(w, "%d more left out (--limit, --budget-tokens)\n", a.Omitted)
	}
	return w.Flush()
}
