package oauth

import (
	"net/http"
	"slices"
	"strings"
)

const (
	maxScope  = 4 << 10 // bytes of all scopes together
	maxScopes = 200
	maxURL    = 4 << 10
)

// challenge is what a refusal says of how to do better.
type challenge struct {
	// Metadata is where the metadata of the resource are; "": not said.
	Metadata string   `json:"metadata,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`

	code   string // error, as RFC 6750 has it
	bearer bool   // it asks for a bearer token
	other  string // a scheme that it asks for instead; "": none
}

// readChallenge reads the WWW-Authenticate headers of a refusal. What is not
// well-formed is passed over.
func readChallenge(h http.Header) challenge {
	var c challenge
	for _, value := range h.Values("WWW-Authenticate") {
		scheme := ""
		for name, text := range authParams(value) {
			switch {
			case text == nil:
				scheme = name
				if strings.EqualFold(scheme, "Bearer") {
					c.bearer = true
				} else if c.other == "" {
					c.other = scheme
				}
			case !strings.EqualFold(scheme, "Bearer"):
			case strings.EqualFold(name, "resource_metadata") && c.Metadata == "" && len(*text) <= maxURL:
				c.Metadata = *text
			case strings.EqualFold(name, "scope") && c.Scopes == nil:
				c.Scopes = scopesOf(*text)
			case strings.EqualFold(name, "error") && c.code == "":
				c.code = *text
			}
		}
	}
	return c
}

// authParams takes a header apart as RFC 9110 section 11.6.1 says: for each
// challenge its scheme, with nil, and then its parameters.
func authParams(s string) func(yield func(name string, value *string) bool) {
	return func(yield func(string, *string) bool) {
		begun := false
		for {
			s = strings.TrimLeft(s, " \t,")
			name := tokenAt(s)
			if name == "" {
				if s == "" || !begun {
					return
				}
				_, s, _ = strings.Cut(s, ",") // the rest of a token68, or nonsense
				continue
			}
			rest := strings.TrimLeft(s[len(name):], " \t")
			if !begun || !strings.HasPrefix(rest, "=") {
				begun, s = true, s[len(name):]
				if !yield(name, nil) {
					return
				}
				continue
			}
			value, after, ok := valueAt(strings.TrimLeft(rest[1:], " \t"))
			s = after
			if ok && !yield(name, &value) {
				return
			}
		}
	}
}

// tokenAt returns the token with which s begins.
func tokenAt(s string) string {
	const more = "!#$%&'*+-.^_`|~"
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && strings.IndexByte(more, c) < 0 {
			return s[:i]
		}
	}
	return s
}

// valueAt returns the token or quoted string with which s begins, and what
// follows. Many servers write addresses and scopes without quotes, so a bare
// value reaches to the next comma or blank.
func valueAt(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ", \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], end > 0
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:], true
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// scopesOf takes a list of scopes apart; one that cannot be a scope is left out.
func scopesOf(text string) []string {
	if len(text) > maxScope {
		return nil
	}
	return cleanScopes(strings.Fields(text))
}

// cleanScopes leaves out what is no scope, what is there twice, and too many.
func cleanScopes(list []string) []string {
	var out []string
	size := 0
	for _, s := range list {
		bad := strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
		if size += len(s) + 1; s == "" || bad || slices.Contains(out, s) || len(out) == maxScopes || size > maxScope {
			continue
		}
		out = append(out, s)
	}
	return out
}

// union returns what is in any of the lists, in order.
func union(lists ...[]string) []string { return cleanScopes(slices.Concat(lists...)) }

// within says whether all of a are in b.
func within(a, b []string) bool {
	return !slices.ContainsFunc(a, func(s string) bool { return !slices.Contains(b, s) })
}
