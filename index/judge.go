package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of a schema that is handed to the library, whose compiler takes time
// quadratic in the number of subschemas and recurses with their depth.
const (
	maxSchemaBytes   = 1 << 20
	maxSchemaDepth   = 64
	maxSchemaObjects = 8192
	// maxExpansion is how many subschemas a schema may unfold to where it
	// refers to its own parts again and again: validation visits them all.
	maxExpansion = 100_000
)

// maxExponent bounds the exponent of a number that the library expands to an
// exact fraction; 1e4000 compares like any larger one.
const maxExponent = 4000

// schemaURL names the schema under judgement to the library; nothing is ever
// loaded from it.
const schemaURL = "tool:///input"

// A judge is the library's view of one schema. It never changes.
type judge struct {
	schema *jsonschema.Schema // nil: unusable, everything passes
	raw    json.RawMessage
	note   string
	cost   cost
}

func newJudge(raw json.RawMessage) *judge {
	j := &judge{raw: raw}
	j.schema, j.note = compileSchema(raw, &j.cost)
	return j
}

// compileSchema returns a nil schema and the reason where the schema cannot
// be used, and the schema with a note where only a part of it cannot.
func compileSchema(raw json.RawMessage, cost *cost) (schema *jsonschema.Schema, note string) {
	const unjudged = "arguments are not checked: "
	// The library is thorough, but it meets what strangers wrote.
	defer func() {
		if r := recover(); r != nil {
			schema, note = nil, unjudged+fmt.Sprintf("the input schema made the validator fail (%v)", r)
		}
	}()
	if len(raw) > maxSchemaBytes {
		return nil, unjudged + "the input schema is over 1 MiB"
	}
	doc, err := decode(raw)
	if err != nil {
		return nil, unjudged + "the input schema is not valid JSON"
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, unjudged + "the input schema is not an object"
	}
	objects := 0
	if reason := inspect(doc, 0, &objects); reason != "" {
		return nil, unjudged + reason
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	for _, name := range assertedFormats {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	var skipped []string
	compiled := false
	c.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		if compiled {
			// The library asserts the format regex of drafts before 2019-09, for all who
			// validate at once. Arguments are no patterns of the schema.
			return anything(pattern), nil
		}
		if size, ok := cost.pattern(pattern); ok {
			if re, err := regexp.Compile(pattern); err == nil {
				return sized{re, size}, nil
			}
		}
		skipped = append(skipped, pattern)
		return anything(pattern), nil
	})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, unjudged + oneLine(err)
	}
	schema, err = c.Compile(schemaURL)
	if err != nil {
		return nil, unjudged + oneLine(err)
	}
	compiled = true
	if cost.unfold(schema) > maxExpansion {
		return nil, unjudged + "the input schema refers to its own parts too many times"
	}
	if len(skipped) > 0 {
		note = "a pattern of the input schema is not checked: " + shorten(skipped[0], 80)
	}
	return schema, note
}

// problems judges args; a nil result means valid or unjudged.
func (j *judge) problems(args json.RawMessage) (out []Problem) {
	if j.schema == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			out = nil // the judge failed, not the arguments
		}
	}()
	if j.cost.tooMany(args) {
		return nil
	}
	doc, err := decode(args)
	if err != nil {
		return []Problem{{Message: "expected one valid JSON object: " + err.Error()}}
	}
	if !j.cost.affordable(doc, len(args)) {
		return nil
	}
	err = j.schema.Validate(doc)
	if err == nil {
		return nil
	}
	var verr *jsonschema.ValidationError
	if !errors.As(err, &verr) || circular(verr) {
		return nil
	}
	return explain(verr, j.raw, doc)
}

// assertedFormats are the formats that the library asserts in drafts before
// 2019-09. Children state them loosely, and a client that obeys the spec may
// treat them as annotations.
var assertedFormats = []string{
	"json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname", "email",
	"date", "time", "date-time", "uri", "iri", "uri-reference", "iri-reference", "uri-template", "semver",
	"idn-email", "idn-hostname",
}

// noLoader refuses every reference that leaves the schema.
type noLoader struct{}

// Load implements jsonschema.URLLoader and always fails.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("the input schema refers to %s, and nothing is loaded from outside", shorten(url, 120))
}

// anything stands for a pattern that Go cannot compile, such as a lookahead.
type anything string

// String returns the pattern as it was written.
func (a anything) String() string { return string(a) }

// MatchString always says yes.
func (anything) MatchString(string) bool { return true }

// decode reads JSON with its numbers as they were written, except for
// exponents that would only cost time.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	return clampNumbers(doc), nil
}

func clampNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = clampNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = clampNumbers(e)
		}
	case json.Number:
		return clamp(v)
	}
	return v
}

func clamp(n json.Number) json.Number {
	e := strings.IndexAny(string(n), "eE")
	if e < 0 {
		return n
	}
	exp, err := strconv.Atoi(string(n[e+1:]))
	if err == nil && exp >= -maxExponent && exp <= maxExponent {
		return n
	}
	if n[e+1] == '-' {
		return n[:e] + json.Number("e-"+strconv.Itoa(maxExponent))
	}
	return n[:e] + json.Number("e"+strconv.Itoa(maxExponent))
}

// inspect says why a decoded schema is not fit for the library, or "".
func inspect(v any, depth int, objects *int) string {
	if depth > maxSchemaDepth {
		return "the input schema is nested too deeply"
	}
	switch v := v.(type) {
	case map[string]any:
		if *objects++; *objects > maxSchemaObjects {
			return "the input schema has too many parts"
		}
		// A pattern that cannot be compiled is passed over, but here it
		// decides which of the other keywords apply.
		if named, ok := v["patternProperties"].(map[string]any); ok {
			for pattern := range named {
				if size, ok := programSize(pattern); !ok || size > maxProgram {
					return "a name pattern of the input schema is too large: " + shorten(pattern, 80)
				}
				if _, err := regexp.Compile(pattern); err != nil {
					return "a name pattern of the input schema cannot be used: " + shorten(pattern, 80)
				}
			}
		}
		for _, e := range v {
			if reason := inspect(e, depth+1, objects); reason != "" {
				return reason
			}
		}
	case []any:
		for _, e := range v {
			if reason := inspect(e, depth+1, objects); reason != "" {
				return reason
			}
		}
	case json.Number:
		if len(v) > maxDigits {
			return "a number of the input schema has more than " + strconv.Itoa(maxDigits) + " digits"
		}
	}
	return ""
}

// applied are the subschemas that are held against the very value that the
// schema is held against, subschemas those for parts of it.
func applied(s *jsonschema.Schema) []*jsonschema.Schema {
	subs := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	subs = append(subs, s.AllOf...)
	subs = append(subs, s.AnyOf...)
	subs = append(subs, s.OneOf...)
	if s.DynamicRef != nil {
		subs = append(subs, s.DynamicRef.Ref)
	}
	for _, sub := range s.DependentSchemas {
		subs = append(subs, sub)
	}
	for _, d := range s.Dependencies {
		if sub, ok := d.(*jsonschema.Schema); ok {
			subs = append(subs, sub)
		}
	}
	return subs
}

func subschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	subs := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems}
	subs = append(subs, s.PrefixItems...)
	for _, sub := range s.Properties {
		subs = append(subs, sub)
	}
	for _, sub := range s.PatternProperties {
		subs = append(subs, sub)
	}
	for _, v := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch sub := v.(type) {
		case *jsonschema.Schema:
			subs = append(subs, sub)
		case []*jsonschema.Schema:
			subs = append(subs, sub...)
		}
	}
	return subs
}

// oneLine makes an error fit for a note.
func oneLine(err error) string {
	return shorten(strings.Join(strings.Fields(err.Error()), " "), 240)
}

// shorten cuts s to at most n bytes and an ellipsis, between code points.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
