package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/integration/config"
)

func newAudit(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Read and check the audit log", Args: args(noArgs),
		Example: `  metamcp audit list
  metamcp audit verify`,
		Long: `The audit log holds one line for every execution of a tool and every
provisioning decision. FILE is the configured one (audit.file) unless it is given;
the logs of hosts that ran beside each other (audit-2.jsonl and so on) are read too.`,
	}
	cmd.AddCommand(newAuditVerify(c), newAuditHead(c), newAuditList(c))
	return cmd
}

// auditFile is the file that was given, or the configured one.
func (c *common) auditFile(given []string) (string, error) {
	if len(given) > 0 {
		return given[0], nil
	}
	cfg, err := config.Load(c.sources())
	if err != nil {
		return "", err
	}
	if cfg.Settings.Audit.File == "" {
		return "", errors.New("the configuration has no audit log (audit.file is off, or there is no state folder); name the FILE to read")
	}
	return cfg.Settings.Audit.File, nil
}

// auditChains are the logs beside the file; none is an error.
func (c *common) auditChains(given []string) ([]string, error) {
	path, err := c.auditFile(given)
	if err != nil {
		return nil, err
	}
	chains, err := audit.Chains(path)
	if err == nil && len(chains) == 0 {
		err = fmt.Errorf("there is no audit log at %s; a host that runs writes one", path)
	}
	return chains, err
}

func newAuditVerify(c *common) *cobra.Command {
	var asJSON bool
	var noted []string
	cmd := &cobra.Command{
		Use: "verify [FILE]", Short: "Check that nobody has changed the audit log", Args: args(maybeArg),
		Example: `  metamcp audit verify
  metamcp audit verify --head "$(cat /safe/place/audit.head)"
  metamcp audit verify /backup/audit.jsonl --json`,
		Long: `Check the chain of hashes over all files of the audit log. --head names an end
that metamcp audit head has printed before and that was kept elsewhere: without
one, nobody can tell a log that was rewritten as a whole.

Exit status: 0 the log is whole, 1 it is broken or cannot be read.`,
		RunE: func(cmd *cobra.Command, given []string) error {
			var heads []audit.Head
			for _, text := range noted {
				// The file into which audit head was written has a line for each log.
				for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
					h, err := audit.ParseHead(line)
					if err != nil {
						return usageError{err}
					}
					heads = append(heads, h)
				}
			}
			path, err := c.auditFile(given)
			if err != nil {
				return err
			}
			reports, err := audit.VerifyAll(cmd.Context(), path, heads...)
			if err != nil {
				return err
			}
			if len(reports) == 0 {
				return fmt.Errorf("there is no audit log at %s; a host that runs writes one", path)
			}
			if err := printAudit(shown(cmd.OutOrStdout()), reports, asJSON); err != nil {
				return err
			}
			if slices.ContainsFunc(reports, func(r audit.Report) bool { return !r.Whole() }) {
				return statusError(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringArrayVar(&noted, "head", nil, "an end that the log must contain, as `SEQ:HASH` or HASH, or the lines that audit head printed; may be repeated")
	return cmd
}

// auditReport is a report for scripts.
type auditReport struct {
	Whole bool `json:"whole"`
	audit.Report
}

func printAudit(out io.Writer, reports []audit.Report, asJSON bool) error {
	if asJSON {
		all := make([]auditReport, len(reports))
		for i := range reports {
			all[i] = auditReport{reports[i].Whole(), reports[i]}
		}
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	for i := range reports {
		if err := printChain(out, &reports[i]); err != nil {
			return err
		}
	}
	return nil
}

func printChain(out io.Writer, r *audit.Report) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	verdict := "whole"
	if !r.Whole() {
		verdict = "BROKEN"
	}
	fmt.Fprintf(w, "%s\t%s\n", r.Path, verdict)
	fmt.Fprintf(w, "  entries\t%d (%d to %d) in %s\n", r.Entries, r.FirstSeq, r.LastSeq, counted(len(r.Files), "file", "files"))
	if r.Entries > 0 {
		fmt.Fprintf(w, "  time\t%s to %s\n", clock(r.FirstTime), clock(r.LastTime))
	}
	if r.AfterHead > 0 {
		fmt.Fprintf(w, "  open end\t%s later than the head file: a host runs, or was killed\n", counted(r.AfterHead, "entry is", "entries are"))
	}
	if r.Torn > 0 {
		fmt.Fprintf(w, "  torn\t%s that a crash left behind\n", counted(r.Torn, "piece of a line", "pieces of lines"))
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(w, "  gap\t%s found no room before entry %d, %s\n", counted(g.Lost, "entry", "entries"), g.Seq, clock(g.Time))
	}
	for _, b := range r.Breaks {
		at := b.File
		if b.Line > 0 {
			at += ":" + strconv.Itoa(b.Line)
		}
		fmt.Fprintf(w, "  %s\t%s: %s\n", b.Kind, at, printable(b.Why))
	}
	if r.MoreBreaks > 0 {
		fmt.Fprintf(w, "  more\t%s left out here\n", counted(r.MoreBreaks, "break is", "breaks are"))
	}
	return w.Flush()
}

func newAuditHead(c *common) *cobra.Command {
	return &cobra.Command{
		Use: "head [FILE]", Short: "Print the end of the audit log, to be kept elsewhere", Args: args(maybeArg),
		Example: `  metamcp audit head > /safe/place/audit.head`,
		Long: `Print number and hash of the last entry, one line for each host's log. Keep it
where nobody who can write to the log can write; metamcp audit verify --head
then shows that nothing up to that entry was rewritten.`,
		RunE: func(cmd *cobra.Command, given []string) error {
			chains, err := c.auditChains(given)
			if err != nil {
				return err
			}
			for _, chain := range chains {
				h, err := audit.CurrentHead(chain)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(shown(cmd.OutOrStdout()), "%s  %s\n", h, chain); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// counted is a number with the word for what it counts.
func counted[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// printable keeps what stands in a log, which anybody may have written, from
// steering the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}
