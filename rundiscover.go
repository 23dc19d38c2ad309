package metamcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// scriptSearch is what discover takes in a script.
type scriptSearch struct {
	Query  string
	Server string
	Limit  wholeNumber
}

// readSearch reads the arguments of discover, which a script may have made of
// anything.
func readSearch(args json.RawMessage) (ask scriptSearch, refused *Error) {
	bad := func(message string) (scriptSearch, *Error) {
		return ask, &Error{Code: messages.CodeValidation, Message: message, Hint: `Call discover("what you need"), or discover("…", {server: "…", limit: 5}).`}
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(args, &given) != nil {
		return bad("the arguments of discover are no object")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		switch name {
		case "query":
			if json.Unmarshal(value, &ask.Query) != nil {
				return bad("discover needs a query, a string")
			}
		case "server":
			if json.Unmarshal(value, &ask.Server) != nil {
				return bad("the option server of discover is no string")
			}
		case "limit":
			if json.Unmarshal(value, &ask.Limit) != nil || ask.Limit < 0 || ask.Limit > config.MaxSearchLimit || !bytes.Equal(value, []byte("null")) && ask.Limit == 0 {
				return bad("the option limit of discover is " + messages.Cut(string(value), 40) + "; it must be a number from 1 to " + strconv.Itoa(config.MaxSearchLimit))
			}
		default:
			return bad("discover has no option " + strconv.Quote(messages.Cut(name, 100)) + "; there are server and limit")
		}
	}
	if ask.Query == "" {
		return bad("discover needs a query, a string")
	}
	return ask, nil
}

// discoverForScript is discover(query) of a script that may reach these
// servers; nil: all. It gives what mcp_discover finds, as an array of matches,
// each with its schema: there is no budget of tokens between two programs.
func (e *Engine) discoverForScript(ctx context.Context, session uint64, args json.RawMessage, only []string) (json.RawMessage, *Error) {
	ask, refused := readSearch(args)
	if refused != nil {
		return nil, refused
	}
	client := e.core.Sharer(session)
	left, refused := e.searches.join(client)
	if refused != nil {
		return nil, refused
	}
	defer left()
	matches, err := e.matchesForScript(ctx, client, ask, only)
	if err != nil {
		return nil, asError(err)
	}
	done, err := e.searches.Enter(ctx, client)
	if err != nil {
		return nil, asError(err)
	}
	defer done()
	lines := make([]MatchLine, len(matches))
	for i := range matches {
		lines[i] = matchLine(&matches[i], true, false)
	}
	raw, err := compact(lines)
	if err != nil {
		return nil, asError(err)
	}
	return raw, nil
}

// matchesForScript refuses a search of one server that did not tell of its tools, where
// no match would say that it has none that fits.
func (e *Engine) matchesForScript(ctx context.Context, client uint64, ask scriptSearch, only []string) ([]Match, error) {
	switch {
	case ask.Server != "":
		if err := e.core.Unreachable(ask.Server, only); err != nil {
			return nil, err
		}
		only = []string{ask.Server}
	case only == nil:
		only = []string{""}
	}
	// One server at a time where the script may not reach all, so that none of
	// the others is started.
	var all []Match
	for _, server := range only {
		found, err := e.Search(ctx, ask.Query, SearchOptions{Server: server, Limit: int(ask.Limit), turns: e.searches.Turns, client: client})
		var gone *Error
		if ask.Server == "" && errors.As(err, &gone) && gone.Server != "" {
			continue // this one was disabled or removed since the script began
		}
		if err != nil {
			return nil, err
		}
		if ask.Server != "" && len(found.Matches) == 0 {
			if why := found.Failed[server]; why != nil {
				return nil, why
			}
			if slices.Contains(found.Pending, server) {
				return nil, e.notListed(server, nil)
			}
		}
		all = append(all, found.Matches...)
	}
	if len(only) > 1 {
		slices.SortStableFunc(all, func(a, b Match) int { return cmp.Compare(b.Score, a.Score) })
	}
	if ask.Limit == 0 {
		ask.Limit = wholeNumber(e.Config().Settings.Search.Limit)
	}
	return all[:min(len(all), int(ask.Limit))], nil
}
