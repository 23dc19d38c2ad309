package scrub

import (
	"bytes"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/integration/lazyregexp"
)

// scan is the work on one text: for each rule the part of it in which its
// pattern has still to be tried. Parts that touch are tried together, so that
// no text, however it is made, is read more than once for each rule.
type scan struct {
	open    []part // by rule; hi 0: none
	touched []uint16
}

type part struct{ lo, hi int }

var scans = sync.Pool{New: func() any { return &scan{open: make([]part, len(allRules().list))} }}

// at takes the keywords whose rarest part is at i, where key stands.
func (s *scan) at(spans []span, b []byte, r *rules, i int, key uint32, plain *part) ([]span, *scan) {
	words := r.words[r.filter.at[filterPlace(key)]]
	for j := range words {
		w := &words[j]
		if start := i - w.rare; start >= 0 && hasPrefixFold(b[start:], w.text) {
			spans, s = s.word(spans, b, r, w, start, plain)
		}
	}
	return spans, s
}

// word takes one keyword, which begins at start.
func (s *scan) word(spans []span, b []byte, r *rules, w *keyword, start int, plain *part) ([]span, *scan) {
	for _, n := range w.rules {
		if r.list[n].outline == nil {
			if found, ok := named(b, start, start+len(w.text)); ok {
				spans = append(spans, found)
			} else if found, ok := password(b, w.text, start+len(w.text)); ok {
				spans = append(spans, found)
			}
			continue
		}
		if lo, hi, ok := r.list[n].place(b, start, start+len(w.text), plain); ok {
			if s == nil {
				s = scans.Get().(*scan)
			}
			spans = s.add(spans, b, r, n, lo, hi)
		}
	}
	return spans, s
}

// end tries what is left.
func (s *scan) end(spans []span, b []byte, r *rules) []span {
	if s == nil {
		return spans
	}
	for _, n := range s.touched {
		p := s.open[n]
		spans = r.list[n].find(spans, r, b, p.lo, p.hi)
		s.open[n] = part{}
	}
	s.touched = s.touched[:0]
	scans.Put(s)
	return spans
}

func (s *scan) add(spans []span, b []byte, r *rules, n uint16, lo, hi int) []span {
	p := &s.open[n]
	switch {
	case p.hi == 0:
		s.touched = append(s.touched, n)
		*p = part{lo, hi}
	case lo <= p.hi:
		p.lo, p.hi = min(p.lo, lo), max(p.hi, hi)
	default:
		spans = r.list[n].find(spans, r, b, p.lo, p.hi)
		*p = part{lo, hi}
	}
	return spans
}

// place says where a match may be for which a keyword stands from start to
// end, if there can be one at all. Nearly all keywords of ordinary texts are
// told from secrets here.
func (r *rule) place(b []byte, start, end int, plain *part) (lo, hi int, ok bool) {
	o := r.outline()
	switch o.method {
	case asPrefix:
		if o.word && start > 0 && isWord(b[start-1]) || withinBase64(b, start) {
			return 0, 0, false
		}
		return max(0, start-1), min(len(b), start+o.reach+1), o.fits(b[start:])
	case asValue:
		const name = beforeAssignment + afterKeyword
		return max(0, start-name), min(len(b), start+o.reach+1), o.fits(b[start:])
	case asAssignment:
		valueEnd, ok := r.assigned(b, start, end, plain)
		if !ok {
			return 0, 0, false
		}
		return max(0, start-beforeAssignment), min(len(b), valueEnd+2), true
	default:
		return max(0, start-o.reach), min(len(b), end+o.reach), true
	}
}

func (o *outline) fits(b []byte) bool {
	for _, p := range o.programs {
		if p.fits(b) {
			return true
		}
	}
	return false
}

// withinBase64 says whether what begins at start is a part of base64, which has
// everything in it somewhere.
func withinBase64(b []byte, start int) bool {
	const run = 24
	if start < run || b[start-1] != '+' && b[start-1] != '/' {
		return false
	}
	for _, c := range b[start-run : start] {
		if !isAlnum(c) && c != '+' && c != '/' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

func isWord(c byte) bool { return isAlnum(c) || c == '_' }

// assigned says whether the name in which a keyword stands is given a value that may
// be a secret, and where that ends. plain is the last part of the text that is one run
// of characters of values with neither a digit nor a capital behind what is none: a
// text of nothing but names would be read again for each of them.
func (r *rule) assigned(b []byte, start, end int, plain *part) (valueEnd int, ok bool) {
	const (
		marks    = 3 // quotes, blanks and signs of each sort
		fillers  = 6
		least    = 8
		most     = 512
		distinct = 5 // different characters
		// So often a capital follows what is none, where there is no digit.
		leastTurns = 2
	)
	i := end
	for i < len(b) && i-end <= afterKeyword && (isWord(b[i]) || b[i] == '.' || b[i] == '-' || b[i] == ' ' || b[i] == '\t') {
		i++
	}
	for n := 0; i < len(b) && n < marks && isMark(b[i]); n++ {
		i++
	}
	if i >= len(b) || !isSign(b[i]) {
		return 0, false
	}
	list := b[i] == ','
	for n := 0; i < len(b) && n < marks && isSign(b[i]); n++ {
		i++
	}
	if list && i < len(b) && (b[i] == '\n' || b[i] == '\r') {
		return 0, false // the next line is another matter
	}
	for n := 0; i < len(b) && n < fillers && (isMark(b[i]) || b[i] == '`' || b[i] == '='); n++ {
		i++
	}
	value, digits, turns := i, 0, 0
	if r.id != genericRule && !credentialName(b, start, value) {
		return 0, false
	}
	if plain.lo <= value && value < plain.hi {
		i = min(plain.hi, value+most)
	}
	known := i
	var seen [2]uint64
	for i < len(b) && i-value < most && b[i] > ' ' && b[i] < 0x7f && b[i] != '"' && b[i] != '\'' && b[i] != '`' {
		if b[i] >= '0' && b[i] <= '9' {
			digits++
		}
		if i > value && isCapital(b[i]) && !isCapital(b[i-1]) {
			turns++
		}
		seen[b[i]>>6] |= 1 << (b[i] & 63)
		i++
	}
	if list && isListed(b[i:]) {
		return 0, false
	}
	if r.id == genericRule && digits == 0 && turns == 0 {
		*plain = part{value, i}
	}
	if i-value < least || r.id == genericRule && digits == 0 && turns < leastTurns {
		return 0, false
	}
	for _, c := range b[value:known] {
		seen[c>>6] |= 1 << (c & 63)
	}
	kinds := 0
	for _, w := range seen {
		for ; w != 0; w &= w - 1 {
			kinds++
		}
	}
	if kinds < distinct {
		return 0, false
	}
	if r.id == genericRule && (isReference(b[max(0, start-beforeAssignment):value], b[value:i], false) || entropy(b[value:i]) <= r.entropy) {
		return 0, false // here already, since such are in every text
	}
	return i, true
}

// isListed says whether what follows a value, behind its quote, shows that it is
// one of a list of words and not an argument: "password", "token", "secret".
func isListed(b []byte) bool {
	i := 0
	for i < len(b) && (isMark(b[i]) || b[i] == '`') {
		i++
	}
	return i < len(b) && b[i] == ','
}

func isCapital(c byte) bool { return c >= 'A' && c <= 'Z' }

func isMark(c byte) bool {
	return c == ' ' || c == '"' || c == '\'' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'
}

func isSign(c byte) bool { return c == '=' || c == ':' || c == '>' || c == '|' || c == ',' || c == '?' }

// find appends what the rule finds between lo and hi.
func (r *rule) find(spans []span, all *rules, b []byte, lo, hi int) []span {
	const (
		more = 4 << 10
		most = 64 << 10
	)
	re := r.pattern()
	// A match that ends where the part does might be longer, or be none: its
	// end may be the end of the text only by this part.
	m := re.FindSubmatchIndex(b[lo:hi])
	for m != nil {
		if lo+m[1] == hi && hi < len(b) && hi-lo < most {
			hi = min(len(b), hi+more)
			m = re.FindSubmatchIndex(b[lo:hi])
			continue
		}
		start, end := r.secret(m)
		start, end = lo+start, lo+end
		whole := b[lo+m[0] : lo+m[1]]
		next := start // what is no secret may hold the name of one: key:\napi_key: …
		if secret := b[start:end]; len(secret) > 0 && (r.entropy == 0 || entropy(secret) > r.entropy) && !r.permits(all, b, whole, secret, lo+m[0], start) {
			next = end
			spans = append(spans, span{start, end, r.marker})
			if r.id == "kubernetes-secret-yaml" {
				spans = furtherData(spans, b, end, r.marker)
			}
		}
		lo = max(next, lo+m[0]+1)
		if lo >= hi {
			return spans
		}
		m = re.FindSubmatchIndex(b[lo:hi])
	}
	return spans
}

// secret is the part of a match that has to go.
func (r *rule) secret(m []int) (start, end int) {
	if r.group > 0 {
		return m[2*r.group], m[2*r.group+1]
	}
	for g := 2; g+1 < len(m); g += 2 {
		if m[g] >= 0 && m[g] < m[g+1] {
			return m[g], m[g+1]
		}
	}
	return m[0], m[1]
}

// permits says whether a match may stay: by gitleaks' lists, or since it is
// something that tools hand out to be used.
func (r *rule) permits(all *rules, b, whole, secret []byte, from, start int) bool {
	global := all.allowed()
	if global.has(b, whole, secret, from) {
		return true
	}
	for _, a := range r.allowed() {
		if a.has(b, whole, secret, from) {
			return true
		}
	}
	m := r.outline().method
	return (m == asAssignment || m == asValue) && isReference(b[from:start], secret, r.id != genericRule)
}

func (a *allowlist) has(b, whole, secret []byte, from int) bool {
	text := secret
	switch a.target {
	case "match":
		text = whole
	case "line":
		begin := bytes.LastIndexByte(b[:from], '\n') + 1
		end := from + len(whole)
		if n := bytes.IndexByte(b[end:], '\n'); n >= 0 {
			end += n
		} else {
			end = len(b)
		}
		const longest = 4 << 10
		text = b[max(begin, from-longest):min(end, from+len(whole)+longest)]
	}
	for _, re := range a.regexes {
		if re.Match(text) {
			return true
		}
	}
	if len(a.stopwords) == 0 {
		return false
	}
	lower := strings.ToLower(string(secret))
	for _, w := range a.stopwords {
		if strings.Contains(lower, w) {
			return true
		}
	}
	return false
}

// dataLine is one further entry of a Secret's data.
var dataLine = lazyregexp.New(`^\s*\n[ \t]+[\w.-]+:[ \t]*["']?([A-Za-z0-9+/]{6,}={0,3})["']?`)

// furtherData appends what stands below the first value of a Secret of
// Kubernetes.
func furtherData(spans []span, b []byte, end int, mark string) []span {
	const longest = 64 << 10
	for {
		m := dataLine().FindSubmatchIndex(b[end:min(len(b), end+longest)])
		if m == nil {
			return spans
		}
		spans = append(spans, span{end + m[2], end + m[3], mark})
		end += m[1]
	}
}
