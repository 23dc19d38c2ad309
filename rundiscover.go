package metamcp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// scriptSearch is what discover takes in a script.
type scriptSearch struct {
	Query  string `json:"query"`
	Server string `json:"server"`
	Limit  int    `json:"limit"`
}

// discoverForScript is discover(query) of a script that may reach these
// servers; nil: all. It gives what mcp_discover finds, as an array of matches,
// each with its schema: there is no budget of tokens between two programs.
func (e *Engine) discoverForScript(ctx context.Context, args json.RawMessage, only []string) (json.RawMessage, *Error) {
	var ask scriptSearch
	if err := json.Unmarshal(args, &ask); err != nil || ask.Query == "" {
		return nil, &Error{Code: messages.CodeValidation, Message: "discover needs a query, a string", Hint: `Call discover("what you need"), or discover("…", {server: "…", limit: 5}).`}
	}
	if ask.Limit < 0 || ask.Limit > config.MaxSearchLimit {
		return nil, &Error{Code: messages.CodeValidation, Message: "limit is " + strconv.Itoa(ask.Limit), Hint: "Use a number from 1 to " + strconv.Itoa(config.MaxSearchLimit) + "."}
	}
	matches, err := e.matchesForScript(ctx, ask, only)
	if err != nil {
		return nil, asError(err)
	}
	lines := make([]MatchLine, len(matches))
	for i := range matches {
		lines[i] = matchLine(&matches[i], true, false)
	}
	raw, err := json.Marshal(lines)
	if err != nil {
		return nil, asError(err)
	}
	return raw, nil
}

func (e *Engine) matchesForScript(ctx context.Context, ask scriptSearch, only []string) ([]Match, error) {
	switch {
	case only == nil:
		only = []string{ask.Server}
	case ask.Server == "":
	case slices.Contains(only, ask.Server):
		only = []string{ask.Server}
	default:
		return nil, e.core.ServerNotFound(ask.Server)
	}
	// One server at a time where the script may not reach all, so that none of
	// the others is started.
	var all []Match
	for _, server := range only {
		found, err := e.Search(ctx, ask.Query, SearchOptions{Server: server, Limit: ask.Limit})
		if err != nil {
			return nil, err
		}
		all = append(all, found.Matches...)
	}
	if len(only) > 1 {
		slices.SortStableFunc(all, func(a, b Match) int { return cmp.Compare(b.Score, a.Score) })
	}
	if ask.Limit == 0 {
		ask.Limit = e.Config().Settings.Search.Limit
	}
	return all[:min(len(all), ask.Limit)], nil
}
