package registry

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultURL is the official registry.
const DefaultURL = "https://registry.modelcontextprotocol.io"

// Options of a client. Zero values mean the defaults.
type Options struct {
	// BaseURL is where the API is, without /v0.1 (DefaultURL).
	BaseURL string
	// CacheFile keeps answers, and how long a registry wants to be left alone, for
	// every client that has it; "" keeps nothing. Its folder is made where it is
	// missing.
	CacheFile string
	// TTL is how long an answer is given again without asking (24 h).
	TTL time.Duration
	// Timeout bounds one request (10 s), Total one question with all its pages
	// and repetitions (30 s).
	Timeout, Total time.Duration
	// Backoff is how long to wait before a request is made once more (300 ms).
	Backoff time.Duration
	// MaxPages bounds one question (20).
	MaxPages int
	// Now is the clock (time.Now).
	Now func() time.Time
	// Gallery are further servers that are known without a registry; they are searched
	// together with the built-in list, which counts where both have a package (none).
	Gallery []Server
}

// Client asks one registry. It is safe for any goroutine.
type Client struct {
	opts      Options
	base      string
	http      *http.Client
	transport *http.Transport
	cache     *cache
}

// New returns a client; nothing is asked yet. The error says that the URL is no
// http or https URL.
func New(opts Options) (*Client, error) {
	opts.BaseURL = strings.TrimRight(cmp.Or(opts.BaseURL, DefaultURL), "/")
	u, err := url.Parse(opts.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, &Error{Reason: Invalid, Message: "the registry's address is not an absolute http or https URL", Hint: "Set registry.url to its base URL, without /v0.1."}
	}
	opts.TTL = cmp.Or(opts.TTL, 24*time.Hour)
	opts.Timeout = cmp.Or(opts.Timeout, 10*time.Second)
	opts.Total = cmp.Or(opts.Total, 30*time.Second)
	opts.Backoff = cmp.Or(opts.Backoff, 300*time.Millisecond)
	opts.MaxPages = cmp.Or(opts.MaxPages, 20)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Client{opts: opts, base: strings.TrimSuffix(opts.BaseURL, "/v0.1"), cache: newCache(opts.CacheFile, opts.Now)}
	c.http, c.transport = newHTTP(opts.Timeout)
	return c, nil
}

// Close ends connections that are kept open.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Query says what to list. The zero value lists everything there is, in the
// newest versions.
type Query struct {
	// Search finds servers by a part of their name; registries may look into
	// descriptions too.
	Search string
	// UpdatedSince leaves out what was not changed since then. Deleted servers
	// are in the answer then, too, as registries have it.
	UpdatedSince time.Time
	// AllVersions lists older versions as well.
	AllVersions bool
	// IncludeDeleted keeps deleted servers in the answer.
	IncludeDeleted bool
	// Limit is how many servers are wanted at most (100; at most 10,000).
	Limit int
	// Refresh asks the registry even where the cache is young.
	Refresh bool
}

// Source says where an answer is from.
type Source string

// The sources of an answer.
const (
	FromRegistry Source = "registry"
	FromCache    Source = "cache"    // asked before
	FromBuiltin  Source = "built-in" // the lists that come with metamcp
)

// Answer is a list of servers, and how far to believe it.
type Answer struct {
	Servers []Server
	Source  Source
	// Age is how old the oldest part is; 0 where all was asked just now.
	Age time.Duration
	// Complete says that the registry has no more of it, as far as can be told.
	Complete bool
	// Notes are for people and models: what was left out, and why.
	Notes []string
	// Cause is why the registry gave less than it was asked for; nil: it did not.
	Cause *Error
}

const (
	pageSize     = 100
	defaultLimit = 100
	maxLimit     = 10_000
	maxQuery     = 200
)

// List asks for servers, page by page. An answer that the cache has is given
// without asking while it is young, and however old where the registry fails; a
// registry that fails in the middle leaves a partial answer; one that never
// answered leaves what the cache knows of such servers, then what the built-in
// list and the gallery do. So the only errors are a question that is none, and the end of ctx.
func (c *Client) List(ctx context.Context, q Query) (*Answer, error) {
	q.Search = strings.TrimSpace(q.Search)
	if len(q.Search) > maxQuery || strings.ContainsFunc(q.Search, HiddenAlone) {
		return nil, &Error{Reason: Invalid, Message: fmt.Sprintf("a search is at most %d bytes, without hidden characters", maxQuery), Hint: "Use one or two words."}
	}
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	q.Limit = min(q.Limit, maxLimit)
	bounded, cancel := context.WithTimeout(ctx, c.opts.Total)
	defer cancel()

	w := walk{c: c, q: &q, answer: &Answer{Source: FromRegistry, Complete: true}, seen: map[string]bool{}, cursors: map[string]bool{}}
	err := w.run(bounded)
	c.cache.save()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	a := w.answer
	if note := c.cache.complaint(); note != "" {
		a.Notes = append(a.Notes, note)
	}
	if err == nil {
		return a, nil
	}
	if bounded.Err() != nil {
		err = &Error{Reason: TooSlow, Message: fmt.Sprintf("the registry took longer than %v", c.opts.Total), Cause: err}
	}
	a.Cause, a.Complete = reasonOf(err), false
	if w.pages > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("the list is not complete: %s", a.Cause.Message))
		return a, nil
	}
	return c.offline(&q, a), nil
}

// address is the URL of a page.
func (c *Client) address(q *Query, cursor string) string {
	v := url.Values{}
	v.Set("limit", fmt.Sprint(pageSize))
	if q.Search != "" {
		v.Set("search", q.Search)
	}
	if !q.UpdatedSince.IsZero() {
		v.Set("updated_since", q.UpdatedSince.UTC().Format(time.RFC3339))
	}
	if !q.AllVersions {
		v.Set("version", "latest")
	}
	if q.IncludeDeleted {
		v.Set("include_deleted", "true")
	}
	if cursor != "" {
		v.Set("cursor", cursor)
	}
	return c.base + "/v0.1/servers?" + v.Encode()
}

// walk follows the pages of one question.
type walk struct {
	c       *Client
	q       *Query
	answer  *Answer
	seen    map[string]bool // name and version
	cursors map[string]bool
	pages   int
	down    *Error // the registry failed; it is not asked again for this question
}

func (w *walk) run(ctx context.Context) error {
	fromCache := true
	for cursor := ""; ; {
		p, age, err := w.page(ctx, w.c.address(w.q, cursor))
		if err != nil {
			return err
		}
		w.pages++
		w.answer.Age = max(w.answer.Age, age)
		fromCache = fromCache && age > 0
		if fromCache {
			w.answer.Source = FromCache
		} else {
			w.answer.Source = FromRegistry
		}
		w.answer.Notes = append(w.answer.Notes, p.notes...)
		full := w.take(p.servers)
		switch {
		case full:
			w.answer.Complete = false
			return nil
		case p.next == "":
			w.answer.Complete = w.answer.Complete && len(p.notes) == 0
			return nil
		case w.cursors[p.next]:
			w.answer.Complete = false
			w.answer.Notes = append(w.answer.Notes, "the registry goes round in circles (a cursor came twice); there may be more servers")
			return nil
		case w.pages == w.c.opts.MaxPages:
			w.answer.Complete = false
			w.answer.Notes = append(w.answer.Notes, fmt.Sprintf("only the first %d pages were read; search for something narrower", w.pages))
			return nil
		}
		w.cursors[p.next] = true
		cursor = p.next
	}
}

// take adds servers that are wanted; full says that there are enough.
func (w *walk) take(servers []Server) (full bool) {
	for i := range servers {
		s := &servers[i]
		key := s.Name + "\n" + s.Version
		if w.seen[key] || s.Status == Deleted && !w.q.IncludeDeleted && w.q.UpdatedSince.IsZero() {
			continue
		}
		if len(w.answer.Servers) == w.q.Limit {
			w.answer.Notes = append(w.answer.Notes, fmt.Sprintf("only the first %d servers are listed; there are more", w.q.Limit))
			return true
		}
		w.seen[key] = true
		w.answer.Servers = append(w.answer.Servers, *s)
	}
	return false
}

// page gets one page, from the cache while that is young. The age is 0 where
// the registry was asked and answered.
func (w *walk) page(ctx context.Context, address string) (*page, time.Duration, error) {
	c := w.c
	kept, age := c.cache.get(address, c.opts.Now())
	if kept != nil && age >= 0 && age < c.opts.TTL && !w.q.Refresh {
		return kept.page, max(age, 1), nil
	}
	if w.down != nil {
		if kept == nil {
			return nil, 0, w.down
		}
		return kept.page, max(age, 1), nil
	}
	etag := ""
	if kept != nil {
		etag = kept.etag
	}
	var p *page
	r, err := c.get(ctx, address, etag)
	switch {
	case err != nil:
	case r.unchanged:
		c.cache.touch(address, c.opts.Now())
		return kept.page, 0, nil
	default:
		p, err = decodePage(r.body)
	}
	switch {
	case err == nil:
		c.cache.put(address, p, r.etag, c.opts.Now())
		return p, 0, nil
	case kept == nil || ctx.Err() != nil:
		return nil, 0, err
	}
	// What it said before, however long ago, is better than nothing.
	w.down = reasonOf(err)
	w.answer.Cause, w.answer.Complete = w.down, false
	w.answer.Notes = append(w.answer.Notes, fmt.Sprintf("the registry gave no answer (%s); this is what it said %s ago", w.down.Message, roughly(age)))
	return kept.page, max(age, 1), nil
}

// Version asks for one version of a server; "" and "latest" mean the newest.
// Deleted versions come too, as such. Where the registry fails, the cache
// answers if it can, however old; the note says so then. The error is an *Error,
// or that of ctx.
func (c *Client) Version(ctx context.Context, name, version string) (s *Server, note string, err error) {
	version = cmp.Or(version, "latest")
	if len(name) > maxName || !namePattern().MatchString(name) {
		return nil, "", &Error{Reason: Invalid, Message: fmt.Sprintf("%q is no name of a server in a registry", cleanText(name, 60)), Hint: "Such names look like io.github.user/weather."}
	}
	if version != "latest" && checkVersion(version) != nil {
		return nil, "", &Error{Reason: Invalid, Message: fmt.Sprintf("%q is no exact version", cleanText(version, 40)), Hint: "Name a version like 1.2.3, or latest."}
	}
	bounded, cancel := context.WithTimeout(ctx, c.opts.Total)
	defer cancel()
	address := c.base + "/v0.1/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version) + "?include_deleted=true"
	r, err := c.get(bounded, address, "")
	if err == nil {
		s, err = decodeOne(r.body, name, version)
	}
	if err == nil {
		return s, "", nil
	}
	if ctx.Err() != nil {
		return nil, "", ctx.Err()
	}
	e := reasonOf(err)
	if e.Reason == NotFound {
		missing := "the registry has no server " + name
		if version != "latest" {
			missing = fmt.Sprintf("the registry has no version %s of %s", version, name)
		}
		return nil, "", &Error{Reason: NotFound, Message: missing, Hint: "Look for it with metamcp registry search.", Cause: err}
	}
	if s, age := c.cache.find(c.base, name, version, c.opts.Now()); s != nil {
		return s, fmt.Sprintf("the registry gave no answer (%s); this is what it said %s ago", e.Message, roughly(age)), nil
	}
	return nil, "", e
}

func decodeOne(body []byte, name, version string) (*Server, error) {
	err := tooLarge(body)
	var s *Server
	if err == nil {
		s, err = decodeRecord(body)
	}
	switch {
	case err != nil && len(body) > 0 && body[0] != '{':
		return nil, notJSON(body, err)
	case err != nil:
		return nil, badAnswer("the registry's answer is not valid: " + err.Error())
	case s.Name != name || version != "latest" && s.Version != version:
		return nil, badAnswer(fmt.Sprintf("the registry was asked for %s %s and answered with %s %s", name, version, s.Name, s.Version))
	}
	return s, nil
}

// Versions asks for all versions of a server, the newest first as the registry
// orders them. The error is an *Error, or that of ctx; there is no cache for
// this.
func (c *Client) Versions(ctx context.Context, name string) (*Answer, error) {
	if len(name) > maxName || !namePattern().MatchString(name) {
		return nil, &Error{Reason: Invalid, Message: fmt.Sprintf("%q is no name of a server in a registry", cleanText(name, 60)), Hint: "Such names look like io.github.user/weather."}
	}
	bounded, cancel := context.WithTimeout(ctx, c.opts.Total)
	defer cancel()
	r, err := c.get(bounded, c.base+"/v0.1/servers/"+url.PathEscape(name)+"/versions", "")
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, reasonOf(err)
	}
	p, err := decodePage(r.body)
	if err != nil {
		return nil, err
	}
	a := &Answer{Source: FromRegistry, Complete: p.next == "" && len(p.notes) == 0, Notes: p.notes}
	for i := range p.servers {
		if p.servers[i].Name == name {
			a.Servers = append(a.Servers, p.servers[i])
		}
	}
	if other := len(p.servers) - len(a.Servers); other > 0 {
		a.Complete = false
		a.Notes = append(a.Notes, fmt.Sprintf("%d entries are of other servers and were left out", other))
	}
	return a, nil
}

// roughly says how long something was, for people.
func roughly(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "some time"
	case d < time.Minute:
		return "less than a minute"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	case d < 2*day:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d/day))
}
