package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/metamcp/metamcp/integration/jsonc"
	"github.com/tailscale/hujson"
)

// maxReported bounds each list of problems; what is beyond is counted in one
// last line.
const maxReported = 1000

// reader turns JSON values into Go values and collects what is wrong with
// them. Its methods return false where they reported something.
type reader struct {
	problems []Problem
	refused  int // how many there were, also those that problems had no room for
}

func (r *reader) bad(d *document, at *hujson.Value, hint, format string, args ...any) bool {
	r.refused++
	r.problems = appendBounded(r.problems, d.problem(at, fmt.Sprintf(format, args...), hint))
	return false
}

func (r *reader) mismatch(d *document, path string, v *hujson.Value, expected string) bool {
	hint := ""
	if expected == "a string" && (v.Value.Kind() == '0' || v.Value.Kind() == 't' || v.Value.Kind() == 'f') {
		hint = "put it in quotes"
	}
	return r.bad(d, v, hint, "%s: expected %s, found %s", path, expected, jsonc.Kind(v))
}

// err is the first problem as an error, without position.
func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return errors.New(r.problems[0].Message)
}

func appendBounded(list []Problem, p Problem) []Problem {
	switch {
	case len(list) < maxReported:
		return append(list, p)
	case len(list) == maxReported:
		return append(list, Problem{File: p.File, Message: "there is more of the kind that is not listed"})
	}
	return list
}

// str reads a string and resolves its variables; ex may be nil.
func (r *reader) str(d *document, path string, v *hujson.Value, ex *expander) (string, bool) {
	lit, ok := v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		return "", r.mismatch(d, path, v, "a string")
	}
	if !utf8.Valid(lit) {
		return "", r.bad(d, v, notUTF8, "%s: it is not written in UTF-8", path)
	}
	s, err := ex.expand(literalString(lit))
	if err != nil {
		hint := ""
		var ve *variableError
		if errors.As(err, &ve) {
			hint = ve.hint
		}
		return "", r.bad(d, v, hint, "%s: %s", path, err)
	}
	if strings.ContainsRune(s, 0) {
		return "", r.bad(d, v, "", "%s: it holds a NUL byte", path)
	}
	return s, true
}

// text reads a string as str does, but only says whether all is well: the
// name of an element, which a report needs, costs more than the reading.
func text(v *hujson.Value, ex *expander) (string, bool) {
	lit, ok := v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' || !utf8.Valid(lit) {
		return "", false
	}
	s, err := ex.expand(literalString(lit))
	return s, err == nil && strings.IndexByte(s, 0) < 0
}

// whole reads a whole number, however it is written.
func (r *reader) whole(d *document, path string, v *hujson.Value) (int64, bool) {
	lit, ok := v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '0' {
		return 0, r.mismatch(d, path, v, "a whole number")
	}
	if n, err := strconv.ParseInt(string(lit), 10, 64); err == nil {
		return n, true
	}
	if f, err := strconv.ParseFloat(string(lit), 64); err == nil && f == float64(int64(f)) && f > -1e15 && f < 1e15 {
		return int64(f), true
	}
	return 0, r.bad(d, v, "", "%s: expected a whole number, found %s", path, shorten(string(lit)))
}

func (r *reader) boolean(d *document, path string, v *hujson.Value) (value, ok bool) {
	switch v.Value.Kind() {
	case 't':
		return true, true
	case 'f':
		return false, true
	}
	return false, r.mismatch(d, path, v, "a boolean")
}

// stringList reads an array of strings; nil where something is wrong.
func (r *reader) stringList(d *document, path string, v *hujson.Value, ex *expander) []string {
	arr, ok := v.Value.(*hujson.Array)
	if !ok {
		r.mismatch(d, path, v, "an array of strings")
		return nil
	}
	list, good := make([]string, 0, len(arr.Elements)), true
	for i := range arr.Elements {
		s, ok := text(&arr.Elements[i], ex)
		if !ok {
			_, good = r.str(d, path+"["+strconv.Itoa(i)+"]", &arr.Elements[i], ex)
		}
		list = append(list, s)
	}
	if !good {
		return nil
	}
	return list
}

// pair is one member of an object of strings.
type pair struct {
	key, value string
	joined     string        // key=value, in those that passed through environment
	at         *hujson.Value // the name, in those that stringMap read
}

// stringMap reads an object of strings in the file's order; the last of two
// equal names counts.
func (r *reader) stringMap(d *document, path string, v *hujson.Value, ex *expander) []pair {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		r.mismatch(d, path, v, "an object of strings")
		return nil
	}
	pairs := make([]pair, 0, len(obj.Members))
	for i := range obj.Members {
		m := &obj.Members[i]
		key := memberName(m)
		if !named(m) {
			r.bad(d, &m.Name, notUTF8, "%s: the name %s is not written in UTF-8", path, shorten(key))
			continue
		}
		s, ok := text(&m.Value, ex)
		if !ok {
			r.str(d, path+"."+shorten(key), &m.Value, ex)
			continue
		}
		pairs = append(pairs, pair{key: key, value: s, at: &m.Name})
	}
	return pairs
}

// toolRules reads the array of tool rules. There are no variables in them,
// since a pattern has a $ of its own.
func (r *reader) toolRules(d *document, path string, v *hujson.Value) []ToolRule {
	arr, ok := v.Value.(*hujson.Array)
	if !ok {
		r.mismatch(d, path, v, "an array of tool rules")
		return nil
	}
	rules := make([]ToolRule, 0, len(arr.Elements))
	for i := range arr.Elements {
		at := path + "[" + strconv.Itoa(i) + "]"
		obj, ok := arr.Elements[i].Value.(*hujson.Object)
		if !ok {
			r.mismatch(d, at, &arr.Elements[i], "a tool rule {pattern, server?, enabled?, tags?}")
			continue
		}
		rules = append(rules, r.toolRule(d, at, &arr.Elements[i], obj))
	}
	return rules
}

// ruleMembers are the members of one tool rule.
var ruleMembers = []string{"pattern", "server", "enabled", "tags"}

func (r *reader) toolRule(d *document, path string, at *hujson.Value, obj *hujson.Object) ToolRule {
	var rule ToolRule
	for i := range obj.Members {
		m := &obj.Members[i]
		name := memberName(m)
		p := path + "." + shorten(name)
		switch name {
		case "pattern":
			if m.Value.Value.Kind() == '"' {
				s, _ := r.str(d, p, &m.Value, nil)
				rule.Pattern = []string{s}
			} else {
				rule.Pattern = r.stringList(d, p, &m.Value, nil)
			}
		case "server":
			rule.Server, _ = r.str(d, p, &m.Value, nil)
		case "enabled":
			if v, ok := r.boolean(d, p, &m.Value); ok {
				rule.Enabled = &v
			}
		case "tags":
			rule.Tags = r.stringList(d, p, &m.Value, nil)
		default:
			// A rule with a mistyped member means something else than was
			// meant, which a rule about access must not.
			r.bad(d, &m.Name, suggestion(name, ruleMembers), "%s: no such member of a tool rule", p)
		}
	}
	if len(rule.Pattern) == 0 {
		r.bad(d, at, `write "pattern": ["*"] for every tool`, "%s: pattern is missing or empty", path)
	}
	for _, p := range rule.Pattern {
		if strings.TrimSpace(p) == "" {
			r.bad(d, at, "", "%s: a pattern is empty", path)
		}
	}
	return rule
}

// named says that the name of a member is what its file says: what is not UTF-8 is
// replaced where it is read.
func named(m *hujson.ObjectMember) bool {
	lit, ok := m.Name.Value.(hujson.Literal)
	return !ok || utf8.Valid(lit)
}

const notUTF8 = "save the file as UTF-8"

func memberName(m *hujson.ObjectMember) string {
	lit, ok := m.Name.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		return ""
	}
	// The names that are common need no copy of their own.
	if i, ok := entryIndex[string(lit[1:len(lit)-1])]; ok {
		return entryTable[i].Name
	}
	return literalString(lit)
}

// shorten bounds a name or number of the user in a message and keeps control
// characters out of it.
func shorten(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "…"
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
