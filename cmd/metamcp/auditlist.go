package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/audit"
)

// auditFilter chooses entries.
type auditFilter struct {
	server, tool string
	since        time.Time // zero: all
	errors       bool
	limit        int // 0: none
}

func (f *auditFilter) takes(r *audit.Record) bool {
	return (f.server == "" || r.Server == f.server) && (f.tool == "" || r.Tool == f.tool || r.Method == f.tool) &&
		!r.Time.Before(f.since) && (!f.errors || r.Failed())
}

func newAuditList(c *common) *cobra.Command {
	const defaultLimit = 1000
	var f auditFilter
	var since string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list [FILE]", Short: "Show the entries of the audit log, the newest last", Args: args(maybeArg),
		Example: `  metamcp audit list --server github --since 24h
  metamcp audit list --errors --json | jq -r .tool`,
		RunE: func(cmd *cobra.Command, given []string) error {
			var err error
			if f.since, err = moment(since, time.Now()); err != nil {
				return usageError{err}
			}
			if f.limit < 0 {
				return usageError{errors.New("--limit is a number of entries, or 0 for all")}
			}
			chains, err := c.auditChains(given)
			if err != nil {
				return err
			}
			found, older, err := auditEntries(chains, &f)
			if err != nil {
				return err
			}
			if older > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s left out; --limit 0 shows all\n", counted(older, "older entry is", "older entries are"))
			}
			return printEntries(shown(cmd.OutOrStdout()), found, asJSON)
		},
	}
	cmd.Flags().StringVar(&f.server, "server", "", "only those of this server")
	cmd.Flags().StringVar(&f.tool, "tool", "", "only those of this tool")
	cmd.Flags().StringVar(&since, "since", "", "only later ones: `24h`, 2026-01-31, or a time as in the log")
	cmd.Flags().BoolVar(&f.errors, "errors", false, "only what failed or was lost")
	cmd.Flags().IntVar(&f.limit, "limit", defaultLimit, "how many at most, the newest ones; 0: all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the lines of the log as they are")
	return cmd
}

// moment reads a time, or how long ago it was; "" is the zero time.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since %q: use how long ago, such as 24h, a day such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z", text)
}

// auditEntries returns what the filter takes of all chains, by time, and how
// many older entries its limit left out.
func auditEntries(chains []string, f *auditFilter) (found []audit.Record, older int, err error) {
	byTime := func(a, b audit.Record) int { return a.Time.Compare(b.Time) }
	trim := func(all []audit.Record) []audit.Record {
		if n := len(all) - f.limit; f.limit > 0 && n > 0 {
			older += n
			all = slices.Delete(all, 0, n)
		}
		return all
	}
	for _, chain := range chains {
		var own []audit.Record
		for r, err := range audit.Records(chain) {
			if err != nil {
				return nil, 0, err
			}
			if !f.takes(&r) {
				continue
			}
			if own = append(own, r); f.limit > 0 && len(own) >= 2*f.limit {
				own = trim(own)
			}
		}
		found = append(found, trim(own)...)
	}
	slices.SortStableFunc(found, byTime)
	return trim(found), older, nil
}

func printEntries(out io.Writer, found []audit.Record, asJSON bool) error {
	if asJSON {
		for _, r := range found {
			if _, err := fmt.Fprintf(out, "%s\n", r.Raw); err != nil {
				return err
			}
		}
		return nil
	}
	t := table{width: terminalWidth(out)}
	t.row("TIME", "REQUEST", "KIND", "CLIENT", "SERVER", "TOOL", "OUTCOME", "MS", "WHAT ELSE")
	for _, r := range found {
		ms := ""
		if r.Kind == audit.KindCall || r.Kind == audit.KindExecute {
			ms = strconv.FormatFloat(r.DurationMs, 'f', 1, 64)
		}
		request := ""
		if r.Request != 0 { // the calls of a script have that of the script
			request = strconv.FormatUint(r.Request, 10)
		}
		t.row(clock(r.Time), request, printable(string(r.Kind)), printable(r.Client.Name), printable(r.Server), printable(cmp.Or(r.Method, r.Tool)), printable(r.Outcome), ms, printable(besides(&r)))
	}
	return t.print(out)
}

// besides is what has no column.
func besides(r *audit.Record) string {
	switch r.Kind {
	case audit.KindGap:
		return counted(r.Lost, "entry was", "entries were") + " lost here"
	case audit.KindProvision:
		if d := r.Decision; d != nil {
			return fmt.Sprintf("%s %s %s %s", d.Decision, d.Package, d.Version, d.Reason)
		}
	case audit.KindPins:
		if d := r.Decision; d != nil {
			return d.Decision + ": " + d.Reason
		}
	case audit.KindStart, audit.KindStop, audit.KindRotate:
		text := fmt.Sprintf("host %s, pid %d", r.Host.Name, r.Host.PID)
		if r.Found != "" {
			text += ": " + r.Found
		}
		return text
	case audit.KindCall, audit.KindExecute:
		if r.Retries > 0 {
			return counted(r.Retries, "retry", "retries")
		}
	}
	return ""
}
