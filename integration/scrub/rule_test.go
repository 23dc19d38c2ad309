package scrub

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

// sample writes a text that a pattern matches.
func sample(rnd *rand.Rand, re *syntax.Regexp, out *strings.Builder) {
	const endless = 8 // more than the least, where there is no most
	times := func(least, most int) {
		if most < 0 {
			most = least + endless
		}
		for range least + rnd.IntN(most-least+1) {
			sample(rnd, re.Sub[0], out)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		out.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		var fit []rune
		for c := rune('!'); c < 0x7f; c++ {
			for i := 0; i+1 < len(re.Rune); i += 2 {
				if c >= re.Rune[i] && c <= re.Rune[i+1] {
					fit = append(fit, c)
					break
				}
			}
		}
		if len(fit) == 0 {
			fit = []rune{' '}
		}
		out.WriteRune(fit[rnd.IntN(len(fit))])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out.WriteByte(".aB7k.9Q"[rnd.IntN(8)])
	case syntax.OpStar:
		times(0, 1)
	case syntax.OpPlus:
		times(1, -1)
	case syntax.OpQuest:
		times(0, 1)
	case syntax.OpRepeat:
		times(re.Min, re.Max)
	case syntax.OpAlternate:
		sample(rnd, re.Sub[rnd.IntN(len(re.Sub))], out)
	default:
		for _, sub := range re.Sub {
			sample(rnd, sub, out)
		}
	}
}

// TestEveryRuleFindsItsOwn makes secrets from the pattern of each rule, and
// looks for them in texts of several kinds. Nothing here is anybody's.
func TestEveryRuleFindsItsOwn(t *testing.T) {
	const each = 8
	s := New(nil)
	all := allRules()
	var file ruleFile
	if err := json.Unmarshal(rulesJSON, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Rules) < 200 {
		t.Fatalf("only %d rules", len(file.Rules))
	}
	bySource := map[string]*rule{}
	for i := range all.list {
		if r := &all.list[i]; r.outline != nil {
			bySource[r.pattern().String()] = r
		}
	}
	rnd := rand.New(rand.NewPCG(6, 2))
	for _, src := range apart(file.Rules) {
		src.Regex = wider.Replace(src.Regex)
		r := bySource[src.Regex]
		if r == nil {
			if !ownRule[src.ID] {
				t.Errorf("%s is missing", src.ID)
			}
			continue
		}
		method := r.outline().method
		tree, err := syntax.Parse(src.Regex, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		found, tried := 0, 0
		for n := 0; tried < each && n < 50*each; n++ {
			var text strings.Builder
			switch {
			case method == asAssignment || method == asValue:
				name := src.Keywords[rnd.IntN(len(src.Keywords))]
				if method == asValue && rnd.IntN(2) == 0 {
					name, _, _ = strings.Cut(src.ID, "-api")
					name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "-pub"), "-browser"), "-insert-key")
					name = strings.TrimSuffix(name, "-user")
				}
				more := "_api_key"
				if src.ID == "sonar-api-token" {
					more = "_token"
				}
				text.WriteString("export " + name + more + []string{"=", ": ", " = \"", "\": \""}[rnd.IntN(4)])
				sample(rnd, capture(tree, max(1, src.SecretGroup)), &text)
			case src.ID == "facebook-access-token" || src.ID == "airtable-personnal-access-token":
				text.WriteString("see " + src.Keywords[0] + " ")
				sample(rnd, tree, &text)
			default:
				text.WriteString("see ")
				sample(rnd, tree, &text)
			}
			text.WriteString("\nand so on\n")
			in := text.String()
			if !gitleaksFinds(r, all, src.Keywords, in) || src.ID == "sourcegraph-access-token" && !strings.Contains(strings.ToLower(in), "sgp_") {
				continue // too plain, or allowed; what any commit hash may be is not looked for
			}
			tried++
			if got := s.Text(in); got != in && strings.Contains(got, "[REDACTED:") {
				found++
			} else if tried-found < 3 {
				t.Logf("%s: not in %q", src.ID, in)
			}
		}
		if tried == 0 || found < tried {
			t.Errorf("%s (%d): found %d of %d", src.ID, method, found, tried)
		}
	}
}

// gitleaksFinds is the plain way: the keywords, the pattern on the whole text, entropy, lists.
func gitleaksFinds(r *rule, all *rules, keywords []string, text string) bool {
	b := []byte(text)
	lower := strings.ToLower(text)
	if !slices.ContainsFunc(keywords, func(k string) bool { return strings.Contains(lower, k) }) {
		return false
	}
	m := r.pattern().FindSubmatchIndex(b)
	if m == nil {
		return false
	}
	start, end := r.secret(m)
	secret := b[start:end]
	if r.entropy > 0 && entropy(secret) <= r.entropy {
		return false
	}
	global := all.allowed()
	if global.has(b, b[m[0]:m[1]], secret, m[0]) {
		return false
	}
	for _, a := range r.allowed() {
		if a.has(b, b[m[0]:m[1]], secret, m[0]) {
			return false
		}
	}
	return !bytes.Contains(secret, []byte("REDACTED"))
}
