package metamcp

import (
	"cmp"
	"context"
	"slices"
	"time"
	"weak"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// laterContact is how long a search waits for servers that were never seen
// while others already have answers.
const laterContact = 2 * time.Second

// SearchOptions narrow a search.
type SearchOptions struct {
	// Server narrows it to one server; "": all.
	Server string
	// Limit is how many matches are wanted; 0: the configured number.
	Limit int
	// IncludeDisabled finds tools that the rules disable as well, and those that are
	// known of disabled servers; Enabled of a match says which those are.
	IncludeDisabled bool
	// CachedOnly contacts no server.
	CachedOnly bool
	// Settle is for a program that searches once: how long to wait until the
	// tools are embedded. With Server it also waits for that server's whole
	// startupTimeout, since it ends with the program. 0: what has no vector
	// yet is found by its words.
	Settle time.Duration

	ranking string        // "": the configured one
	turns   *actors.Turns // bound the search among others; nil: it begins at once
	client  uint64        // whose turn it takes
}

// Match is a tool that fits a query.
type Match struct {
	Tool
	Score     float64 `json:"score"` // in [0,1]
	Connected bool    `json:"connected"`
}

// SearchResult is what a search found.
type SearchResult struct {
	Matches []Match `json:"matches"` // best first
	// Pending are servers that were not ready in time. They go on starting, or
	// wait for a search to have others started before, and the next search may
	// know their tools.
	Pending []string `json:"pending,omitempty"`
	// Failed are servers that could not be asked, with the reason.
	Failed map[string]*Error `json:"failed,omitempty"`
	// Notes say what was not as it should be, such as an embedder that does
	// not answer.
	Notes []string `json:"notes,omitempty"`

	soon bool // the same search may find more by meaning in a moment
}

// Search finds the tools that fit a query. A search of one server that is disabled is
// refused, unless its tools are known and wanted all the same. Servers whose tools are not known
// are contacted, many at once and within the pool's bounds, for at most the
// configured time, and for at most two seconds of it where others have answers
// already; one that is slow or dead delays nobody beyond that and fails
// nothing. Listings of the best matches that are older than catalog.ttlMs are
// refreshed in the background.
func (e *Engine) Search(ctx context.Context, query string, opts SearchOptions) (*SearchResult, error) {
	res := &SearchResult{Matches: []Match{}, Failed: map[string]*Error{}}
	if opts.Server != "" {
		entry, ok := e.core.Directory().Lookup(opts.Server)
		switch {
		case !ok:
			return nil, e.core.ServerNotFound(opts.Server)
		case entry.Spec().Disabled && (!opts.IncludeDisabled || e.core.Catalog().Server(opts.Server) == nil):
			return nil, supervision.Disabled(entry.Spec()) // other words would find no more
		}
	}
	if !opts.CachedOnly {
		e.meet(ctx, opts.Server, opts.Settle > 0, res)
	}
	if opts.Limit <= 0 {
		opts.Limit = e.Config().Settings.Search.Limit
	}
	if opts.Settle > 0 {
		settling, cancel := context.WithTimeout(ctx, opts.Settle)
		_ = e.core.Settle(settling) // what is not embedded by then is found by its words
		cancel()
	}
	ranker, err := index.NewRanker(cmp.Or(opts.ranking, e.Config().Settings.Search.Ranking))
	if err != nil {
		return nil, &Error{Code: messages.CodeConfiguration, Message: "search.ranking: " + err.Error(), Cause: err}
	}
	if opts.turns != nil {
		ranker = inTurn{ranker, ctx, opts.turns, opts.client}
	}
	found, note, soon := e.core.Search(ctx, ranker, index.Query{
		Text: query, Server: opts.Server, Limit: opts.Limit, Disabled: opts.IncludeDisabled, Connected: connectedOf(e.core.Directory()),
	})
	res.soon = soon
	if note != "" {
		res.Notes = append(res.Notes, note)
	}
	for _, m := range e.awayLast(found) {
		t := describeTool(m.Entry)
		t.InputSchema = m.Entry.Tool.InputSchema
		res.Matches = append(res.Matches, Match{Tool: t, Score: m.Score, Connected: m.Connected})
	}
	if !opts.CachedOnly && opts.Settle == 0 {
		e.freshen(res.Matches)
	}
	return res, nil
}

// freshen refreshes what is old of the listings that the best matches come from, in
// the background: of those tools the caller sees the schemas and calls one next. It
// may start as many servers, so further matches have to wait until they are asked for.
func (e *Engine) freshen(matches []Match) {
	for i := range matches[:min(len(matches), schemasShown)] {
		if why, _ := e.away(matches[i].Server); why == nil {
			e.core.Refresh(matches[i].Server)
		}
	}
}

// connectedOf tells which servers have a connection; nil: none has, so that nobody
// has to ask of thousands.
func connectedOf(dir *supervision.Directory) func(server string) bool {
	if dir.Connected() == 0 {
		return nil
	}
	return func(server string) bool {
		entry, ok := dir.Lookup(server)
		return ok && entry.Status().Connected
	}
}

// awayLast puts tools of servers that take no calls for now behind those of others
// that fit at least half as well.
func (e *Engine) awayLast(found []index.Match) []index.Match {
	weights := map[*index.Entry]float64{}
	away := false
	for i, m := range found {
		w := m.Score - float64(i)*1e-9 // the order is that of the ranking otherwise
		if i > 0 {
			w = min(w, weights[found[i-1].Entry]) // of which a tool that is named, or connected, comes before better ones
		}
		weights[m.Entry] = w
	}
	for _, m := range found {
		if why, _ := e.away(m.Entry.Tool.Server); why != nil {
			weights[m.Entry] /= 2
			away = true
		}
	}
	if away {
		slices.SortStableFunc(found, func(a, b index.Match) int { return cmp.Compare(weights[b.Entry], weights[a.Entry]) })
	}
	return found
}

// away says why a server takes no calls for now, and until when: it is in
// quarantine, its circuit is open, or its next start is put off. Nil: it takes them.
func (e *Engine) away(server string) (why *Error, until time.Time) {
	entry, ok := e.core.Directory().Lookup(server)
	if !ok {
		return nil, until
	}
	s := entry.Status()
	if s.LastError == nil || !s.RetryAt.After(time.Now()) {
		return nil, until
	}
	return s.LastError, s.RetryAt
}

// meet contacts the servers that nothing is known of, but for those that take no
// calls for now, which have failed. Where others have answers already it waits for
// a short while only. A program that searches
// once is patient with the one server that it asks for.
func (e *Engine) meet(ctx context.Context, only string, patient bool, res *SearchResult) {
	cat := e.core.Catalog()
	unseen := e.unmetServers(cat)
	if only != "" {
		if _, among := slices.BinarySearch(unseen, only); !among {
			return
		}
		unseen = []string{only}
	}
	asked := make([]string, 0, len(unseen))
	for _, name := range unseen {
		if why, _ := e.away(name); why != nil {
			res.Failed[name] = why // its next start is put off, and no search waits for that
			continue
		}
		asked = append(asked, name)
	}
	if len(asked) == 0 {
		return
	}
	var download time.Duration // how long the slowest may take to be downloaded and started
	for _, name := range asked {
		if entry, ok := e.core.Directory().Lookup(name); ok && entry.Spec().RunsPackage() {
			download = max(download, entry.Spec().StartupTimeout)
		}
	}
	wait := e.Config().Settings.DiscoverTimeout
	switch {
	case only != "":
		wait = e.patience(only, patient)
	case patient && download > 0:
		wait += download // a program that searches once would end the download with itself
	case cat.Servers() > 0:
		wait = min(wait, laterContact)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	type heard struct {
		server string
		err    *Error
	}
	answers := make(chan heard, len(asked))
	met := e.meetings.ask(asked, only != "", func(server string, err *Error) { answers <- heard{server, err} })
	defer met.leave()
	met.begin()
	waiting := make(map[string]bool, len(asked))
	for _, name := range asked {
		waiting[name] = true
	}
	for len(waiting) > 0 {
		select {
		case <-met.more:
			met.begin()
		case h := <-answers:
			delete(waiting, h.server)
			switch {
			case h.err == nil:
			case h.err.Code == messages.CodePoolSaturated:
				res.Pending = append(res.Pending, h.server)
			default:
				res.Failed[h.server] = h.err
			}
		case <-ctx.Done():
			for name := range waiting {
				res.Pending = append(res.Pending, name)
			}
			waiting = nil
		}
	}
	slices.Sort(res.Pending)
}

// unmet are the servers of one version of the directory of which one catalog knows
// nothing. The catalog is not held alive.
type unmet struct {
	catalog weak.Pointer[index.Catalog]
	version uint64
	servers []string // sorted
}

// unmetServers are the servers that are used and that the catalog does not know, by
// name. With thousands of servers that takes longer to find out than all else of a
// search does, so it is found out once for each catalog.
func (e *Engine) unmetServers(cat *index.Catalog) []string {
	dir := e.core.Directory()
	now := &unmet{catalog: weak.Make(cat), version: dir.Version()}
	if last := e.unmet.Load(); last != nil && last.version == now.version && last.catalog == now.catalog {
		return last.servers
	}
	for _, name := range dir.Names() {
		if entry, ok := dir.Lookup(name); ok && cat.Server(name) == nil && !entry.Spec().Disabled {
			now.servers = append(now.servers, name)
		}
	}
	e.unmet.Store(now)
	return now.servers
}

// patience is how long to wait for one server: for a program that asks once at
// least as long as the server may take to start.
func (e *Engine) patience(server string, once bool) time.Duration {
	wait := e.Config().Settings.DiscoverTimeout
	if entry, ok := e.core.Directory().Lookup(server); ok && once {
		wait += entry.Spec().StartupTimeout // the listing comes after the start
	}
	return wait
}

// contactFunc is a function that hears of a contact.
type contactFunc func(err *Error)

// Contacted implements messages.ContactPort.
func (f contactFunc) Contacted(_ uint64, err *messages.Error) { f(err) }
