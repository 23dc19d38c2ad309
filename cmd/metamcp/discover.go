package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// settleTime is how long a single search waits for tools to be embedded. Those
// of the last time are kept, so only the first search takes it.
const settleTime = 5 * time.Second

func newDiscover(c *common) *cobra.Command {
	var ask metamcp.DiscoverRequest
	var asJSON, refresh bool
	cmd := &cobra.Command{
		Use:   "discover [QUERY]",
		Short: "List servers, or find tools",
		Long: `Without a query: the configured servers, and the skills that there are. With one:
the tools and skills that fit it best.
--server lists one server's tools, --server with --tool shows one tool whole.

A search waits two seconds for servers that nothing is known of where others
have answers, else --discover-timeout. With --server, and where npx, uvx or the
like may have to download a server first, it waits as long as that may take.`,
		Example: `  metamcp discover
  metamcp discover "take a screenshot of a page"
  metamcp discover --server github --tool list_issues
  metamcp discover --server github --refresh`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("limit") && (ask.Limit < 1 || ask.Limit > config.MaxSearchLimit) {
				return usageError{fmt.Errorf("--limit %d: use a number from 1 to %d", ask.Limit, config.MaxSearchLimit)}
			}
			if d := ask.Detail; d != "" && d != "brief" && d != "full" {
				return usageError{fmt.Errorf("--detail %q: use brief or full", d)}
			}
			if ask.Tool != "" && ask.Server == "" {
				return usageError{errors.New("--tool shows one tool of a server: name that with --server, or search with words")}
			}
			if refresh && ask.Server == "" {
				return usageError{errors.New("--refresh asks one server for its tools anew: name it with --server")}
			}
			ask.Query, ask.Settle = strings.Join(args, " "), settleTime
			c.about(ask.Server)
			return withEngine(cmd, c, "no tool was called", func(ctx context.Context, e *metamcp.Engine) error {
				var a *metamcp.DiscoverAnswer
				err := whileWaiting(os.Stderr, isTerminal(os.Stderr), untraced(e, waitingFor(ask.Server)), sayWaiting, func(io.Writer) (err error) {
					if refresh {
						if err := e.Refresh(ctx, ask.Server); err != nil {
							return err
						}
					}
					if a, err = e.Discover(ctx, ask); err == nil {
						err = ctx.Err() // what a search has when it is given up is no answer
					}
					return err
				})
				if err != nil {
					return err
				}
				if asJSON || a.Tool != nil {
					enc := json.NewEncoder(shown(cmd.OutOrStdout()))
					enc.SetIndent("", "  ")
					enc.SetEscapeHTML(false)
					return enc.Encode(a)
				}
				return printAnswer(cmd, shown(cmd.OutOrStdout()), a)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&ask.Server, "server", "", "only this server")
	f.StringVar(&ask.Tool, "tool", "", "with --server: this tool, whole")
	f.BoolVar(&refresh, "refresh", false, "with --server: ask it for its tools anew, and not the cache")
	f.IntVar(&ask.Limit, "limit", 0, fmt.Sprintf("at most so many, 1 to %d (default: the setting search.limit)", config.MaxSearchLimit))
	f.StringVar(&ask.Detail, "detail", "", "brief, or full: TypeScript signatures, and with --json all schemas")
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

// printAnswer shows an answer to a person. On a terminal a line is not longer
// than that is wide.
func printAnswer(cmd *cobra.Command, out io.Writer, a *metamcp.DiscoverAnswer) error {
	t := table{width: terminalWidth(out)}
	switch {
	case len(a.Servers) > 0:
		t.row("SERVER", "STATE", "TOOLS", "DESCRIPTION")
		for _, s := range a.Servers {
			tools := "?"
			switch {
			case s.Enabled != nil:
				tools = strconv.Itoa(*s.Enabled)
			case s.Tools != nil:
				tools = strconv.Itoa(*s.Tools)
			}
			text := s.Description
			if s.Error != "" {
				text = s.Error
			}
			t.row(s.Name, stateWord(s), tools, tagged(text, serverMarks(&s)...))
		}
	case len(a.Matches) > 0:
		t.row("SCORE", "SERVER", "TOOL", "SUMMARY")
		for _, m := range a.Matches {
			server := m.Server
			if m.Connected {
				server += "*"
			}
			t.row(fmt.Sprintf("%.2f", m.Score), server, m.Tool, tagged(m.Summary, toolMarks(m.Tags, &m.Marks)...))
		}
	case len(a.Tools) > 0:
		t.row("TOOL", "SUMMARY")
		for _, tool := range a.Tools {
			t.row(tool.Name, tagged(tool.Summary, toolMarks(tool.Tags, &tool.Marks)...))
		}
	}
	if err := t.print(out); err != nil {
		return err
	}
	if err := printSignatures(out, a); err != nil {
		return err
	}
	if len(a.Skills) > 0 {
		skills := table{width: terminalWidth(out)}
		skills.row("SKILL", "READY", "REQUIRES", "DESCRIPTION")
		for _, s := range a.Skills {
			skills.row(s.Name, yesNo(s.Ready), required(s.Requires), tagged(s.Description, toolMarks(nil, &metamcp.Marks{Hidden: s.Hidden})...))
		}
		if err := skills.print(out); err != nil {
			return err
		}
		for _, s := range a.Skills {
			if _, err := fmt.Fprintf(out, "%s: %s\n", printable(s.Name), printable(s.Path)); err != nil {
				return err
			}
		}
	}
	var below []string
	if a.Matches != nil && len(a.Matches) == 0 {
		below = append(below, "nothing found")
	}
	for _, f := range a.Failed {
		below = append(below, fmt.Sprintf("failed: %s: %s", f.Server, f.Error))
	}
	if len(a.Pending) > 0 {
		below = append(below, fmt.Sprintf("not ready in time: %s (metamcp discover --server %s waits until it has started)", strings.Join(a.Pending, ", "), messages.ShellWord(a.Pending[0])))
	}
	if a.Omitted > 0 {
		below = append(below, fmt.Sprintf("%d more left out (--limit, --budget-tokens)", a.Omitted))
	}
	if i := slices.IndexFunc(a.Servers, func(s metamcp.ServerLine) bool { return len(serverMarks(&s)) > 0 }); i >= 0 {
		below = append(below, "to see which tools of a server are marked: metamcp pins list "+messages.ShellWord(a.Servers[i].Name))
	}
	if len(a.Matches) > 0 {
		best := a.Matches[0]
		legend := ""
		if slices.ContainsFunc(a.Matches, func(m metamcp.MatchLine) bool { return m.Connected }) {
			legend = "* connected; "
		}
		below = append(below, fmt.Sprintf("%sto see one whole: metamcp discover --server %s --tool %s", legend, messages.ShellWord(best.Server), messages.ShellWord(best.Tool)))
	}
	for _, note := range notesFor(a) {
		below = append(below, shellHint(note, a.Server, ""))
	}
	for _, line := range below {
		if _, err := fmt.Fprintln(out, withSources(cmd, line)); err != nil {
			return err
		}
	}
	return nil
}

// notesFor are an answer's notes on what a person sees of it, which is no schema.
func notesFor(a *metamcp.DiscoverAnswer) []string {
	at := slices.Index(a.Notes, metamcp.SchemasNote)
	switch {
	case at < 0:
		return a.Notes
	case a.SignaturesCut:
		notes := slices.Clone(a.Notes)
		notes[at] = "Some signatures are left out; mcp_discover with server and tool shows one."
		return notes
	}
	return slices.Concat(a.Notes[:at], a.Notes[at+1:])
}

// printSignatures shows tools as code calls them, which detail "full" asks for.
func printSignatures(out io.Writer, a *metamcp.DiscoverAnswer) error {
	var all []string
	for _, m := range a.Matches {
		all = append(all, m.Signature)
	}
	for _, tool := range a.Tools {
		all = append(all, tool.Signature)
	}
	for _, signature := range all {
		if signature == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%s\n", strings.TrimRight(signature, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// required lists what a skill requires, and what of it is not well.
func required(list []metamcp.RequiredLine) string {
	words := make([]string, len(list))
	for i, r := range list {
		words[i] = r.Server
		if r.State != metamcp.SkillServerLive && r.State != metamcp.SkillServerConfigured {
			words[i] += " (" + r.State + ")"
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, ", ")
}

// toolMarks are what stands before a tool's text: what is to be said of its definition,
// as the notes call it, which must not be cut off, and the user's tags.
func toolMarks(tags []string, m *metamcp.Marks) (list []string) {
	if len(m.Suspicious) > 0 {
		list = append(list, "suspicious: "+strings.Join(m.Suspicious, ", "))
	}
	if m.Changed != "" {
		list = append(list, string(m.Changed))
	}
	if m.Hidden {
		list = append(list, "hiddenText")
	}
	if len(tags) > 0 {
		list = append(list, strings.Join(tags, " "))
	}
	return list
}

// serverMarks count the tools of a server that a person should look at.
func serverMarks(s *metamcp.ServerLine) (list []string) {
	for _, c := range []struct {
		tools int
		are   string
	}{{s.Held, "held back"}, {s.Changed, "changed"}, {s.Suspicious, "suspicious"}} {
		if c.tools > 0 {
			list = append(list, strconv.Itoa(c.tools)+" "+c.are)
		}
	}
	return list
}

// tagged is a text behind its marks.
func tagged(text string, marks ...string) string {
	for _, m := range slices.Backward(marks) {
		text = "[" + m + "] " + text
	}
	return text
}
