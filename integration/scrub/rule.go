package scrub

import (
	_ "embed"
	"encoding/json"
	"math"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

//go:generate go run ./fetchrules

// rulesJSON are gitleaks' rules; fetchrules writes it.
//
//go:embed rules.json
var rulesJSON []byte

// ruleFile is the form of rules.json.
type ruleFile struct {
	From      string          `json:"from"`
	Allowlist allowlistSource `json:"allowlist"`
	Rules     []ruleSource    `json:"rules"`
}

type ruleSource struct {
	ID          string            `json:"id"`
	Regex       string            `json:"regex"`
	Entropy     float64           `json:"entropy"`
	SecretGroup int               `json:"secretGroup"`
	Keywords    []string          `json:"keywords"`
	Allowlists  []allowlistSource `json:"allowlists"`
}

type allowlistSource struct {
	RegexTarget string   `json:"regexTarget"` // "match", "line"; "": the secret
	Regexes     []string `json:"regexes"`
	Stopwords   []string `json:"stopwords"`
}

// method says how the places are found at which a rule's pattern is tried.
type method uint8

const (
	// asPrefix: every match begins with one of the keywords.
	asPrefix method = iota
	// asAssignment: a name with the keyword in it, a sign, a value.
	asAssignment
	// asValue: a name, a sign, a value that begins with the keyword.
	asValue
	// asNeighbour: the keyword stands somewhere near, or within.
	asNeighbour
)

// rule is how one kind of secret looks.
type rule struct {
	id      string
	marker  string
	entropy float64
	group   int
	outline func() *outline // nil: it is that of quoted names
	pattern func() *regexp.Regexp
	allowed func() []allowlist
}

// outline is what can be told of a pattern without trying it.
type outline struct {
	method method
	reach  int // bytes before and after a keyword that a match may need
	// programs are what follows from the start of a match on, as far as that is
	// the same in all, or from that of its value on; asPrefix and asValue alone.
	programs []program
	word     bool // a match begins at the beginning of a word
}

// allowlist is what is no secret although it looks like one.
type allowlist struct {
	target    string
	regexes   []*regexp.Regexp
	stopwords []string
}

// rules are all of them, ready for use.
type rules struct {
	list []rule
	// filter passes their keywords and the beginnings of all shapes.
	filter filter
	// words are the keywords, by the place of their key in filter.around.
	words   [][]keyword
	allowed func() allowlist
}

// keyword is a word in lower case, without which a rule finds nothing.
type keyword struct {
	text  string
	rare  int // where its rarest part begins
	rules []uint16
}

// rarest returns where those three bytes of a word begin that are the rarest
// in texts, by their letters.
func rarest(word string) (at int) {
	const (
		common   = "etaonisrlcdpumghfbyvwkxjqz" // the most frequent first
		dot      = 14
		dash     = 18
		underbar = 19
		digit    = 22
	)
	best := -1
	for i := range len(word) - keyLength + 1 {
		sum := 0
		for _, c := range word[i : i+keyLength] {
			switch n := strings.IndexRune(common, c); {
			case n >= 0:
				sum += n
			case c == '.':
				sum += dot
			case c == '-':
				sum += dash
			case c == '_':
				sum += underbar
			default:
				sum += digit
			}
		}
		if sum > best {
			at, best = i, sum
		}
	}
	return at
}

const (
	// assignmentSign is how gitleaks writes what stands between name and value
	// in rules that look for both.
	assignmentSign = `(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)`
	// longestMatch bounds what a pattern without an end is tried on at first.
	longestMatch = 1 << 10
	// beforeAssignment is what the name may have before its keyword.
	beforeAssignment = 64
	// afterKeyword is what the name may have behind it.
	afterKeyword = 40
	nearby       = 600
)

// otherKeywords replace those of rules whose matches need not hold their
// keyword, or where it is in every text: a result is a part of a file at best,
// and a commit hash must not go because a word stands in the same text.
var otherKeywords = map[string][]string{
	"airtable-personnal-access-token": {"pat"},
	"sourcegraph-access-token":        {"sgp_"},
	"cloudflare-origin-ca-key":        {"v1.0-"},
	"intra42-client-secret":           {"s-s4t2ud-", "s-s4t2af-"},
	"microsoft-teams-webhook":         {"webhook.office.com"},
	"kubernetes-secret-yaml":          {"kind: secret", "kind: \"secret", "kind: 'secret", "kind:secret", "kind:\"secret", "kind:'secret"},
	"azure-ad-client-secret":          {"0q~", "1q~", "2q~", "3q~", "4q~", "5q~", "6q~", "7q~", "8q~", "9q~"},
}

// wider lets a secret end where one ends in a text of people: before a comma, a
// bracket, the stop of a sentence. gitleaks has files in mind, and there quotes,
// blanks and semicolons.
var wider = strings.NewReplacer(
	`(?:[\x60'"\s;]|\\[nr]|$)`, `(?:[\x60'"\s;,)\]}<>&|]|\.(?:\s|$)|\\[nr]|$)`,
	`(?:$|[\\'"\x60\s<),])`, `(?:$|[\\'"\x60\s<>),;\]}&|])`,
)

// genericRule is the one that knows no service.
const genericRule = "generic-api-key"

// ownRule are rules that code of ours stands in for.
var ownRule = map[string]bool{
	"private-key": true, // privateKey in shapes.go: finds one without an end too
}

// allRules reads the rules, once; patterns are compiled as they are needed.
var allRules = sync.OnceValue(readRules)

func readRules() *rules {
	var file ruleFile
	_ = json.Unmarshal(rulesJSON, &file) // it is a part of the program, and tested
	r := &rules{allowed: sync.OnceValue(func() allowlist { return file.Allowlist.compile() })}
	byWord := map[string][]uint16{}
	for _, src := range apart(file.Rules) {
		if ownRule[src.ID] {
			continue
		}
		if other, ok := otherKeywords[src.ID]; ok {
			src.Keywords = other
		}
		src.Regex = wider.Replace(src.Regex)
		n := uint16(len(r.list))
		r.list = append(r.list, newRule(src))
		for _, k := range r.list[n].longer(src.Keywords) {
			byWord[k] = append(byWord[k], n)
		}
	}
	// Members of JSON whose name says that they are secret.
	n := uint16(len(r.list))
	r.list = append(r.list, rule{id: "named"})
	for _, w := range strongEndings() {
		byWord[w] = append(byWord[w], n)
	}
	for w, list := range byWord {
		word := keyword{w, rarest(w), list}
		n := int(r.filter.add([]byte(w), word.rare, ofRule, r.following(w, list)...))
		r.words = append(r.words, make([][]keyword, max(0, n+1-len(r.words)))...)
		r.words[n] = append(r.words[n], word)
	}
	addShapes(&r.filter)
	r.words = append(r.words, make([][]keyword, len(r.filter.around)-len(r.words))...) // none
	return r
}

// following is what must follow a keyword of the shortest, which is a part of many
// ordinary words: two bytes, by their last five bits. nil: any may, for one of its rules.
func (r *rules) following(word string, list []uint16) (follow []uint32) {
	if len(word) > keyLength {
		return nil
	}
	follow = make([]uint32, 2)
	for _, n := range list {
		if r.list[n].outline == nil {
			return nil
		}
		o := r.list[n].outline()
		if o.method != asPrefix && o.method != asValue {
			return nil
		}
		for _, p := range o.programs {
			for i := range follow {
				follow[i] |= p.at(len(word) + i).bits()
			}
		}
	}
	return follow
}

// apart makes two of rules that look for an assignment or for a token.
func apart(list []ruleSource) (out []*ruleSource) {
	const or = `|\b(`
	for i := range list {
		src := &list[i]
		first, second, mixed := strings.Cut(src.Regex, or)
		if !mixed || !strings.Contains(first, assignmentSign) || !strings.HasPrefix(first, "(?i)") {
			out = append(out, src)
			continue
		}
		one, other := *src, *src
		one.Regex, other.Regex = first, `(?i)\b(`+second
		out = append(out, &one, &other)
	}
	return out
}

// Prepare makes ready what the first text would wait some milliseconds for.
func Prepare() { allRules() }

func newRule(src *ruleSource) rule {
	return rule{
		id: src.ID, marker: marker(src.ID), entropy: src.Entropy, group: src.SecretGroup,
		outline: sync.OnceValue(func() *outline { return outlineOf(src) }),
		pattern: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(src.Regex) }),
		allowed: sync.OnceValue(func() (lists []allowlist) {
			for i := range src.Allowlists {
				lists = append(lists, src.Allowlists[i].compile())
			}
			return lists
		}),
	}
}

func outlineOf(src *ruleSource) *outline {
	tree, err := syntax.Parse(src.Regex, syntax.Perl)
	if err != nil {
		return &outline{} // nothing fits it; as for the file, tests see to that
	}
	o := &outline{reach: min(longest(tree), longestMatch)}
	if strings.Contains(src.Regex, assignmentSign) {
		o.method = asAssignment
		if value := capture(tree, max(1, src.SecretGroup)); value != nil {
			if programs := programsOf(value); beginWith(programs, src.Keywords) {
				o.method, o.programs = asValue, programs
			}
		}
		return o
	}
	if programs := programsOf(tree); beginWith(programs, src.Keywords) {
		o.programs = programs
		o.word = tree.Op == syntax.OpConcat && tree.Sub[0].Op == syntax.OpWordBoundary
		return o
	}
	o.method, o.reach = asNeighbour, min(o.reach+beforeAssignment, nearby)
	return o
}

func (a *allowlistSource) compile() allowlist {
	out := allowlist{target: a.RegexTarget, stopwords: a.Stopwords}
	for _, re := range a.Regexes {
		out.regexes = append(out.regexes, regexp.MustCompile(re))
	}
	return out
}

// mostPrograms bounds the alternatives of one rule.
const mostPrograms = 64

// entropy is that of Shannon, in bits a byte.
func entropy(b []byte) float64 {
	var counts [256]uint16
	if len(b) >= len(weights) {
		b = b[:len(weights)-1] // what is that long tells by its beginning
	}
	for _, c := range b {
		counts[c]++
	}
	sum := 0.0
	for _, c := range b {
		sum += weights[counts[c]]
		counts[c] = 0 // each counts once
	}
	if len(b) == 0 {
		return 0
	}
	return (weights[len(b)] - sum) / float64(len(b))
}

// weights are n·log₂n.
var weights = func() (w [1024]float64) {
	for n := 1; n < len(w); n++ {
		w[n] = float64(n) * math.Log2(float64(n))
	}
	return w
}()
