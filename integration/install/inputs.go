package install

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/integration/trust"
)

// maxValue bounds what is given for one need.
const maxValue = 8 << 10

var (
	reference   = lazyregexp.New(`\$\{[^{}]*\}`)
	placeholder = lazyregexp.New(`\{[a-zA-Z_][a-zA-Z0-9_.-]*\}`)
)

// inputs are what a server is given: words of its command line and variables,
// as they stand in a configuration file.
type inputs struct {
	runtime []string // for npx, uvx, docker
	args    []string // for the program itself
	env     map[string]string
	// What a person who fills in the rest would write.
	draftArgs []string
	draftEnv  map[string]string
}

// inputReader turns a description into inputs and needs.
type inputReader struct {
	values  map[string]string
	has     func(variable string) bool // of the host
	own     bool                       // the description is to be believed
	needs   []Need
	missing []Need
	skipped []string
}

// readInputs reads what a package says that it needs.
func (p *Plan) readInputs(pkg *registry.Package, own bool) (inputs, error) {
	r := inputReader{values: p.opts.Values, has: func(name string) bool { return lookup(p.opts.Environ, name) != "" }, own: own}
	in := inputs{env: map[string]string{}, draftEnv: map[string]string{}}
	var err error
	if own {
		if in.runtime, _, err = r.arguments(pkg.RuntimeArgs, true); err != nil {
			return in, err
		}
	}
	if in.args, in.draftArgs, err = r.arguments(pkg.PackageArgs, false); err != nil {
		return in, err
	}
	for i := range pkg.Environment {
		e := &pkg.Environment[i]
		if !own && trust.Steers(e.Name) {
			r.skipped = append(r.skipped, e.Name)
			continue
		}
		n := r.need(e.Name, provisioned.InEnvironment, &e.Input)
		value, ok, err := r.value(&n, &e.Input)
		if err != nil {
			return in, err
		}
		switch {
		case ok:
			in.env[e.Name], in.draftEnv[e.Name] = value, value
		case n.Required:
			in.draftEnv[e.Name] = "${" + e.Name + "}"
		}
	}
	if len(r.skipped) > 0 {
		p.note("its description asks for variables that decide what code runs, and is not trusted with that: %s", strings.Join(r.skipped, ", "))
	}
	p.Needs, p.Missing = r.needs, r.missing
	if pkg.Kind == registry.MCPB {
		return in, nil // what else it asks for is in the bundle
	}
	return in, r.unknown()
}

// unknown refuses values for what nobody asked for: they may be misspelled.
func (r *inputReader) unknown() error {
	for _, name := range slices.Sorted(maps.Keys(r.values)) {
		if slices.ContainsFunc(r.needs, func(n Need) bool { return n.Name == name }) {
			continue
		}
		names := make([]string, len(r.needs))
		for i := range r.needs {
			names[i] = r.needs[i].Name
		}
		hint := "It asks for nothing."
		if len(names) > 0 {
			hint = "It asks for " + strings.Join(names, ", ") + "."
		}
		return fail(Invalid, hint, "the server does not ask for %q", name)
	}
	return nil
}

// need is what an input asks for. A description that is not to be believed says what is
// needed, and proposes no value: where it has one choice, that would be its own.
func (r *inputReader) need(name string, place provisioned.Place, in *registry.Input) Need {
	n := Need{Name: name, Place: place, Description: in.Description, Required: in.Required, Secret: in.Secret}
	if r.own {
		n.Default, n.Choices, n.Placeholder = in.Default, in.Choices, in.Placeholder
	}
	if in.Format != "string" {
		n.Format = in.Format
	}
	return n
}

// add records a need, once.
func (r *inputReader) add(n *Need, missing bool) {
	same := func(o Need) bool { return o.Name == n.Name && o.Place == n.Place }
	if !slices.ContainsFunc(r.needs, same) {
		r.needs = append(r.needs, *n)
	}
	if missing && !slices.ContainsFunc(r.missing, same) {
		r.missing = append(r.missing, *n)
	}
}

// value returns what an input is given, in the words of a configuration file;
// ok is false where that is nothing.
func (r *inputReader) value(n *Need, in *registry.Input) (value string, ok bool, err error) {
	given, isGiven := r.values[n.Name]
	switch {
	case in.Value != "" && r.own:
		return r.fixed(n, in)
	case isGiven:
		r.add(n, false)
		if err := checkValue(n, given); err != nil {
			return "", false, err
		}
		return given, true, nil
	case r.own && in.Default != "":
		r.add(n, false)
		return literal(in.Default), true, nil
	case r.own && n.Required && n.Place == provisioned.InEnvironment && r.has(n.Name):
		r.add(n, false)
		return "${" + n.Name + "}", true, nil
	case in.Value != "":
		return "", false, nil // nobody trusts it to fix anything
	}
	r.add(n, n.Required)
	return "", false, nil
}

// lacking is what stands in an entry for an input that it cannot do without and that
// nobody has given: the entry is shown, and the input is missing. Nothing is started with
// it, since whoever describes a server could name any variable of the host.
func (r *inputReader) lacking(n *Need, in *registry.Input) string {
	if in.Value == "" || !r.own { // else what is missing is a part of what is fixed
		r.add(n, true)
	}
	return "${" + variableName(n.Name) + "}"
}

// fixed returns a value of the publisher, with its {variables} filled in.
func (r *inputReader) fixed(n *Need, in *registry.Input) (string, bool, error) {
	var failed error
	complete := true
	text := fill(in.Value, func(name string) (string, bool) {
		variable, known := in.Variables[name]
		if !known {
			return "", false
		}
		inner := r.need(name, n.Place, &variable)
		value, ok, err := r.value(&inner, &variable)
		failed = cmp.Or(failed, err)
		complete = complete && (ok || !variable.Required)
		return value, true
	})
	return text, complete && failed == nil, failed
}

// fill replaces the {variables} of a publisher's text that are known by their
// values, which are in the words of a configuration file, as the result is.
func fill(text string, value func(name string) (words string, known bool)) string {
	var parts []string
	at := 0
	for _, m := range placeholder().FindAllStringIndex(text, -1) {
		if words, known := value(text[m[0]+1 : m[1]-1]); known {
			parts = append(parts, literal(text[at:m[0]]), words)
			at = m[1]
		}
	}
	return join(append(parts, literal(text[at:]))...)
}

// literal writes text so that a configuration file means just that.
func literal(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// join puts texts in the words of a configuration file one behind the other. What
// is a reference in one of them is one in the result, and nothing else is: not what
// begins in one text and ends in the next, which nobody who vouches for either has
// written. A $ that comes to stand before a reference makes it plain: a
// configuration file has no way to say both.
func join(texts ...string) string {
	var out, plain strings.Builder
	for _, s := range texts {
		for {
			begin := strings.Index(s, "${")
			if begin < 0 {
				break
			}
			length := strings.IndexByte(s[begin:], '}') + 1
			switch {
			case begin > 0 && s[begin-1] == '$': // escaped
				plain.WriteString(s[:begin-1])
				length = len("${")
				plain.WriteString(s[begin : begin+length])
			case length == 0: // it ends nowhere, and must not end in the next text
				length = len("${")
				plain.WriteString(s[:begin+length])
			default:
				plain.WriteString(s[:begin])
				out.WriteString(literal(plain.String()))
				plain.Reset()
				out.WriteString(s[begin : begin+length])
			}
			s = s[begin+length:]
		}
		plain.WriteString(s)
	}
	out.WriteString(literal(plain.String()))
	return out.String()
}

// arguments returns the words of a command line, and those that a person would
// start from.
func (r *inputReader) arguments(list []registry.Argument, runtime bool) (words, draft []string, err error) {
	for i := range list {
		a := &list[i]
		name := cmp.Or(a.Name, a.ValueHint, "argument "+strconv.Itoa(i+1))
		bare := a.Value == "" && a.Default == "" && a.Required && (a.Format == "boolean" || runtime && a.ValueHint == "" && len(a.Choices) == 0)
		if a.Type == "named" && bare {
			if r.own {
				words, draft = append(words, literal(a.Name)), append(draft, literal(a.Name))
			}
			continue
		}
		n := r.need(name, provisioned.InArguments, &a.Input)
		value, ok, err := r.value(&n, &a.Input)
		if err != nil {
			return nil, nil, err
		}
		var flag []string
		if a.Type == "named" {
			flag = []string{literal(a.Name)}
		}
		switch {
		case ok && a.Type == "named" && a.Format == "boolean":
			if value == "true" {
				words, draft = append(words, flag...), append(draft, flag...)
			}
		case ok:
			words, draft = append(append(words, flag...), value), append(append(draft, flag...), value)
		case n.Required:
			draft = append(append(draft, flag...), literal("<"+strings.Trim(name, "-<>")+">"))
		}
	}
	return words, draft, nil
}

// checkValue holds what somebody gives to what is asked for.
func checkValue(n *Need, value string) error {
	switch {
	case len(value) > maxValue:
		return fail(Invalid, "", "the value for %s is longer than %d bytes", n.Name, maxValue)
	case strings.ContainsFunc(value, unicode.IsControl):
		return fail(Invalid, "", "the value for %s has control characters", n.Name)
	}
	refers := reference().MatchString(value)
	plain := reference().ReplaceAllString(value, "")
	hint := fmt.Sprintf("Put it into an environment variable and give ${%s}.", variableName(n.Name))
	switch {
	case n.Secret && !refers:
		return fail(Invalid, hint, "%s is a secret, and secrets are not written down", n.Name)
	case !n.Secret && !refers && scrub.Secret(n.Name, value), refers && scrub.Secret("", plain):
		return fail(Invalid, hint, "the value for %s looks like a secret, and secrets are not written down", n.Name)
	case refers:
		return nil // what it will be is known when the server is started
	case len(n.Choices) > 0 && !slices.Contains(n.Choices, value):
		return fail(Invalid, "It takes one of: "+strings.Join(n.Choices, ", ")+".", "%s does not take that value", n.Name)
	case n.Format == "number":
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return fail(Invalid, "", "%s takes a number", n.Name)
		}
	case n.Format == "boolean" && value != "true" && value != "false":
		return fail(Invalid, "", "%s takes true or false", n.Name)
	}
	return nil
}

// variableName is a variable that could hold what is needed.
func variableName(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToUpper(r)
		}
		return '_'
	}, name), "_")
}
