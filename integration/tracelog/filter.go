package tracelog

import (
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// A Filter says which records are wanted. Patterns of one kind are
// alternatives; of different kinds, all have to match. Records of the trace
// itself (start, dropped) always pass.
type Filter struct {
	servers, actors, types []string
	requests               map[uint64]bool
	errors                 bool
}

// ParseFilter reads conditions such as "server=files", "actor=*pool*",
// "type=Call", "request=12" and "errors"; server, actor and type take the
// globs of [path.Match], and type also names the kinds of events. No condition
// wants everything; the Filter is then nil.
func ParseFilter(conditions []string) (*Filter, error) {
	f := &Filter{}
	for _, c := range conditions {
		kind, value, _ := strings.Cut(strings.TrimSpace(c), "=")
		var list *[]string
		switch kind {
		case "":
			continue
		case "server":
			list = &f.servers
		case "actor":
			list = &f.actors
		case "type":
			list = &f.types
		case "request":
			n, err := strconv.ParseUint(strings.TrimPrefix(value, "#"), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("trace filter %q: a request is a number, such as request=12", c)
			}
			if f.requests == nil {
				f.requests = map[uint64]bool{}
			}
			f.requests[n] = true
			continue
		case "errors":
			f.errors = true
			continue
		default:
			return nil, fmt.Errorf("trace filter %q: use server=NAME, actor=PATTERN, type=NAME, request=NUMBER or errors", c)
		}
		if _, err := path.Match(value, ""); err != nil || value == "" {
			return nil, fmt.Errorf("trace filter %q: %q is no pattern; use *, ? and [a-z]", c, value)
		}
		*list = append(*list, value)
	}
	if f.servers == nil && f.actors == nil && f.types == nil && f.requests == nil && !f.errors {
		return nil, nil //nolint:nilnil // no filter is what was asked for
	}
	return f, nil
}

// Func returns [Filter.Wants], and nil where f is nil, so that nobody need ask what
// has only one answer.
func (f *Filter) Func() func(*messages.TraceRecord) bool {
	if f == nil {
		return nil
	}
	return f.Wants
}

// Wants reports whether the record passes. It is safe for any goroutine; a nil
// Filter wants everything.
func (f *Filter) Wants(r *messages.TraceRecord) bool {
	if f == nil || r.Kind == messages.TraceStart || r.Kind == messages.TraceDropped {
		return true
	}
	if f.errors && !failed(r) || f.requests != nil && !f.requests[r.Request] {
		return false
	}
	if f.servers != nil && !anyMatch(f.servers, ServerOf(r)) {
		return false
	}
	if f.actors != nil && !anyMatch(f.actors, r.From) && !anyMatch(f.actors, r.To) {
		return false
	}
	if f.types == nil {
		return true
	}
	return anyMatch(f.types, r.Kind) || r.Type != "" && anyMatch(f.types, r.Type)
}

func failed(r *messages.TraceRecord) bool {
	switch r.Kind {
	case messages.TraceDeadLetter, messages.TraceFailure, "refused", "spawn-failed", "late", "stray", "unsent", "too-large", "noise", "worker-failed", "worker-late":
		return true
	}
	return r.Outcome != "" && r.Outcome != "ok"
}

// anyMatch holds s against globs in which * also matches a slash.
func anyMatch(patterns []string, s string) bool {
	s = strings.ReplaceAll(s, "/", "\x00")
	for _, p := range patterns {
		if ok, _ := path.Match(strings.ReplaceAll(p, "/", "\x00"), s); ok {
			return true
		}
	}
	return false
}

// ServerOf is the server that a record is about, or "".
func ServerOf(r *messages.TraceRecord) string {
	if r.Server != "" {
		return r.Server
	}
	for _, actor := range [2]string{r.To, r.From} {
		if _, rest, ok := strings.Cut(actor, "/breaker/"); ok {
			rest, _, _ = strings.Cut(rest, "/")
			if i := strings.LastIndexByte(rest, '~'); i >= 0 {
				rest = rest[:i]
			}
			if name, err := url.PathUnescape(rest); err == nil {
				return name
			}
		}
	}
	return ""
}
