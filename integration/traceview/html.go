package traceview

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// What a page holds at most: a browser has to take it all at once.
const (
	pageRecords        = 100_000
	pageRequestRecords = 20_000
)

// pageData is what the page's script reads.
type pageData struct {
	Summary  string        `json:"summary"`
	Notes    []string      `json:"notes"`
	Actors   []string      `json:"actors"` // paths; records name them by index, -1 is the edge
	Short    []string      `json:"short"`
	Requests []pageRequest `json:"requests"`
}

type pageRequest struct {
	Name     string    `json:"name"`
	Own      bool      `json:"own,omitempty"`
	Server   string    `json:"server"`
	Tool     string    `json:"tool"`
	Start    time.Time `json:"start"`
	Took     int64     `json:"took"`
	Outcome  string    `json:"outcome"`
	Failed   bool      `json:"failed"`
	Messages int       `json:"messages"`
	Events   int       `json:"events"`
	Slow     int       `json:"slow"` // of Records; -1: none
	Cut      string    `json:"cut,omitempty"`
	Records  [][]any   `json:"records"`
}

// WriteHTML writes requests as one page that needs nothing else: no other
// file, no network. Of very many it takes the newest, and says so.
func WriteHTML(out io.Writer, t *Trace, requests []*Request) error {
	p := newPage(t, requests)
	text, err := json.Marshal(p) // which writes <, > and & as \u003c and so on
	if err != nil {
		return err
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, pageHead, digest(pageScript), digest(pageStyle))
	for _, part := range []string{"<style>", pageStyle, "</style>\n", pageBody, `<script id="data" type="application/json">`, string(text), "</script>\n<script>", pageScript, "</script>\n</body>\n</html>\n"} {
		w.WriteString(part) //nolint:errcheck // Flush tells
	}
	return w.Flush()
}

// IsHTML says whether a file that begins so is a page that [WriteHTML] wrote. Its first
// 4 KiB suffice.
func IsHTML(beginning []byte) bool {
	return bytes.HasPrefix(beginning, []byte(pageStart)) && bytes.Contains(beginning, []byte(pageTitle))
}

// digest is what a Content-Security-Policy names an inline part by.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func newPage(t *Trace, requests []*Request) *pageData {
	p := &pageData{Notes: append([]string{}, t.Notes...), Actors: []string{}, Short: []string{}, Requests: []pageRequest{}}
	room, from := pageRecords, len(requests)
	for from > 0 {
		n := min(len(requests[from-1].Records), pageRequestRecords)
		if n > room {
			break
		}
		room -= n
		from--
	}
	if from > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("the page holds the last %d of %d requests; filters such as --server or --since make a page of others", len(requests)-from, len(requests)))
	}
	requests = requests[from:]
	index := p.nameActors(requests)
	for _, r := range requests {
		p.Requests = append(p.Requests, newPageRequest(r, index))
	}
	p.Summary = plural(len(requests), "request")
	if begin := t.Begin(); !begin.IsZero() {
		p.Summary += fmt.Sprintf(" in %s from %s on", Duration(t.End().Sub(begin)), begin.Format(time.DateTime+" MST"))
	}
	if runs := strings.Join(t.Runs, "; "); runs != "" {
		p.Summary += " · " + clean(runs, maxName)
	}
	return p
}

func (p *pageData) nameActors(requests []*Request) map[string]int {
	index := map[string]int{"": -1}
	for _, r := range requests {
		for _, rec := range r.Records {
			for _, a := range []string{rec.From, rec.To} {
				if _, known := index[a]; !known {
					index[a] = 0
					p.Actors = append(p.Actors, a)
				}
			}
		}
	}
	slices.SortFunc(p.Actors, comparePaths)
	short := shortNames(p.Actors)
	for i, a := range p.Actors {
		index[a] = i
		p.Short = append(p.Short, short[a])
	}
	return index
}

func newPageRequest(r *Request, actors map[string]int) pageRequest {
	q := pageRequest{
		Name: r.Name, Own: r.ID == 0, Server: r.Server, Tool: r.Tool, Start: r.Start, Took: r.Duration.Nanoseconds(),
		Outcome: r.ended(), Failed: r.Failed, Messages: r.Messages, Events: r.Events, Slow: -1,
	}
	hop := 0
	for i, rec := range r.Records {
		if i == pageRequestRecords {
			q.Cut = fmt.Sprintf("only the first %d of %d records are in this page", i, len(r.Records))
			break
		}
		at := max(rec.Time.Sub(r.Start).Nanoseconds(), 0)
		if !rec.Message() {
			bad := rec.Kind == messages.TraceDeadLetter || rec.Kind == messages.TraceFailure || (rec.Kind == messages.TraceAnswer || rec.Kind == messages.TraceReturn) && rec.Outcome != outcomeOK
			q.Records = append(q.Records, []any{1, at, actors[rec.To], rec.Kind, eventText(rec), flag(bad)})
			continue
		}
		if hop == r.Slowest {
			q.Slow = i
		}
		q.Records = append(q.Records, []any{0, at, actors[rec.From], actors[rec.To], rec.Type, rec.WaitNs, rec.RanNs, r.Hops[hop].Self.Nanoseconds(), rec.Before, rec.After, rec.Outcome})
		hop++
	}
	if q.Records == nil {
		q.Records = [][]any{}
	}
	return q
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// By its start and its title a page is told from those of others.
const (
	pageStart = "<!doctype html>\n"
	pageTitle = "<title>metamcp trace</title>\n"
)

// pageHead takes the digests of the script and of the style.
const pageHead = pageStart + `<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
` + pageTitle

const pageBody = `</head>
<body>
<header>
<h1>metamcp trace</h1>
<p id="summary" class="muted"></p>
<ul id="notes"></ul>
<noscript><p>This page draws with its own inline script; the data stands in it as JSON.</p></noscript>
</header>
<main>
<nav aria-label="Requests">
<label for="filter">Filter by server, tool, outcome, actor, type</label>
<input id="filter" type="search" autocomplete="off" spellcheck="false">
<label class="check"><input id="errors" type="checkbox"> only what failed</label>
<p id="count" class="muted" role="status"></p>
<div id="list" role="listbox" tabindex="0" aria-label="Requests"></div>
</nav>
<section aria-labelledby="title">
<h2 id="title" tabindex="-1">Nothing chosen</h2>
<p id="facts"></p>
<div role="tablist" aria-label="Views">
<button type="button" role="tab" id="tab-sequence" data-tab="sequence" aria-controls="panel">Sequence</button>
<button type="button" role="tab" id="tab-timeline" data-tab="timeline" aria-controls="panel">Timeline</button>
<button type="button" role="tab" id="tab-messages" data-tab="messages" aria-controls="panel">Messages</button>
<button type="button" role="tab" id="tab-actors" data-tab="actors" aria-controls="panel">Actors</button>
</div>
<div id="panel" role="tabpanel"></div>
<p id="picked" role="status" hidden></p>
</section>
</main>
`
