package trust

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/registry"
)

// Confidence says how surely an intent means a server, from 0 to 1.
type Confidence struct {
	Value float64
	// Exact is the name that the intent holds as it is; "": none. Without one,
	// Value stays below [Threshold].
	Exact string
	// Why is for people.
	Why string
}

const (
	// Threshold is the confidence from which a server may be installed without a
	// person; a trust file may ask for more.
	Threshold = 0.9

	exactNamespaced = 1.0  // @scope/name, io.github.user/name
	exactPlain      = 0.95 // a name without a namespace
	most            = 0.85 // without an exact name
	nameShare       = 0.5  // of it for words of the name
	wordShare       = 0.35 // and for words of the description
	maxIntent       = 16 << 10
)

// Measure says how surely intent, with what else was said as context, means
// that candidate, which describes itself with the text. The definition is in
// docs/TRUST.md. Only the intent can name a server exactly: context is often
// copied from elsewhere.
func Measure(intent, context string, c *Candidate, description string) Confidence {
	intent, context = cut(intent), cut(context)
	for _, n := range []struct {
		kind registry.Kind
		name string
	}{{c.Kind, c.Package}, {ServerName, c.Server}} {
		if n.name == "" || oddCharacters(n.name) != "" {
			continue
		}
		if how := namedIn(intent, n.kind, n.name); how != "" {
			value := exactPlain
			if strings.Contains(n.name, "/") {
				value = exactNamespaced
			}
			return Confidence{Value: value, Exact: n.name, Why: how}
		}
	}
	wanted := contentWords(intent + "\n" + context)
	names := contentWords(distinctiveText(c.Package) + " " + distinctiveText(c.Server))
	told := contentWords(description)
	named := share(names, wanted)
	for w := range names {
		told[w] = true
	}
	value := min(most, nameShare*named+wordShare*share(wanted, told))
	value = math.Round(value*100) / 100
	return Confidence{Value: value, Why: fmt.Sprintf("the intent does not name it exactly; %d %% of its name and %d %% of the intent fit", percent(named), percent(share(wanted, told)))}
}

func percent(share float64) int { return int(math.Round(100 * share)) }

func cut(text string) string {
	if len(text) > maxIntent {
		return strings.ToValidUTF8(text[:maxIntent], "")
	}
	return text
}

// kindPrefix stands before a name where somebody says which kind is meant.
func kindPrefix(kind registry.Kind) string { return string(kind) + ":" }

// namedIn says how the intent names it exactly; "": it does not.
func namedIn(intent string, kind registry.Kind, name string) string {
	if nameAt(intent, kind, name) < 0 {
		return ""
	}
	return "the intent names " + name
}

// nameAt returns where the name ends with which the intent names it exactly; -1:
// it does not.
func nameAt(intent string, kind registry.Kind, name string) int {
	for at := 0; ; {
		i := strings.Index(intent[at:], name)
		if i < 0 {
			return -1
		}
		start := at + i
		end := start + len(name)
		at = start + 1
		before, after := intent[:start], intent[end:]
		prefixed := strings.HasSuffix(before, kindPrefix(kind))
		if prefixed {
			before = strings.TrimSuffix(before, kindPrefix(kind))
		}
		telling := prefixed || strings.Contains(name, "/") || isMarked(before, after) || looksLikeName(name)
		if telling && startsName(before) && endsName(after) && !isRefused(before) {
			return end
		}
	}
}

// Named says how an intent names a package or server exactly, as [Measure] sees
// it; "": it does not.
func Named(intent string, kind registry.Kind, name string) string {
	if name == "" || oddCharacters(name) != "" {
		return ""
	}
	return namedIn(cut(intent), kind, name)
}

// NamedLocally says how an intent names what is there already: a configured
// server, or a tool. Such a name needs less than one by which something is
// installed. It also counts where it is no word of a sentence, since it has an
// underscore, a hyphen, a dot, a digit or a capital inside, and beside a word
// that says what it is, as in "the memory server". "": it does not name it.
func NamedLocally(intent, name string) string {
	if name == "" || oddCharacters(name) != "" {
		return ""
	}
	intent = cut(intent)
	for at := 0; ; {
		i := strings.Index(intent[at:], name)
		if i < 0 {
			return ""
		}
		start := at + i
		before, after := intent[:start], intent[start+len(name):]
		at = start + 1
		telling := isMarked(before, after) || looksMade(name) || kindAfter().MatchString(after) || kindBefore().MatchString(before)
		if telling && startsName(before) && endsName(after) && !isRefused(before) {
			return "the intent names " + name
		}
	}
}

var (
	kindAfter  = lazyregexp.New(`^[ ]+(mcp|MCP|server|tool)\b`)
	kindBefore = lazyregexp.New(`\b(server|tool)[ ]+(called[ ]+|named[ ]+)?$`)
)

// looksMade says that a name is no word of a sentence.
func looksMade(name string) bool {
	for i, r := range name {
		if i > 0 && (r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' && name[i-1] >= 'a' && name[i-1] <= 'z') {
			return true
		}
	}
	return false
}

// nameToken is what may be the name of a package or of a registry's server.
var nameToken = lazyregexp.New(`@[0-9A-Za-z][\w.~-]*/[\w.~-]*\w|[a-z]{2,6}(\.[0-9A-Za-z-]+)+/[\w.-]*\w|(npm|pypi|oci):[\w.~/@-]*\w|\w[\w.]*[-_][\w.-]*\w`)

// A NamedPackage is the name of a package or of a registry's server that an
// intent names exactly, whether there is such or not.
type NamedPackage struct {
	// Kind is what was written before it, where Explicit is true, else what its
	// form says; a plain name may be one of PyPI as well then, and name==1.2 is one.
	Kind     registry.Kind
	Explicit bool
	Name     string
	// Version is what was written behind it: "1.2.3" of name@1.2.3 or
	// name==1.2.3, and ">=1" of name>=1. "": nothing was.
	Version string
}

// NamedPackages are the names that an intent names exactly, at most ten.
func NamedPackages(intent string) []NamedPackage {
	const enough = 10
	var list []NamedPackage
	intent = cut(intent)
	for _, token := range nameToken().FindAllString(intent, -1) {
		n := NamedPackage{Kind: registry.NPM, Name: token}
		for _, k := range []registry.Kind{registry.NPM, registry.PyPI, registry.OCI} {
			if rest, ok := strings.CutPrefix(token, kindPrefix(k)); ok {
				n.Kind, n.Name, n.Explicit = k, rest, true
			}
		}
		if i := strings.LastIndexByte(n.Name, '@'); i > 0 {
			n.Name = n.Name[:i]
		}
		if dottedName().MatchString(n.Name) && !n.Explicit {
			n.Kind = ServerName
		}
		end := -1
		if oddCharacters(n.Name) == "" {
			end = nameAt(intent, n.Kind, n.Name)
		}
		if end < 0 || slices.ContainsFunc(list, func(o NamedPackage) bool { return o.Name == n.Name }) {
			continue
		}
		if m := nameEnd().FindStringSubmatch(intent[end:min(len(intent), end+maxNameEnd)]); m != nil {
			version, python := strings.CutPrefix(strings.TrimRight(m[1], "."), "==")
			n.Version = strings.TrimPrefix(strings.TrimPrefix(version, "@"), "==")
			if python && n.Kind == registry.NPM && !n.Explicit && n.Name[0] != '@' {
				n.Kind = registry.PyPI
			}
		}
		if list = append(list, n); len(list) == enough {
			break
		}
	}
	return list
}

// Telling are the words of a name that say what it is, without its namespace and
// words such as mcp and server.
func Telling(name string) string { return distinctiveText(name) }

// nameEnd is what may stand behind a name: nothing, a version, or what ends a
// word in a sentence. A version that is none is one here: whoever reads it says
// what is wrong with it.
var nameEnd = lazyregexp.New("^(@[~^<>=]*[0-9A-Za-z*][0-9A-Za-z.+*_-]*|(?:[=~!<>]=|[<>])[0-9][0-9A-Za-z.+*!_-]*)?[.,;:!?]*($|[\\s\"'`)\\]}>])")

const maxNameEnd = 300 // bytes

func endsName(after string) bool {
	return nameEnd().MatchString(after[:min(len(after), maxNameEnd)]) && !strings.HasPrefix(after, "@npm:")
}

func startsName(before string) bool {
	if before == "" {
		return true
	}
	return strings.ContainsRune(" \t\r\n\"'`([{<", rune(before[len(before)-1]))
}

// isMarked says that a name stands in quotes.
func isMarked(before, after string) bool {
	if before == "" || after == "" {
		return false
	}
	const quotes = "\"'`"
	return strings.IndexByte(quotes, before[len(before)-1]) >= 0 && before[len(before)-1] == after[0]
}

// looksLikeName says that a name without a namespace cannot be words of a
// sentence: a package called "memory" is not named by who talks of memory.
func looksLikeName(name string) bool {
	return len(strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })) > 1 && genericCount(name) > 0
}

// refusals make of a name one that is not wanted.
var refusals = map[string]bool{
	"not": true, "no": true, "never": true, "avoid": true, "without": true, "except": true, "unlike": true, "don't": true, "dont": true,
	"instead": true, "than": true, "replace": true, "remove": true, "uninstall": true, "disable": true, "block": true, "nor": true, "isn't": true,
	"ignore": true, "skip": true, "stop": true, "cannot": true, "can't": true, "won't": true, "shouldn't": true, "mustn't": true, "neither": true,
}

var wordPattern = lazyregexp.New(`[\pL\pN'’]+`)

// isRefused says whether one of the four words before a name, in the same
// sentence, turns it into one that is not wanted.
func isRefused(before string) bool {
	const look, near = 200, 4
	before = before[max(0, len(before)-look):]
	if i := strings.LastIndexAny(before, ".;!?\n"); i >= 0 && i+1 < len(before) {
		before = before[i+1:]
	}
	words := wordPattern().FindAllString(strings.ToLower(strings.ReplaceAll(before, "’", "'")), -1)
	for _, w := range words[max(0, len(words)-near):] {
		if refusals[w] {
			return true
		}
	}
	return false
}

// stopWords say nothing about what is wanted.
var stopWords = wordSet(`a an and any are as at be by can could do for from get give has have how i if in into is it its let me my need of on or our
please server servers mcp should so some that the their them then there this to tool tools up us use using want we what when which will with would you your`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}

// contentWords are the words that say something, in a simple singular.
func contentWords(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range wordPattern().FindAllString(strings.ToLower(text), -1) {
		if stopWords[w] || len(w) < 2 {
			continue
		}
		if len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") {
			w = strings.TrimSuffix(w, "s")
		}
		set[w] = true
	}
	return set
}

// distinctiveText are the words of a name, without generic ones and namespace.
func distinctiveText(name string) string {
	if i := strings.LastIndex(name, "/"); i >= 0 && distinctive(name[i+1:]) != "" {
		name = name[i+1:]
	}
	var kept []string
	for _, w := range nameWords(name) {
		if !isGeneric(w) {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

// Overlap is the part of an intent's words that a text has, from 0 to 1. Words
// that say nothing do not count.
func Overlap(intent, text string) float64 {
	return share(contentWords(cut(intent)), contentWords(text))
}

// share is the part of some that is in all.
func share(some, all map[string]bool) float64 {
	if len(some) == 0 {
		return 0
	}
	n := 0
	for w := range some {
		if all[w] {
			n++
		}
	}
	return float64(n) / float64(len(some))
}
