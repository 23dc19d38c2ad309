package index

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// An explainer turns the library's tree of errors into problems.
type explainer struct {
	schema any // decoded once more: errors are rare, schemas are many
	args   any
	out    []Problem
	// unknown are the messages for unknown properties, by place in the schema.
	unknown map[string]string
}

func explain(err *jsonschema.ValidationError, schema json.RawMessage, args any) []Problem {
	x := &explainer{args: args, unknown: map[string]string{}}
	if doc, derr := decode(schema); derr == nil {
		x.schema = doc
	}
	x.walk(err)
	// The library walks maps, so its own order changes from run to run.
	slices.SortFunc(x.out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	x.out = slices.Compact(x.out)
	if len(x.out) > MaxProblems {
		x.out = x.out[:MaxProblems]
	}
	return x.out
}

// circular says that the schema refers to itself without end, which is the
// schema's fault and not that of the arguments.
func circular(e *jsonschema.ValidationError) bool {
	if _, ok := e.ErrorKind.(*kind.RefCycle); ok {
		return true
	}
	return slices.ContainsFunc(e.Causes, circular)
}

func (x *explainer) walk(e *jsonschema.ValidationError) {
	if x.full() {
		return // the library collects every error that there is
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf:
		x.alternatives(e)
		return
	case *kind.Required:
		for _, name := range k.Missing {
			if x.full() {
				return
			}
			m := "required but missing"
			if want := typeName(x.at(e.SchemaURL, "properties", name)); want != "" {
				m += ", expected " + want
			}
			x.add(append(slices.Clone(e.InstanceLocation), name), m)
		}
		return
	case *kind.AdditionalProperties:
		m, known := x.unknown[e.SchemaURL]
		if !known {
			m = "unknown property"
			if names := x.properties(e.SchemaURL); len(names) > 0 {
				m += ", expected one of " + list(names, 20)
			}
			x.unknown[e.SchemaURL] = m
		}
		for _, name := range k.Properties {
			x.add(append(slices.Clone(e.InstanceLocation), name), m)
		}
		return
	}
	if len(e.Causes) > 0 && !isLeaf(e.ErrorKind) {
		for _, c := range e.Causes {
			x.walk(c)
		}
		return
	}
	x.add(e.InstanceLocation, message(e.ErrorKind))
}

// isLeaf tells the kinds whose causes would only confuse.
func isLeaf(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.PropertyNames, *kind.Contains, *kind.MinContains, *kind.Not:
		return true
	}
	return false
}

// alternatives makes one problem of a value that fits none of several
// schemas: where only types differ it says so, otherwise it quotes the
// alternative that came closest.
func (x *explainer) alternatives(e *jsonschema.ValidationError) {
	if k, ok := e.ErrorKind.(*kind.OneOf); ok && len(k.Subschemas) > 0 {
		x.add(e.InstanceLocation, "expected to match exactly one of the alternatives, but matches several")
		return
	}
	var want []string
	got := ""
	var nearest []Problem
	for _, c := range e.Causes {
		sub := &explainer{schema: x.schema, args: x.args, unknown: x.unknown}
		sub.walk(c)
		t := typeMismatch(c, len(e.InstanceLocation))
		if t != nil {
			want = append(want, t.Want...)
			got = t.Got
			continue
		}
		if nearest == nil || len(sub.out) < len(nearest) {
			nearest = sub.out
		}
	}
	if nearest == nil {
		slices.Sort(want)
		x.add(e.InstanceLocation, "expected "+strings.Join(slices.Compact(want), " or ")+", got "+got)
		return
	}
	x.out = append(x.out, nearest...)
}

// typeMismatch returns the type error of an alternative that failed for the
// type of the value itself, at the given depth.
func typeMismatch(e *jsonschema.ValidationError, depth int) *kind.Type {
	for {
		if t, ok := e.ErrorKind.(*kind.Type); ok && len(e.InstanceLocation) == depth {
			return t
		}
		if len(e.Causes) != 1 {
			return nil
		}
		e = e.Causes[0]
	}
}

// full says that there are more problems than will be told, sorted or not.
func (x *explainer) full() bool { return len(x.out) >= 10*MaxProblems }

func (x *explainer) add(location []string, m string) {
	if !x.full() {
		x.out = append(x.out, Problem{Path: path(location, x.args), Message: m})
	}
}

// path writes a location as a.b[0]; the arguments tell an index from a name.
func path(location []string, args any) string {
	var b strings.Builder
	for _, token := range location {
		switch v := args.(type) {
		case []any:
			args = nil
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(v) {
				args = v[i]
			}
			b.WriteString("[" + token + "]")
			continue
		case map[string]any:
			args = v[token]
		default:
			args = nil
		}
		switch {
		case !isIdentifier(token):
			b.WriteString("[" + strconv.Quote(shorten(token, 80)) + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}

func isIdentifier(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '$' && r != '@' {
			return false
		}
	}
	return s != "" && len(s) <= 80
}

// at returns the part of the schema under a location of the library's, or nil.
func (x *explainer) at(location string, more ...string) any {
	_, fragment, _ := strings.Cut(location, "#")
	if decoded, err := url.PathUnescape(fragment); err == nil {
		fragment = decoded
	}
	v := x.schema
	var tokens []string
	if fragment != "" {
		tokens = strings.Split(strings.TrimPrefix(fragment, "/"), "/")
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for i, token := range append(tokens, more...) {
		if i < len(tokens) {
			token = unescape.Replace(token)
		}
		switch c := v.(type) {
		case map[string]any:
			v = c[token]
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n < 0 || n >= len(c) {
				return nil
			}
			v = c[n]
		default:
			return nil
		}
	}
	return v
}

func (x *explainer) properties(location string) []string {
	named, _ := x.at(location, "properties").(map[string]any)
	names := make([]string, 0, len(named))
	for name := range named {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// typeName returns the type that a schema states, or "".
func typeName(schema any) string {
	s, _ := schema.(map[string]any)
	switch t := s["type"].(type) {
	case string:
		return t
	case []any:
		var names []string
		for _, e := range t {
			if name, ok := e.(string); ok {
				names = append(names, name)
			}
		}
		return strings.Join(names, " or ")
	}
	return ""
}

// list joins at most n items.
func list(items []string, n int) string { return listed(items[:min(len(items), n)], len(items)) }

// listed joins the first of total items.
func listed(first []string, total int) string {
	more := ""
	if total > len(first) {
		more = fmt.Sprintf(" and %d more", total-len(first))
	}
	short := make([]string, len(first))
	for i, s := range first {
		short[i] = shorten(s, 60)
	}
	return strings.Join(short, ", ") + more
}

// message says what a keyword wanted, without any value of the arguments:
// those may be large, or secret.
func message(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "expected " + strings.Join(k.Want, " or ") + ", got " + k.Got
	case *kind.Enum:
		return "expected one of " + listed(literals(k.Want, 20), len(k.Want))
	case *kind.Const:
		return "expected " + literals([]any{k.Want}, 1)[0]
	case *kind.MinLength:
		return fmt.Sprintf("expected at least %d characters, got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("expected at most %d characters, got %d", k.Want, k.Got)
	case *kind.Pattern:
		return "expected to match the pattern " + shorten(k.Want, 200)
	case *kind.Minimum:
		return "expected at least " + number(k.Want)
	case *kind.Maximum:
		return "expected at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "expected more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "expected less than " + number(k.Want)
	case *kind.MultipleOf:
		return "expected a multiple of " + number(k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("expected at least %d items, got %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("expected at most %d items, got %d", k.Want, k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("expected %d items fewer", k.Count)
	case *kind.UniqueItems:
		return fmt.Sprintf("expected unique items, but items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains, *kind.MinContains, *kind.MaxContains:
		return "expected another number of items of the required kind"
	case *kind.MinProperties:
		return fmt.Sprintf("expected at least %d properties, got %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("expected at most %d properties, got %d", k.Want, k.Got)
	case *kind.PropertyNames:
		return "the name of property " + strconv.Quote(shorten(k.Property, 80)) + " is not allowed"
	case *kind.Dependency:
		return "with " + strconv.Quote(k.Prop) + ", expected also " + list(k.Missing, 20)
	case *kind.DependentRequired:
		return "with " + strconv.Quote(k.Prop) + ", expected also " + list(k.Missing, 20)
	case *kind.FalseSchema:
		return "expected no value here"
	case *kind.Not:
		return "matches what the schema excludes"
	}
	return "does not fit the schema (" + strings.Join(k.KeywordPath(), "/") + ")"
}

// number writes a bound as people would.
func number(r *big.Rat) string {
	if r.IsInt() {
		return shorten(r.Num().String(), 40)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// literals writes the first n of some values as JSON.
func literals(values []any, n int) []string {
	values = values[:min(len(values), n)]
	out := make([]string, len(values))
	for i, v := range values {
		if s, ok := v.(string); ok {
			v = shorten(s, 80)
		}
		if room := 400; !fits(v, &room) {
			out[i] = "a larger value"
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			b = []byte("?")
		}
		out[i] = string(b)
	}
	return out
}

// fits says whether a value takes about as much room as there is, without
// writing all of it.
func fits(v any, room *int) bool {
	*room -= 2
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if *room -= len(name); *room < 0 || !fits(e, room) {
				return false
			}
		}
	case []any:
		for _, e := range v {
			if !fits(e, room) {
				return false
			}
		}
	case string:
		*room -= len(v)
	case json.Number:
		*room -= len(v)
	}
	return *room >= 0
}
