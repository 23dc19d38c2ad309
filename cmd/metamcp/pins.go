package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/messages"
)

func newPins(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pins", Short: "Show which tools were accepted, and which say something else by now", Args: args(noArgs),
		Example: `  metamcp pins list
  metamcp pins diff github`,
		Long: `What a server's tools say of themselves is accepted when they are listed first.
Tools that say something else later, and new ones, are shown here until metamcp
approve accepts them; trust.pins says what becomes of them meanwhile.`,
	}
	cmd.AddCommand(newPinsList(c), newPinsDiff(c))
	return cmd
}

// pinStore is where it is written what was accepted.
func (c *common) pinStore() (*pins.Store, *config.Config, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		var wrong error
		if cfg, wrong = c.withoutFiles(); wrong != nil {
			return nil, nil, err
		}
	}
	if cfg.Settings.StateDir == "" {
		return nil, nil, errors.New("there is no state folder, so nothing is kept of what was accepted; set --state-dir")
	}
	return pins.NewStore(cfg.Settings.StateDir), cfg, nil
}

// pinned reads what was accepted of a server that has to be known.
func pinned(store *pins.Store, server string) (*pins.Server, error) {
	s := store.Load(server)
	switch {
	case s.Problem() != "":
		return nil, fmt.Errorf("it is not known what was accepted of %s: %s; mend the file, or delete it to have what the server says next accepted", printable(server), printable(s.Problem()))
	case s.Pinned():
		return s, nil
	}
	known, _, err := store.Servers()
	if err != nil {
		return nil, err
	}
	text := "no server has listed its tools with trust.pins on"
	if len(known) > 0 {
		text = "known are: " + printable(strings.Join(known[:min(len(known), maxNamed)], ", "))
	}
	return nil, fmt.Errorf("nothing was accepted of a server %s yet; %s", printable(server), text)
}

// maxNamed is how many names an error lists.
const maxNamed = 20

// pinReport is one server for scripts.
type pinReport struct {
	Server     string           `json:"server"`
	Problem    string           `json:"problem,omitempty"`
	Since      time.Time        `json:"since,omitzero"`
	Accepted   int              `json:"accepted"`
	Changed    int              `json:"changed"`
	New        int              `json:"new"`
	Suspicious int              `json:"suspicious"`
	Tools      []pins.ToolState `json:"tools,omitempty"` // only of a server that was asked for
}

func newPinReport(name string, s *pins.Server) pinReport {
	r := pinReport{Server: name, Problem: s.Problem(), Since: s.Since(), Accepted: s.Accepted(), Suspicious: len(s.Signs())}
	for _, d := range s.Differences() {
		if d.Change == messages.ToolNew {
			r.New++
		} else {
			r.Changed++
		}
	}
	return r
}

func newPinsList(c *common) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list [SERVER]", Short: "List servers with accepted tools, or the tools of one", Args: args(maybeArg),
		Example: "  metamcp pins list\n  metamcp pins list github",
		RunE: func(cmd *cobra.Command, given []string) error {
			store, _, err := c.pinStore()
			if err != nil {
				return err
			}
			if len(given) == 1 {
				return listPinned(cmd.OutOrStdout(), store, given[0], asJSON)
			}
			names, problems, err := store.Servers()
			if err != nil {
				return err
			}
			reports := []pinReport{}
			for _, name := range names {
				reports = append(reports, newPinReport(name, store.Load(name)))
			}
			for _, p := range problems {
				fmt.Fprintln(cmd.ErrOrStderr(), "metamcp:", printable(p))
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), reports)
			}
			return printPins(cmd.OutOrStdout(), reports)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printPins(out io.Writer, reports []pinReport) error {
	if len(reports) == 0 {
		_, err := fmt.Fprintln(out, "nothing was accepted yet; that happens when a server lists its tools first")
		return err
	}
	t := table{width: terminalWidth(out)}
	t.row("SERVER", "ACCEPTED", "CHANGED", "NEW", "SUSPICIOUS", "SINCE", "PROBLEM")
	for _, r := range reports {
		since := ""
		if !r.Since.IsZero() {
			since = clock(r.Since)
		}
		t.row(printable(r.Server), strconv.Itoa(r.Accepted), strconv.Itoa(r.Changed), strconv.Itoa(r.New), strconv.Itoa(r.Suspicious), since, printable(r.Problem))
	}
	return t.print(out)
}

func listPinned(out io.Writer, store *pins.Store, server string, asJSON bool) error {
	s, err := pinned(store, server)
	if err != nil {
		return err
	}
	if asJSON {
		r := newPinReport(server, s)
		r.Tools = s.Tools()
		return printJSON(out, r)
	}
	t := table{width: terminalWidth(out)}
	t.row("TOOL", "IS", "HASH", "SUSPICIOUS")
	for _, tool := range s.Tools() {
		is := "accepted"
		switch {
		case len(tool.Parts) > 0:
			is = string(tool.Change) + ": " + strings.Join(tool.Parts, ", ")
		case tool.Change != "":
			is = string(tool.Change)
		}
		t.row(pins.Visible(tool.Tool), is, tool.Hash, strings.Join(tool.Signs, ", "))
	}
	return t.print(out)
}

// pinDiff is a difference for scripts.
type pinDiff struct {
	Tool   string              `json:"tool"`
	Change messages.ToolChange `json:"change"`
	Parts  []string            `json:"parts,omitempty"`
	Signs  []string            `json:"suspicious,omitempty"`
	Hash   string              `json:"hash"` // the beginning, of the new definition
	Diff   string              `json:"diff"`
}

func pinDiffs(cfg *config.Config, server string, list []pins.Difference) []pinDiff {
	shown := withoutSecrets(cfg)
	out := []pinDiff{}
	for i := range list {
		d := &list[i]
		out = append(out, pinDiff{d.Tool, d.Change, d.Parts, d.New.Signs, d.New.Short(), shown(d.Diff(server))})
	}
	return out
}

func newPinsDiff(c *common) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "diff SERVER [TOOL…]", Short: "Show what tools say that was not accepted", Args: args(someArgs),
		Long: `Show, as a unified diff of the definitions, what tools of a server said when it
listed them last and what was accepted. Characters that nobody sees are written
as their code points: <U+200B>.

Exit status: 1 where something differs, as of diff.`,
		Example: "  metamcp pins diff github",
		RunE: func(cmd *cobra.Command, given []string) error {
			store, cfg, err := c.pinStore()
			if err != nil {
				return err
			}
			s, err := pinned(store, given[0])
			if err != nil {
				return err
			}
			list, err := chosen(given[0], s.Differences(), given[1:])
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), pinDiffs(cfg, given[0], list))
			} else {
				err = printDiffs(cmd.OutOrStdout(), cfg, given[0], list)
			}
			if err == nil && len(list) > 0 {
				err = statusError(exitFailed)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// chosen are the differences of these tools; without names all.
func chosen(server string, list []pins.Difference, names []string) ([]pins.Difference, error) {
	if len(names) == 0 {
		return list, nil
	}
	var out []pins.Difference
	for _, name := range names {
		i := slices.IndexFunc(list, func(d pins.Difference) bool { return d.Tool == name })
		if i < 0 {
			waiting := "nothing of it does"
			if len(list) > 0 {
				var tools []string
				for _, d := range list[:min(len(list), maxNamed)] {
					tools = append(tools, pins.Visible(d.Tool))
				}
				waiting = "these do: " + strings.Join(tools, ", ")
			}
			return nil, usageError{fmt.Errorf("%s of %s does not wait to be accepted; %s", printable(name), printable(server), waiting)}
		}
		if !slices.ContainsFunc(out, func(d pins.Difference) bool { return d.Tool == name }) {
			out = append(out, list[i])
		}
	}
	return out, nil
}

func printDiffs(out io.Writer, cfg *config.Config, server string, list []pins.Difference) error {
	if len(list) == 0 {
		_, err := fmt.Fprintf(out, "nothing of %s waits to be accepted: its tools were as accepted when a host listed them last\n", printable(server))
		return err
	}
	shown := withoutSecrets(cfg)
	for i := range list {
		d := &list[i]
		if _, err := fmt.Fprint(out, shown(d.Diff(server))); err != nil {
			return err
		}
		var signs []string
		for _, sign := range d.New.Signs {
			if sign != pins.SignUnexamined {
				signs = append(signs, sign)
				continue
			}
			fmt.Fprintf(out, "! %s: too long to be examined whole\n", pins.Visible(d.Tool))
		}
		if len(signs) > 0 {
			fmt.Fprintf(out, "! %s: texts that read like orders to a model: %s\n", pins.Visible(d.Tool), strings.Join(signs, ", "))
		}
	}
	return nil
}

// approval is what was accepted, for scripts.
type approval struct {
	Server   string    `json:"server"`
	Accepted []pinDiff `json:"accepted"`
	Waiting  []string  `json:"waiting"` // tools that still do
}

func newApprove(c *common) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use: "approve SERVER [TOOL…]", Short: "Accept what tools of a server say by now", Args: args(someArgs),
		Long: `Show what tools of a server say that was not accepted, and accept it: of the named
tools, or of all. Without names and without --all you are asked. Running hosts take
it over within two seconds.

Exit status: 1 where something could not be accepted, or you said no; 2 wrong usage,
or neither names nor --all where nobody can be asked.`,
		Example: "  metamcp approve github\n  metamcp approve github create_issue\n  metamcp approve github --all --json",
		RunE: func(cmd *cobra.Command, given []string) error {
			server := given[0]
			if all && len(given) > 1 {
				return usageError{errors.New("--all takes all tools; leave it out to accept only the named ones")}
			}
			store, cfg, err := c.pinStore()
			if err != nil {
				return err
			}
			s, err := pinned(store, server)
			if err != nil {
				return err
			}
			waiting := s.Differences()
			list, err := chosen(server, waiting, given[1:])
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if !asJSON {
				if err := printDiffs(out, cfg, server, list); err != nil {
					return err
				}
			}
			if len(given) == 1 && !all && len(list) > 0 {
				switch {
				case asJSON || !interactive(cmd):
					return usageError{errors.New("nothing was accepted: name the tools, or add --all")}
				case !confirmed(cmd.InOrStdin(), out, fmt.Sprintf("Accept %s", counted(uint64(len(list)), "tool", "tools"))):
					fmt.Fprintln(out, "Nothing was accepted.")
					return statusError(exitFailed)
				}
			}
			return interruptible(cmd.Context(), "run it again", func(ctx context.Context) error {
				return c.approve(ctx, cmd, store, cfg, server, list, waiting, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all tools of the server that wait")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *common) approve(ctx context.Context, cmd *cobra.Command, store *pins.Store, cfg *config.Config, server string, list, waiting []pins.Difference, asJSON bool) error {
	if err := store.Approve(ctx, server, list); err != nil {
		return err
	}
	if len(list) > 0 {
		c.auditApproval(ctx, cfg, server, list)
	}
	left := []string{}
	for _, d := range waiting {
		if !slices.ContainsFunc(list, func(o pins.Difference) bool { return o.Tool == d.Tool }) {
			left = append(left, d.Tool)
		}
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), approval{server, pinDiffs(cfg, server, list), left})
	}
	if len(list) > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "accepted: %s of %s\n", counted(uint64(len(list)), "tool", "tools"), printable(server))
	}
	if len(left) > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "still waiting: %s\n", pins.Visible(strings.Join(left, ", ")))
	}
	return nil
}

// auditApproval records who accepted what. The log of a running host is held by
// it, so this is a chain of its own beside it.
func (c *common) auditApproval(ctx context.Context, cfg *config.Config, server string, list []pins.Difference) {
	if cfg.Settings.Audit.File == "" {
		return
	}
	complain := func(err error) { fmt.Fprintln(c.stderr, "metamcp: the approval is not in the audit log:", err) }
	log, err := audit.Open(audit.Options{Path: cfg.Settings.Audit.File, Name: fmt.Sprintf("approve-%d", os.Getpid()), OnProblem: complain})
	if err != nil {
		complain(err)
		return
	}
	for i := range list {
		log.Append(audit.Entry{Kind: audit.KindPins, Server: server, Tool: list[i].Tool, Decision: &audit.Decision{
			Decision: "approved", Reason: pins.Visible(list[i].String()) + ", hash " + list[i].New.Short(),
		}})
	}
	if err := log.Close(ctx); err != nil {
		complain(err)
	}
}
