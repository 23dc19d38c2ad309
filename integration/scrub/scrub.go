// Package scrub takes the secrets that metamcp was given out of what it says:
// errors, logs and the ends of stderr that they quote. Results of tools are
// not touched, they belong to the caller.
//
// It knows secrets by value: what the configuration puts into a child's
// environment under a name that says secret, and into the headers of remote
// servers.
package scrub

import (
	"bytes"
	"regexp"
	"sort"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// minLength keeps values from being taken for secrets that stand in every
// text, such as "1" or "true".
const minLength = 6

// secretName matches the names of variables that hold secrets. HTTP_PROXY and
// the like are in, since their values may hold a password.
var secretName = regexp.MustCompile(`(?i)(key|token|secret|passw|passphrase|pwd|auth|cred|cookie|session|private|dsn|connection_?string|_proxy$|_pat$|bearer|signature)`)

// publicName are variables that match secretName and hold none.
var publicName = map[string]bool{"SSH_AUTH_SOCK": true, "XDG_SESSION_ID": true, "XDG_SESSION_TYPE": true, "XDG_SESSION_CLASS": true, "XDG_SESSION_DESKTOP": true}

// Set is the secrets of one configuration. It never changes; a nil Set knows
// none. All methods are safe for any goroutine.
type Set struct {
	replace *strings.Replacer
	values  [][]byte
}

// New collects the secrets of the servers.
func New(specs []*messages.ServerSpec) *Set {
	found := map[string]string{} // value → name
	add := func(name, value string) {
		if len(value) >= minLength {
			if old, ok := found[value]; !ok || name < old {
				found[value] = name
			}
		}
	}
	for _, spec := range specs {
		for _, kv := range spec.Env {
			name, value, ok := strings.Cut(kv, "=")
			if ok && secretName.MatchString(name) && !publicName[name] {
				add(name, value)
			}
		}
		for name, value := range spec.Headers {
			add(name, value)
			// The scheme of an Authorization header is no part of the secret.
			if _, rest, ok := strings.Cut(value, " "); ok && strings.EqualFold(name, "authorization") {
				add(name, rest)
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	values := make([]string, 0, len(found))
	for value := range found {
		values = append(values, value)
	}
	// A secret that begins with another one must go as a whole.
	sort.Slice(values, func(i, j int) bool {
		if len(values[i]) != len(values[j]) {
			return len(values[i]) > len(values[j])
		}
		return values[i] < values[j]
	})
	s := &Set{}
	pairs := make([]string, 0, 2*len(values))
	for _, value := range values {
		s.values = append(s.values, []byte(value))
		pairs = append(pairs, value, "[REDACTED:"+found[value]+"]")
	}
	s.replace = strings.NewReplacer(pairs...)
	return s
}

// Text returns text without the secrets.
func (s *Set) Text(text string) string {
	if s == nil {
		return text
	}
	return s.replace.Replace(text)
}

// Bytes is Text for a slice; it returns its argument where there is nothing to
// take out, and never changes it.
func (s *Set) Bytes(b []byte) []byte {
	if s == nil || len(b) == 0 {
		return b
	}
	for _, value := range s.values {
		if bytes.Contains(b, value) {
			return []byte(s.replace.Replace(string(b)))
		}
	}
	return b
}

// Error returns a copy of err without the secrets.
func (s *Set) Error(err *messages.Error) *messages.Error {
	if s == nil || err == nil {
		return err
	}
	own := *err
	own.Message, own.Hint = s.Text(err.Message), s.Text(err.Hint)
	own.Details = make([]string, len(err.Details))
	for i, d := range err.Details {
		own.Details[i] = s.Text(d)
	}
	if len(own.Details) == 0 {
		own.Details = nil
	}
	return &own
}
