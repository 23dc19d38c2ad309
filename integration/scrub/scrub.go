// Package scrub takes secrets out of what metamcp and its servers say: results
// of tools, errors, logs, traces and the ends of stderr that they quote.
//
// It knows secrets by value, from the configuration: see [New]. Beside these
// it knows how the tokens of services look: by shapes of its own (shapes.go),
// and by the rules of gitleaks (rule.go), which are tried only where one of
// their keywords stands and what is around it may be a secret (detect.go).
// names.go says what is none all the same. docs/SECRETS.md says what counts as
// a secret and what cannot be caught. filter.go finds the places of a text where any
// of that may begin, which takes most of the time.
package scrub

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/metamcp/metamcp/messages"
)

// Set is the secrets of one configuration and the shapes of common tokens. It
// never changes. A nil Set, as for "scrub": false, takes nothing out. All
// methods are safe for any goroutine.
type Set struct {
	// filter passes the beginnings of all that is looked for. It is made when
	// the first text comes, since that takes some milliseconds.
	filter atomic.Pointer[filter]
	known  table
}

// span is a part of a text that has to go.
type span struct {
	start, end int
	marker     string
}

// Text returns text without secrets. What it returns has at most ten times
// the length of text.
func (s *Set) Text(text string) string {
	if s == nil || len(text) < keyLength {
		return text
	}
	b := []byte(text)
	spans := s.find(b)
	if len(spans) == 0 {
		return text
	}
	return string(s.without(b, spans))
}

// Bytes is Text for a slice; it returns its argument where there is nothing to
// take out, and never changes it.
func (s *Set) Bytes(b []byte) []byte {
	if s == nil {
		return b
	}
	spans := s.find(b)
	if len(spans) == 0 {
		return b
	}
	return s.without(b, spans)
}

// Counted is Text for what a tool or a script says to its caller: what may be
// no secret stays, as in [Set.Result]. It says what it took out.
func (s *Set) Counted(text string) (string, Counts) {
	if s == nil || len(text) < keyLength {
		return text, nil
	}
	b := []byte(text)
	spans := s.appendFound(nil, b, true)
	if len(spans) == 0 {
		return text, nil
	}
	counts := Counts{}
	for _, sp := range merge(slices.Clone(spans)) {
		count(counts, kindOf(sp.marker), 1)
	}
	return string(s.without(b, spans)), counts
}

// Error returns a copy of err without secrets.
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

// find returns the parts that have to go. They may overlap.
func (s *Set) find(b []byte) []span { return s.appendFound(nil, b, false) }

// appendFound is find; certain leaves out what only may be a secret, or is an example.
func (s *Set) appendFound(spans []span, b []byte, certain bool) []span {
	spans = s.appendFromURLs(s.appendWritten(spans, b, certain), b, certain)
	if telling(b) {
		spans = appendEscaped(spans, b, func(spans []span, b []byte) []span {
			return s.appendFromURLs(s.appendWritten(spans, b, certain), b, certain)
		})
	}
	return spans
}

// appendWritten is appendFound for what stands in b as it is.
func (s *Set) appendWritten(spans []span, b []byte, certain bool) []span {
	if len(b) < keyLength {
		return spans
	}
	var (
		r          = allRules()
		sc         *scan
		looks      []span // of anybody, by what they look like
		plain      part
		shapesFrom = 0 // a token has no token within
	)
	passes := s.passes()
	for i := passes.next(b, 0); i >= 0; i = passes.next(b, i+1) {
		key := keyOf(b[i:])
		sorts := passes.sortsAt(key)
		if sorts&ofKnown != 0 {
			spans = s.appendKnown(spans, b, i, key, certain)
		}
		if sorts&ofRule != 0 {
			looks, sc = sc.at(looks, b, r, i, key, &plain)
		}
		if sorts&ofShape == 0 || i < shapesFrom {
			continue
		}
		if found, ok := shapeAt(b, i, key); ok {
			looks, shapesFrom = append(looks, found), found.end
		}
	}
	looks = sc.end(looks, b, r)
	if certain {
		looks = withoutExamples(looks, b)
	}
	return append(spans, looks...)
}

func (s *Set) passes() *filter {
	if f := s.filter.Load(); f != nil {
		return f
	}
	return s.newFilter()
}

func (s *Set) newFilter() *filter {
	f := &allRules().filter
	if s.known.n > 0 {
		f = f.copied()
		for k := range s.known.all {
			f.add(k.value, 0, ofKnown)
		}
	}
	s.filter.Store(f) // whoever else made one made the same
	return f
}

// appendKnown appends the longest known secret that stands at i.
func (s *Set) appendKnown(spans []span, b []byte, i int, key uint32, certain bool) []span {
	list := s.known.at(key)
	for j := range list {
		if k := &list[j]; (k.certain || !certain) && bytes.HasPrefix(b[i:], k.value) {
			return append(spans, span{i, i + len(k.value), k.marker}) // the others are shorter
		}
	}
	return spans
}

// without returns b with markers in place of spans.
func (s *Set) without(b []byte, spans []span) []byte {
	// A marker beside the rest of the text could spell a secret again, for
	// instance one that is itself a part of a marker.
	const rounds = 4
	for range rounds {
		b = replace(b, spans)
		if spans = s.findKnown(b, false); len(spans) == 0 {
			return b
		}
	}
	if b = []byte(marker("")); len(s.findKnown(b, false)) > 0 {
		return nil
	}
	return b
}

// findKnown is find for the secrets of the configuration alone.
func (s *Set) findKnown(b []byte, certain bool) []span {
	return s.appendFromURLs(s.appendKnownIn(nil, b, certain), b, certain)
}

// appendKnownIn appends the known secrets that stand in b as they are.
func (s *Set) appendKnownIn(spans []span, b []byte, certain bool) []span {
	passes := s.passes()
	for i := passes.next(b, 0); i >= 0; i = passes.next(b, i+1) {
		key := keyOf(b[i:])
		if passes.sortsAt(key)&ofKnown != 0 {
			spans = s.appendKnown(spans, b, i, key, certain)
		}
	}
	return spans
}

// findPlain is find without the rules: the secrets of the configuration and the
// shapes of our own, which need nothing of what stands around them.
func (s *Set) findPlain(b []byte) (spans []span) {
	passes := s.passes()
	shapesFrom := 0
	for i := passes.next(b, 0); i >= 0; i = passes.next(b, i+1) {
		key := keyOf(b[i:])
		sorts := passes.sortsAt(key)
		if sorts&ofKnown != 0 {
			spans = s.appendKnown(spans, b, i, key, false)
		}
		if sorts&ofShape == 0 || i < shapesFrom {
			continue
		}
		if found, ok := shapeAt(b, i, key); ok {
			spans, shapesFrom = append(spans, found), found.end
		}
	}
	return s.appendFromURLs(spans, b, false)
}

// merge sorts spans and makes one of those that overlap, in their place; the
// longest gives its marker.
func merge(spans []span) []span {
	slices.SortStableFunc(spans, func(x, y span) int { return x.start - y.start })
	out := spans[:0]
	for i := 0; i < len(spans); {
		whole, longest := spans[i], spans[i].end-spans[i].start
		for i++; i < len(spans) && spans[i].start < whole.end; i++ {
			whole.end = max(whole.end, spans[i].end)
			if n := spans[i].end - spans[i].start; n > longest {
				whole.marker, longest = spans[i].marker, n
			}
		}
		out = append(out, whole)
	}
	return out
}

// replace puts one marker in place of parts that overlap.
func replace(b []byte, spans []span) []byte {
	out := make([]byte, 0, len(b)+len(spans)*16)
	at := 0
	for _, sp := range merge(spans) {
		out = append(append(out, b[at:sp.start]...), sp.marker...)
		at = sp.end
	}
	return append(out, b[at:]...)
}

// marker is what stands in place of a secret.
func marker(name string) string {
	const longest = 40
	clean := make([]byte, 0, min(len(name), longest))
	for i := range len(name) {
		if len(clean) == longest {
			break
		}
		if c := name[i]; isAlnum(c) || c == '_' || c == '-' {
			clean = append(clean, c)
		}
	}
	if len(clean) == 0 {
		return "[REDACTED]"
	}
	return "[REDACTED:" + string(clean) + "]"
}
