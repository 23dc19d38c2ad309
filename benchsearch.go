package metamcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// SearchBench ranks the tools of any catalog for any queries with the code
// that answers mcp_discover. The formats are those of the retrieval benchmark
// in docs/SEARCH.md.
type SearchBench struct {
	// Sources say which ranking and embedder there are; servers in them do
	// not matter.
	Sources config.Sources
	// Catalog has one tool a line, Queries one query.
	Catalog, Queries io.Reader
	// Run takes the ranked results, one query a line; nil: they are only
	// timed.
	Run io.Writer
	// Limit is how many results a query gets, at most 100; 0: 100.
	Limit int
	// Progress, which may be nil, hears how many of a source's tools are
	// embedded.
	Progress func(source string, done, total int)
}

// SearchFigures are what a bench measured.
type SearchFigures struct {
	Ranking  string `json:"ranking"`
	Embedder string `json:"embedder,omitempty"` // the model's name; "": none
	Sources  int    `json:"sources"`
	Tools    int    `json:"tools"`
	Queries  int    `json:"queries"`
	// Embedding is what embedding the tools took in all.
	Embedding time.Duration `json:"embeddingNs"`
	// New is the time of a query that was not seen before, its embedding
	// included; Seen that of one that was.
	New  Latency `json:"new"`
	Seen Latency `json:"seen"`
	// Scores has one entry for each source with queries that name their right
	// tools, and Macro the mean over these sources; nil: nothing was scored.
	Scores []SearchScore `json:"scores,omitempty"`
	Macro  *SearchScore  `json:"macro,omitempty"`
	// Unscored is how many queries name no right tools.
	Unscored int `json:"unscored"`
	// NothingFound is how many queries found no tool at all, and NothingIDs
	// the first of them.
	NothingFound int      `json:"nothingFound"`
	NothingIDs   []string `json:"nothingIds,omitempty"`
}

// Latency is the distribution of times.
type Latency struct {
	P50 time.Duration `json:"p50Ns"`
	P99 time.Duration `json:"p99Ns"`
	Max time.Duration `json:"maxNs"`
}

type benchTool struct {
	Source      string          `json:"source"`
	Server      string          `json:"server"`
	Tool        string          `json:"tool"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type benchQuery struct {
	ID     string `json:"id"`
	Query  string `json:"query"`
	Source string `json:"source"`
	// Relevant are the right tools; none: the query is not scored.
	Relevant []benchNeed `json:"relevant"`
}

type benchHit struct {
	Server string  `json:"server"`
	Tool   string  `json:"tool"`
	Score  float64 `json:"score"`
}

type benchRun struct {
	ID      string     `json:"id"`
	Results []benchHit `json:"results"`
}

// RunSearchBench runs a bench. Each source is a search space of its own.
func RunSearchBench(ctx context.Context, b SearchBench) (*SearchFigures, error) {
	cfg, err := config.Load(b.Sources)
	if err != nil {
		return nil, err
	}
	ranker, err := index.NewRanker(cfg.Settings.Search.Ranking)
	if err != nil {
		return nil, err
	}
	embedder, err := newEmbedder(embedderSettings(cfg), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	figures := &SearchFigures{Ranking: cfg.Settings.Search.Ranking}
	if embedder != nil {
		figures.Embedder = embedder.Model()
		defer func() { _ = embedder.Close() }() // every vector was handed over
	}
	catalogs, order, err := benchCatalogs(b.Catalog)
	if err != nil {
		return nil, fmt.Errorf("the catalog: %w", err)
	}
	searchers := map[string]*index.Searcher{}
	start := time.Now()
	for _, source := range order {
		progress := func(done, total int) {
			if b.Progress != nil {
				b.Progress(source, done, total)
			}
		}
		searchers[source], err = index.Offline(ctx, catalogs[source], embedder, progress)
		if err != nil {
			return nil, err
		}
		figures.Tools += catalogs[source].Tools()
	}
	figures.Embedding, figures.Sources = time.Since(start), len(order)
	return figures, b.ask(ctx, ranker, searchers, catalogs, figures)
}

func (b *SearchBench) ask(ctx context.Context, ranker index.Ranker, searchers map[string]*index.Searcher, catalogs map[string]*index.Catalog, figures *SearchFigures) error {
	limit := b.Limit
	if limit <= 0 {
		limit = 100
	}
	out := bufio.NewWriter(io.Discard)
	if b.Run != nil {
		out = bufio.NewWriter(b.Run)
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	var fresh, seen []time.Duration
	scores := map[string]*SearchScore{}
	for source := range searchers {
		// The first search of a space makes it; that is no query's time.
		searchers[source].Search(ctx, ranker, index.Query{Text: "x", Limit: 1})
	}
	err := lines(b.Queries, "query", func(q *benchQuery) error {
		s := searchers[q.Source]
		if q.ID == "" || q.Query == "" {
			return errors.New("a query needs id, query and source")
		}
		if s == nil {
			return fmt.Errorf("query %q is of the source %q, which has no tools", q.ID, q.Source)
		}
		right, count, err := needs(q.Relevant, catalogs[q.Source])
		if err != nil {
			return fmt.Errorf("query %q: %w", q.ID, err)
		}
		ask := index.Query{Text: q.Query, Limit: max(limit, scoreDepth)}
		start := time.Now()
		found, note, _ := s.Search(ctx, ranker, ask)
		fresh = append(fresh, time.Since(start))
		if note != "" {
			return errors.New(note)
		}
		start = time.Now()
		s.Search(ctx, ranker, ask)
		seen = append(seen, time.Since(start))
		run := benchRun{ID: q.ID, Results: make([]benchHit, 0, len(found))}
		// Exact names lead whatever their score; the format wants scores that
		// do not rise.
		least := math.Inf(1)
		for _, m := range found {
			least = min(least, m.Score)
			run.Results = append(run.Results, benchHit{m.Entry.Tool.Server, m.Entry.Tool.Name, least})
		}
		if scores[q.Source] == nil {
			scores[q.Source] = &SearchScore{}
		}
		if count == 0 {
			scores[q.Source].unscored++
		} else {
			scores[q.Source].score(run.Results, right, count)
		}
		if len(found) == 0 {
			if figures.NothingFound++; len(figures.NothingIDs) < maxNothing {
				figures.NothingIDs = append(figures.NothingIDs, q.ID)
			}
		}
		run.Results = run.Results[:min(len(run.Results), limit)]
		return enc.Encode(run)
	})
	if err != nil {
		return fmt.Errorf("the queries: %w", err)
	}
	figures.Scores, figures.Macro, figures.Unscored = scored(scores)
	figures.Queries, figures.New, figures.Seen = len(fresh), latency(fresh), latency(seen)
	return out.Flush()
}

// benchCatalogs reads a catalog file: what each server would have listed.
func benchCatalogs(r io.Reader) (catalogs map[string]*index.Catalog, order []string, err error) {
	type key struct{ source, server string }
	pages := map[key][]json.RawMessage{}
	var servers []key
	err = lines(r, "tool", func(t *benchTool) error {
		if t.Source == "" || t.Server == "" || t.Tool == "" {
			return errors.New("a tool needs source, server and tool")
		}
		definition, err := json.Marshal(struct {
			Name        string          `json:"name"`
			Description string          `json:"description,omitempty"`
			InputSchema json.RawMessage `json:"inputSchema,omitempty"`
		}{t.Tool, t.Description, t.InputSchema})
		if err != nil {
			return err
		}
		k := key{t.Source, t.Server}
		if pages[k] == nil {
			servers = append(servers, k)
		}
		pages[k] = append(pages[k], definition)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	catalogs = map[string]*index.Catalog{}
	for _, k := range servers {
		page, err := json.Marshal(map[string]any{"tools": pages[k]})
		if err != nil {
			return nil, nil, err
		}
		tools, skipped, err := index.ParseTools(k.server, page)
		if err != nil {
			return nil, nil, err
		}
		if skipped > 0 {
			return nil, nil, fmt.Errorf("%d tools of %q in %q have no usable name", skipped, k.server, k.source)
		}
		if catalogs[k.source] == nil {
			order = append(order, k.source)
		}
		catalogs[k.source] = catalogs[k.source].With(&messages.Toolset{Server: k.server, Tools: tools}, index.Labels{})
	}
	return catalogs, order, nil
}

// lines decodes each line of r.
func lines[T any](r io.Reader, what string, each func(*T) error) error {
	const longest = 16 << 20
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), longest)
	n := 0
	for sc.Scan() {
		n++
		line := bytes.TrimSpace(sc.Bytes())
		if len(line) == 0 {
			continue
		}
		v := new(T)
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("line %d is no %s: %w", n, what, err)
		}
		if err := each(v); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("line %d: %w", n+1, err)
	}
	return nil
}

func latency(times []time.Duration) Latency {
	if len(times) == 0 {
		return Latency{}
	}
	slices.Sort(times)
	at := func(share float64) time.Duration { return times[min(int(share*float64(len(times))), len(times)-1)] }
	return Latency{P50: at(0.5), P99: at(0.99), Max: times[len(times)-1]}
}
