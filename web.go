package metamcp

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/web"
	"github.com/metamcp/metamcp/messages"
)

// OpenWeb serves a page on which the user sees the engine in a browser. addr is
// a loopback address, such as ":7777" (127.0.0.1) or ":0" (any free port); name
// is what the page calls the host, "" for none. The error says what to use
// instead, and is no *[Error]. The caller shows [web.Server.URL] to the user alone, and closes the
// server before or after the engine.
func (e *Engine) OpenWeb(addr, name string) (*web.Server, error) {
	return web.Serve(web.Options{Addr: addr, Host: watched{e, name}, Log: e.log})
}

// watched is the engine as the web page sees it.
type watched struct {
	e    *Engine
	name string
}

// Status implements web.Host.
func (w watched) Status(ctx context.Context) (*messages.HostStatus, error) {
	s, err := w.e.HostStatus(ctx, false)
	if err == nil {
		s.Name = w.name
		w.e.measure(s) // somebody looks
	}
	return s, err
}

// Trace implements web.Host.
func (w watched) Trace(ctx context.Context) (<-chan messages.TraceRecord, error) {
	return w.e.WatchTrace(ctx)
}

// Search implements web.Host.
func (w watched) Search(ctx context.Context, q web.Query) (*web.Found, error) {
	res, err := w.e.Search(ctx, q.Text, SearchOptions{Server: q.Server})
	if err != nil {
		return nil, err
	}
	found := &web.Found{
		Matches: make([]web.Match, 0, len(res.Matches)), Failed: make([]web.Failed, 0, len(res.Failed)),
		Pending: append([]string{}, res.Pending...), Notes: append([]string{}, res.Notes...),
		Soon: res.soon,
	}
	for _, m := range res.Matches {
		found.Matches = append(found.Matches, web.Match{
			Server: m.Server, Tool: m.Name, Summary: m.Summary, Score: math.Round(m.Score*1000) / 1000,
			Connected: m.Connected, Hidden: m.HiddenText,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(res.Failed)) {
		found.Failed = append(found.Failed, web.Failed{Server: name, Error: w.e.scrubbed(res.Failed[name]).Message})
	}
	return withoutSecrets(w.e, found), nil
}

// Tool implements web.Host.
func (w watched) Tool(ctx context.Context, server, tool string) (json.RawMessage, error) {
	t, err := w.e.ToolDetails(ctx, server, tool)
	if err != nil {
		return nil, err
	}
	definition, _ := index.PlainJSON(t.Definition)
	definition, _ = w.e.secrets.Load().Result(definition)
	return definition, nil
}
