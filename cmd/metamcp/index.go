package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
)

func newIndex(c *common) *cobra.Command {
	cmd := &cobra.Command{
		Use: "index", Short: "Look after what the search has learned", Args: args(noArgs),
		Example: `  metamcp index status
  metamcp index rebuild`,
		Long: `The index store keeps the tool lists of servers and the vectors of tools in
stateDir/catalog. Deleting that folder is safe: all of it can be made again.`,
	}
	cmd.AddCommand(newIndexStatus(c), newIndexRebuild(c), newIndexExport(c))
	return cmd
}

func newIndexStatus(c *common) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "Show what is kept, by which model, and how large it is", Args: args(noArgs),
		Example: `  metamcp index status --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := metamcp.ReportStore(c.sources())
			if err != nil {
				return err
			}
			return printReport(shown(cmd.OutOrStdout()), r, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newIndexRebuild(c *common) *cobra.Command {
	var asJSON bool
	var what metamcp.Rebuild
	cmd := &cobra.Command{
		Use: "rebuild", Short: "Embed the known tools of this configuration anew", Args: args(noArgs),
		Example: `  metamcp index rebuild`,
		Long: `Makes anew what the store holds of the servers of this configuration: their
listings, and the vectors of their tools by the model in force. What other
configurations that share the folder put there stays. --all empties the store
first; the others learn theirs again when they are used.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger()
			if err != nil {
				return err
			}
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			r, err := metamcp.RebuildStore(ctx, metamcp.Options{Sources: c.sources(), Log: log, Version: buildVersion()}, what)
			if err != nil {
				return err
			}
			return printReport(shown(cmd.OutOrStdout()), r, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&what.All, "all", false, "empty the whole store first, other configurations' part of it too")
	return cmd
}

func newIndexExport(c *common) *cobra.Command {
	var vectors bool
	cmd := &cobra.Command{
		Use: "export", Short: "Write what is kept as lines of JSON", Args: args(noArgs),
		Example: `  metamcp index export > index.jsonl`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return metamcp.ExportStore(c.sources(), shown(cmd.OutOrStdout()), vectors)
		},
	}
	cmd.Flags().BoolVar(&vectors, "vectors", false, "with the numbers of each vector")
	return cmd
}

func printReport(out io.Writer, r *metamcp.StoreReport, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "store\t%s\n", r.Path)
	embedder := r.Embedder
	switch {
	case r.EmbedderTrouble != "":
		embedder = "not usable, search goes by words: " + r.EmbedderTrouble
	case embedder == "":
		embedder = "none: search goes by words"
	}
	fmt.Fprintf(w, "embedder\t%s\n", embedder)
	f := r.Figures
	switch {
	case r.InUse && f == nil:
		fmt.Fprintln(w, "in use\tby a running host, which has written no figures yet")
		return w.Flush()
	case r.InUse:
		fmt.Fprintf(w, "in use\tby a running host; its figures of %s\n", clock(f.At))
	}
	fmt.Fprintf(w, "tool lists\tof %s, %s\n", counted(f.Servers, "server", "servers"), size(f.ListingBytes))
	fmt.Fprintf(w, "size on disk\t%s\n", size(f.DiskBytes))
	if f.Damaged > 0 {
		fmt.Fprintf(w, "damaged\t%d records, which will be made again\n", f.Damaged)
	}
	if f.Rebuilt != "" {
		fmt.Fprintf(w, "made anew because\t%s\n", f.Rebuilt)
	}
	if err := w.Flush(); err != nil || len(f.Models) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nMODEL\tVECTORS\tDIMENSIONS\tSIZE\tFOUND IN STORE\tLAST USED")
	for _, m := range f.Models {
		rate := "-"
		if all := m.Hits + m.Misses; all > 0 {
			rate = fmt.Sprintf("%.0f %%", 100*float64(m.Hits)/float64(all))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", m.Model, m.Vectors, m.Dimension, size(m.Bytes), rate, clock(m.LastUse))
	}
	return w.Flush()
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
