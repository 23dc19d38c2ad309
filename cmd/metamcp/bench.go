package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/lazyregexp"
)

func newBench(c *common) *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure parts of metamcp on your own data", Args: args(noArgs),
		Example: "  metamcp bench search --catalog catalog.jsonl --queries queries.jsonl"}
	cmd.AddCommand(newBenchSearch(c))
	return cmd
}

func newBenchSearch(c *common) *cobra.Command {
	var catalog, queries, run string
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "search --catalog FILE --queries FILE",
		Short: "Rank tools for queries as mcp_discover does, score and time it",
		Long: `Reads tools and queries, one JSON object a line, and ranks the tools of each
source for its queries with the ranking and embedder that are configured
(--ranking, --embedder). Queries that name their right tools are scored:
Recall@5, nDCG@10 and MRR for each source, and the mean over sources. --run
writes the results for another scorer, once all are found; of the files that are
there it replaces earlier results alone.

  catalog: {"source", "server", "tool", "description", "input_schema"?}
  queries: {"id", "query", "source", "relevant"?}
  results: {"id", "results": [{"server", "tool", "score"}]}

"relevant" is a list of "server/tool", or of {"server", "tool", "group"?} in
which tools of one group are alternatives.`,
		Example: `  metamcp bench search --catalog tools.jsonl --queries queries.jsonl
  # tools.jsonl:   {"source": "mine", "server": "files", "tool": "read_file", "description": "Read a file"}
  # queries.jsonl: {"id": "1", "source": "mine", "query": "show me a text", "relevant": ["files/read_file"]}`,
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if catalog == "" || queries == "" {
				return usageError{errors.New("--catalog and --queries are both needed; see " + cmd.CommandPath() + " --help")}
			}
			bench := metamcp.SearchBench{Sources: c.sources(), Limit: limit}
			tools, err := os.Open(catalog)
			if err != nil {
				return usageError{err}
			}
			defer tools.Close() //nolint:errcheck // it was only read
			asked, err := os.Open(queries)
			if err != nil {
				return usageError{err}
			}
			defer asked.Close() //nolint:errcheck // as above
			bench.Catalog, bench.Queries = tools, asked
			// The results are kept until all is read: they may have the name of an input.
			var ranked bytes.Buffer
			results := outFile{path: run, kind: "results of metamcp bench search", ours: isBenchRun}
			if run != "" {
				if err := results.check(); err != nil {
					return usageError{err}
				}
				bench.Run = &ranked
			}
			if isTerminal(os.Stderr) {
				bench.Progress = func(source string, done, total int) {
					fmt.Fprintf(os.Stderr, "\r%s: %d of %d tools embedded ", source, done, total)
					if done == total {
						fmt.Fprintln(os.Stderr)
					}
				}
			}
			f, err := metamcp.RunSearchBench(cmd.Context(), bench)
			if err != nil {
				return err
			}
			if run != "" {
				err := results.write(func(w io.Writer) error {
					_, err := ranked.WriteTo(w)
					return err
				})
				if err != nil {
					return err
				}
			}
			if asJSON {
				return json.NewEncoder(shown(cmd.OutOrStdout())).Encode(f)
			}
			return printFigures(cmd.OutOrStdout(), f)
		},
	}
	f := cmd.Flags()
	f.StringVar(&catalog, "catalog", "", "`file` of tools")
	f.StringVar(&queries, "queries", "", "`file` of queries")
	f.StringVar(&run, "run", "", "`file` that takes the results")
	f.IntVar(&limit, "limit", 100, "results of each query, up to 100")
	f.BoolVar(&asJSON, "json", false, "print the figures as JSON")
	return cmd
}

// benchRunStart is what results begin with: a query's id alone would fit queries too.
var benchRunStart = lazyregexp.New(`^\{"id":"(?:[^"\\]|\\.)*","results":\[(?:\]|\{"server":")`)

func isBenchRun(beginning []byte) bool { return benchRunStart().Match(beginning) }

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func printFigures(out io.Writer, f *metamcp.SearchFigures) error {
	embedder := f.Embedder
	if embedder == "" {
		embedder = "no embedder"
	}
	if _, err := fmt.Fprintf(out, `%s, %s: %d tools in %d sources, %d queries
embedding the tools  %v
a new query          p50 %v, p99 %v, max %v
the same again       p50 %v, p99 %v, max %v
`, f.Ranking, embedder, f.Tools, f.Sources, f.Queries, f.Embedding.Round(time.Millisecond),
		rounded(f.New.P50), rounded(f.New.P99), rounded(f.New.Max), rounded(f.Seen.P50), rounded(f.Seen.P99), rounded(f.Seen.Max)); err != nil {
		return err
	}
	if f.NothingFound > 0 {
		more := ""
		if f.NothingFound > len(f.NothingIDs) {
			more = ", …"
		}
		if _, err := fmt.Fprintf(out, "%d queries found nothing: %s%s\n", f.NothingFound, strings.Join(f.NothingIDs, ", "), more); err != nil {
			return err
		}
	}
	if f.Macro == nil {
		_, err := fmt.Fprintln(out, `nothing was scored: no query names its right tools; give each "relevant": ["server/tool", …]`)
		return err
	}
	if f.Unscored > 0 {
		if _, err := fmt.Fprintf(out, "%d queries name no right tools and were not scored\n", f.Unscored); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	t := table{}
	t.row("SOURCE", "QUERIES", "RECALL@5", "NDCG@10", "MRR")
	line := func(name string, s metamcp.SearchScore) {
		t.row(name, strconv.Itoa(s.Queries), fmt.Sprintf("%.3f", s.Recall5), fmt.Sprintf("%.3f", s.NDCG10), fmt.Sprintf("%.3f", s.MRR))
	}
	for _, s := range f.Scores {
		line(s.Source, s)
	}
	line("(mean of sources)", *f.Macro)
	return t.print(out)
}
