package index

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Rule says of the tools that it matches whether they may be found, listed
// and called, and which tags they carry.
type Rule struct {
	// Patterns are tried in order against the tool's name: a glob (*, ?, [a-z],
	// [!a-z]), a regular expression /…/ with the flags i, s and m, or either
	// of them behind a "!". The first that matches decides: one with "!" says
	// that the rule does not apply, one without that it does. Where none
	// matches it does not apply, so an exclusion stands before what it
	// excludes from: ["!*delete*", "github_*"].
	Patterns []string
	Server   string // only tools of this server; "": of every server
	Enabled  *bool  // nil: decides nothing
	Tags     []string
}

// Rules are the tool rules of a configuration. They never change and are safe
// for any goroutine; nil are no rules at all: every tool is enabled.
type Rules struct {
	rules     []compiledRule
	whitelist bool
}

type compiledRule struct {
	patterns []pattern
	Rule
}

type pattern struct {
	re      *regexp.Regexp
	exclude bool
}

// A RuleError says which pattern of which rule is wrong, and why.
type RuleError struct {
	Rule    int // from 0
	Pattern string
	Err     error
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("tool rule %d: pattern %q: %s", e.Rule+1, e.Pattern, e.Err)
}

func (e *RuleError) Unwrap() error { return e.Err }

// CompileRules reads the patterns. The error is a [*RuleError]. Regular expressions are RE2's, which take time linear in
// the name whatever is written, and know no look-ahead.
func CompileRules(rules []Rule) (*Rules, error) {
	if len(rules) == 0 {
		return nil, nil //nolint:nilnil // nil are no rules
	}
	r := &Rules{}
	for i, rule := range rules {
		c := compiledRule{Rule: rule}
		for _, text := range rule.Patterns {
			p, err := compilePattern(text)
			if err != nil {
				return nil, &RuleError{i, text, err}
			}
			c.patterns = append(c.patterns, p)
		}
		r.rules = append(r.rules, c)
		r.whitelist = r.whitelist || rule.Enabled != nil && *rule.Enabled
	}
	return r, nil
}

func compilePattern(text string) (pattern, error) {
	var p pattern
	body, exclude := strings.CutPrefix(text, "!")
	p.exclude = exclude
	expr := globExpr
	if strings.HasPrefix(body, "/") && strings.LastIndexByte(body, '/') > 0 {
		expr = regexExpr
	}
	source, err := expr(body)
	if err != nil {
		return p, err
	}
	p.re, err = regexp.Compile(source)
	return p, err
}

// regexExpr turns /…/flags into Go's form.
func regexExpr(body string) (string, error) {
	end := strings.LastIndexByte(body, '/')
	flags := ""
	for _, f := range body[end+1:] {
		switch f {
		case 'i', 's', 'm':
			flags += string(f)
		case 'u', 'g': // always so, and without meaning for one name
		default:
			return "", fmt.Errorf("unknown flag %q; use i, s or m", f)
		}
	}
	if flags != "" {
		flags = "(?" + flags + ")"
	}
	return flags + body[1:end], nil
}

// globExpr turns a glob into a regular expression. Names of tools know no
// folders, so * and ? match every character.
func globExpr(glob string) (string, error) {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			b.WriteString(".*")
		case '?':
			b.WriteByte('.')
		case '\\':
			if i++; i == len(glob) {
				return "", fmt.Errorf("nothing follows the last \\")
			}
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		case '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end < 1 {
				return "", fmt.Errorf("the [ has no matching ]")
			}
			class := glob[i+1 : i+1+end]
			b.WriteByte('[')
			if class[0] == '!' || class[0] == '^' {
				b.WriteByte('^')
				class = class[1:]
			}
			b.WriteString(strings.NewReplacer(`\`, `\\`, `[`, `\[`, `^`, `\^`).Replace(class))
			b.WriteByte(']')
			i += end + 1
		default:
			// Bytes of a longer character stay together.
			next := i + 1
			for next < len(glob) && glob[next]&0xc0 == 0x80 {
				next++
			}
			b.WriteString(regexp.QuoteMeta(glob[i:next]))
			i = next - 1
		}
	}
	b.WriteString(`\z`)
	return b.String(), nil
}

func (c *compiledRule) applies(server, tool string) bool {
	if c.Server != "" && c.Server != server {
		return false
	}
	for _, p := range c.patterns {
		if p.re.MatchString(tool) {
			return !p.exclude
		}
	}
	return false
}

// Decide says whether a tool is enabled, and its tags: the server's and those
// of all rules that apply, each once, in order. The first rule that applies
// and has an opinion decides; where none has, a tool is enabled unless some
// rule enables tools, which makes the rules a whitelist.
func (r *Rules) Decide(server, tool string, serverTags []string) (enabled bool, tags []string) {
	if r == nil {
		return true, serverTags
	}
	enabled, tags = !r.whitelist, serverTags
	decided := false
	for i := range r.rules {
		rule := &r.rules[i]
		if !rule.applies(server, tool) {
			continue
		}
		if rule.Enabled != nil && !decided {
			enabled, decided = *rule.Enabled, true
		}
		for _, tag := range rule.Tags {
			if !slices.Contains(tags, tag) {
				tags = append(slices.Clip(tags), tag)
			}
		}
	}
	return enabled, tags
}
