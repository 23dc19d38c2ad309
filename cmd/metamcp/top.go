package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/liveview"
	"github.com/metamcp/metamcp/messages"
)

// topSpan is between the two looks of top --once, of which the rates are.
const topSpan = 500 * time.Millisecond

// topFlags are the flags of the command top.
type topFlags struct {
	once, json, ascii bool
	sort              string
}

func newTop(c *common) *cobra.Command {
	f := &topFlags{}
	cmd := &cobra.Command{
		Use: "top [HOST]", Short: "Show the servers of a running host live: calls, latency, memory, CPU",
		Long: `Show what the servers of a running host do, once a second. HOST is a name or
process id, as metamcp ps lists them; it may be left out where one host runs, or
one that is shared runs for this configuration. A letter sorts by a column, < and >
choose another one, R turns the order, a shows servers that do nothing, q ends it.

Memory and CPU are those of a server's processes and of what these started; memory
that is shared counts for each. Only Linux tells them. P50 and p99 are of the last
256 calls. Where there is no terminal, and with --once, the table is printed once.`,
		Example: `  metamcp top
  metamcp top work --sort memory
  metamcp top --once
  metamcp top --once --json`,
		Args: args(maybeArg),
		RunE: func(cmd *cobra.Command, given []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			if !slices.Contains(liveview.TopSorts(), f.sort) {
				return usageError{fmt.Errorf("--sort %q: use %s", f.sort, strings.Join(liveview.TopSorts(), ", "))}
			}
			return f.run(ctx, c, cmd.OutOrStdout(), first(given))
		},
	}
	cmd.Flags().BoolVar(&f.once, "once", false, "print the table once")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON, once")
	cmd.Flags().BoolVar(&f.ascii, "ascii", false, "draw with ASCII alone")
	cmd.Flags().StringVar(&f.sort, "sort", "calls/s", "the `column` to sort by: "+strings.Join(liveview.TopSorts(), ", "))
	return cmd
}

func (f *topFlags) run(ctx context.Context, c *common, out io.Writer, name string) error {
	host, err := c.dialHost(name)
	if err != nil {
		return err
	}
	if f.once || f.json || !drawable(out) {
		defer host.Close()
		return f.printOnce(ctx, out, host)
	}
	dir, err := c.stateDir()
	if err != nil {
		host.Close()
		return err
	}
	find := again(dir, host.Info().Name)
	return liveview.RunTop(ctx, liveview.TopOptions{
		Name: host.Info().Name, Source: host, Sort: f.sort, ASCII: f.ascii, Input: os.Stdin, Output: out, Environ: os.Environ(),
		Again: func(ctx context.Context) (liveview.TopSource, error) {
			source, err := find(ctx)
			if err != nil {
				return nil, err
			}
			return source.(*control.Client), nil //nolint:forcetypeassert // again makes nothing else
		},
	})
}

// printOnce looks twice, for what is counted by the second.
func (f *topFlags) printOnce(ctx context.Context, out io.Writer, host *control.Client) error {
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	before, err := host.Usage(asking)
	if err != nil {
		return hostError(err, host.Info())
	}
	select {
	case <-time.After(topSpan):
	case <-ctx.Done():
		return statusError(exitInterrupted)
	}
	now, err := host.Usage(asking)
	if err != nil {
		return hostError(err, host.Info())
	}
	rows := liveview.TopRows(before, now)
	liveview.SortTop(rows, f.sort)
	if f.json {
		enc := json.NewEncoder(shown(out))
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			Host    string                 `json:"host"`
			PID     int                    `json:"pid"`
			At      time.Time              `json:"at"`
			Usage   *messages.ProcessUsage `json:"usage,omitempty"`
			Servers []liveview.TopRow      `json:"servers"`
		}{now.Name, now.PID, now.At, now.Usage, rows})
	}
	t := table{width: terminalWidth(out)}
	for _, cells := range liveview.TopTable(rows) {
		t.row(cells...)
	}
	return t.print(shown(out))
}
