package index

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name, schema, args string
		want               []string // nil: valid
	}{
		{"no schema", ``, `{"a":1}`, nil},
		{"absent arguments", `{"type":"object"}`, ``, nil},
		{"absent arguments lack what is required", `{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}`, ``, []string{"url: required but missing, expected string"}},
		{"type", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":1}`, []string{"a: expected string, got number"}},
		{"nested", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b c":{"type":"integer"}}}}}}`, `{"a":[{},{"b c":1.5}]}`, []string{`a[1]["b c"]: expected integer, got number`}},
		{"numeric name", `{"type":"object","properties":{"0":{"type":"string"}}}`, `{"0":1}`, []string{"0: expected string, got number"}},
		{"additional", `{"type":"object","properties":{"a":{},"b":{}},"additionalProperties":false}`, `{"c":1,"d":2}`, []string{"c: unknown property, expected one of a, b", "d: unknown property, expected one of a, b"}},
		{"required in a nested object with an escaped name", `{"type":"object","properties":{"x/y":{"type":"object","properties":{"z":{"type":["string","null"]}},"required":["z"]}}}`, `{"x/y":{}}`, []string{`["x/y"].z: required but missing, expected string or null`}},
		{"enum", `{"properties":{"a":{"enum":["x","y",3]}}}`, `{"a":"z"}`, []string{`a: expected one of "x", "y", 3`}},
		{"range", `{"properties":{"a":{"minimum":0.5,"maximum":10}}}`, `{"a":11}`, []string{"a: expected at most 10"}},
		{"range below", `{"properties":{"a":{"minimum":0.5}}}`, `{"a":0}`, []string{"a: expected at least 0.5"}},
		{"optional as pydantic writes it", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":4}`, []string{"a: expected null or string, got number"}},
		{"nearest alternative", `{"properties":{"a":{"anyOf":[{"type":"object","required":["x"]},{"type":"null"}]}}}`, `{"a":{}}`, []string{"a.x: required but missing"}},
		{"reference", `{"$defs":{"p":{"type":"object","properties":{"x":{"type":"number"}}}},"properties":{"a":{"$ref":"#/$defs/p"}}}`, `{"a":{"x":"1"}}`, []string{"a.x: expected number, got string"}},
		{"draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/s"},"t":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"a":1,"t":["x",2]}`, []string{"a: expected string, got number", "t: expected 1 items fewer"}},
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"minimum":3,"exclusiveMinimum":true}}}`, `{"a":3}`, []string{"a: expected more than 3"}},
		{"2020-12", `{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"t":{"prefixItems":[{"type":"string"}],"items":false}}}`, `{"t":["x",2]}`, []string{"t[1]: expected no value here"}},
		{"root type", `{"type":"object"}`, `[]`, []string{"arguments: expected object, got array"}},
		{"root null", `{"type":"object"}`, `null`, []string{"arguments: expected object, got null"}},
		{"format is no assertion", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"uri"},"b":{"format":"date-time"},"c":{"format":"email"}}}`, `{"a":"not a uri","b":"x","c":"x"}`, nil},
		{"big integer", `{"properties":{"a":{"type":"integer","maximum":12345678901234567890}}}`, `{"a":12345678901234567891}`, []string{"a: expected at most 12345678901234567890"}},
		{"integer with a fraction of zero", `{"properties":{"a":{"type":"integer"}}}`, `{"a":1.0}`, nil},
		{"huge exponent", `{"properties":{"a":{"type":"number","maximum":5}}}`, `{"a":1e999999999}`, []string{"a: expected at most 5"}},
		{"tiny exponent", `{"properties":{"a":{"type":"number","minimum":0,"maximum":5}}}`, `{"a":1e-999999999999999999999}`, nil},
		{"huge exponent that is an integer", `{"properties":{"a":{"type":"integer"}}}`, `{"a":1E+9999999}`, nil},
		{"unique huge numbers", `{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1e9999999,2]}`, nil},
		{"pattern", `{"properties":{"a":{"pattern":"^[a-z]+$"}}}`, `{"a":"A"}`, []string{"a: expected to match the pattern ^[a-z]+$"}},
		{"escaped key is still judged", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"\u0061":1}`, []string{"a: expected string, got number"}},
		{"repeated key", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":"x","a":1}`, []string{"a: expected string, got number"}},
		{"length in code points", `{"properties":{"a":{"type":"string","maxLength":2}}}`, `{"a":"\ud83d\ude00é"}`, nil},
		{"not an object name", `{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"x"}`, []string{"a: matches what the schema excludes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var schema json.RawMessage
			if tt.schema != "" {
				schema = json.RawMessage(tt.schema)
			}
			v := NewValidator(schema)
			var got []string
			for _, p := range v.Validate(json.RawMessage(tt.args)) {
				got = append(got, p.String())
			}
			if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if note := v.Note(); note != "" {
				t.Errorf("unexpected note %q", note)
			}
		})
	}
}

func TestEveryKeywordIsExplained(t *testing.T) {
	tests := []struct{ schema, value, want string }{
		{`{"const":{"k":1}}`, `2`, `a: expected {"k":1}`},
		{`{"minLength":3,"pattern":"."}`, `"ab"`, "a: expected at least 3 characters, got 2"},
		{`{"maxLength":1}`, `"ab"`, "a: expected at most 1 characters, got 2"},
		{`{"exclusiveMinimum":1}`, `1`, "a: expected more than 1"},
		{`{"exclusiveMaximum":1.25}`, `2`, "a: expected less than 1.25"},
		{`{"multipleOf":5}`, `7`, "a: expected a multiple of 5"},
		{`{"minItems":2}`, `[1]`, "a: expected at least 2 items, got 1"},
		{`{"maxItems":0}`, `[1]`, "a: expected at most 0 items, got 1"},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, "a: expected unique items, but items 0 and 2 are equal"},
		{`{"contains":{"type":"string"}}`, `[1]`, "a: expected another number of items of the required kind"},
		{`{"contains":{"type":"string"},"minContains":2}`, `["x"]`, "a: expected another number of items of the required kind"},
		{`{"contains":{"type":"string"},"maxContains":1}`, `["x","y"]`, "a: expected another number of items of the required kind"},
		{`{"minProperties":1}`, `{}`, "a: expected at least 1 properties, got 0"},
		{`{"maxProperties":0}`, `{"x":1}`, "a: expected at most 0 properties, got 1"},
		{`{"propertyNames":{"maxLength":1}}`, `{"long":1}`, `a: the name of property "long" is not allowed`},
		{`{"dependentRequired":{"x":["y"]}}`, `{"x":1}`, `a: with "x", expected also y`},
		{`{"dependencies":{"x":["y"]}}`, `{"x":1}`, `a: with "x", expected also y`},
		{`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`, "a: expected to match exactly one of the alternatives, but matches several"},
		{`{"properties":{"b":{"allOf":[{"type":"string"},{"maxLength":1}]}}}`, `{"b":1}`, "a.b: expected string, got number"},
		{`{"properties":{"b":false}}`, `{"b":1}`, "a.b: expected no value here"},
		{`{"if":{"type":"string"},"then":{"enum":["x"]}}`, `"y"`, `a: expected one of "x"`},
		{`{"properties":{"b":1.5,"c":2}}`, `{}`, ""},
	}
	for _, tt := range tests {
		v := NewValidator(json.RawMessage(`{"properties":{"a":` + tt.schema + `}}`))
		var got []string
		for _, p := range v.Validate(json.RawMessage(`{"a":` + tt.value + `}`)) {
			got = append(got, p.String())
		}
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%s with %s\ngot  %q\nwant %q", tt.schema, tt.value, got, tt.want)
		}
	}
}

func TestUnusableSchemasBlockNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "outside.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	doubling := `{"$defs":{"d0":{"type":"string"}`
	for i := 1; i <= 40; i++ {
		doubling += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	doubling += `},"properties":{"a":{"$ref":"#/$defs/d40"}}}`
	var many strings.Builder
	many.WriteString(`{"properties":{"p":{}`)
	for i := range maxSchemaObjects {
		fmt.Fprintf(&many, `,"p%d":{"const":1}`, i)
	}
	many.WriteString(`}}`)
	tests := []struct{ name, schema, note string }{
		{"boolean", `false`, "not an object"},
		{"array", `[]`, "not an object"},
		{"string", `"object"`, "not an object"},
		{"unknown type", `{"type":"int"}`, "not checked"},
		{"file reference", `{"$ref":"file://` + filepath.ToSlash(file) + `"}`, "nothing is loaded"},
		{"network reference", `{"properties":{"a":{"$ref":"https://example.com/s.json#/x"}}}`, "nothing is loaded"},
		{"relative reference", `{"properties":{"a":{"$ref":"other.json"}}}`, "nothing is loaded"},
		{"unknown dialect", `{"$schema":"https://example.com/dialect","type":"string"}`, "nothing is loaded"},
		{"dangling reference", `{"$ref":"#/$defs/none"}`, "not checked"},
		{"too deep", strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat(`}`, 100), "too deeply"},
		{"too many parts", many.String(), "too many parts"},
		{"too large", `{"description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`, "over 1 MiB"},
		{"unfolds without end", doubling, "too many times"},
		{"name pattern that Go has not", `{"patternProperties":{"^(?!x)":{"type":"string"}},"additionalProperties":false}`, "name pattern"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := NewValidator(json.RawMessage(tt.schema))
			if got := v.Validate(json.RawMessage(`{"a":1,"b":[2]}`)); got != nil {
				t.Errorf("blocked by %v", got)
			}
			if !strings.Contains(v.Note(), tt.note) {
				t.Errorf("note %q, want %q in it", v.Note(), tt.note)
			}
		})
	}
}

func TestEndlessReferenceBlocksNothing(t *testing.T) {
	v := NewValidator(json.RawMessage(`{"allOf":[{"$ref":"#"}]}`))
	if got := v.Validate(json.RawMessage(`{}`)); got != nil {
		t.Errorf("blocked by %v", got)
	}
}

func TestPatternThatGoHasNotIsPassedOver(t *testing.T) {
	v := NewValidator(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!-).*$"}}}`))
	if got := v.Validate(json.RawMessage(`{"a":"-x"}`)); got != nil {
		t.Errorf("blocked by %v", got)
	}
	if got := v.Validate(json.RawMessage(`{"a":1}`)); len(got) != 1 {
		t.Errorf("the rest of the schema must still hold, got %v", got)
	}
	if !strings.Contains(v.Note(), "(?!-)") {
		t.Errorf("note %q does not name the pattern", v.Note())
	}
}

// Old drafts assert that a value is a pattern, with the engine that compiles the schema's own.
func TestArgumentsThatArePatternsCostTheSchemaNothing(t *testing.T) {
	j := newJudge(json.RawMessage(`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"regex"}}}`))
	before := j.cost
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, pattern := range []string{"^[a-z]{3}$", "^(?!x)", "("} {
				args, _ := json.Marshal(map[string]string{"a": pattern}) // strings can always be encoded
				if problems := j.problems(args); len(problems) != 0 {
					t.Errorf("%s: %v", pattern, problems)
				}
			}
		})
	}
	all.Wait()
	if j.schema == nil || j.cost != before {
		t.Errorf("%s; validation made the cost %+v, it was %+v", j.note, j.cost, before)
	}
}

func TestProblemsAreBoundedAndRepeatNoValue(t *testing.T) {
	v := NewValidator(json.RawMessage(`{"additionalProperties":{"type":"integer","enum":[1]},"properties":{"s":{"pattern":"^a","maxLength":3}}}`))
	args := `{"s":"secret-value"`
	for i := range 1000 {
		args += fmt.Sprintf(`,"p%d":"secret-value"`, i)
	}
	got := v.Validate(json.RawMessage(args + `}`))
	if len(got) != MaxProblems {
		t.Errorf("%d problems, want %d", len(got), MaxProblems)
	}
	if strings.Contains(fmt.Sprint(got), "secret-value") {
		t.Errorf("a value is repeated: %v", got)
	}
}

func TestValidatorIsSafeForConcurrentUse(t *testing.T) {
	v := NewValidator(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","pattern":"^x"}},"required":["a"]}`))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			args, want := `{"a":"xy"}`, 0
			if i%2 == 0 {
				args, want = `{"a":"y"}`, 1
			}
			for range 50 {
				if got := v.Validate(json.RawMessage(args)); len(got) != want {
					t.Errorf("%s: %v", args, got)
				}
			}
			_ = v.Note()
		})
	}
	wg.Wait()
}

func BenchmarkValidateCompileAndJudge(b *testing.B) {
	for b.Loop() {
		v := NewValidator(json.RawMessage(browserSchema))
		if v.Validate(json.RawMessage(`{"url":1}`)) == nil {
			b.Fatal("valid")
		}
	}
}

func BenchmarkValidateByLibrary(b *testing.B) {
	v := NewValidator(json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","pattern":"^h"}}}`))
	for b.Loop() {
		if v.Validate(json.RawMessage(`{"text":"hello"}`)) != nil {
			b.Fatal("invalid")
		}
	}
}

// TestManyArgumentsAreNotDecoded: what cannot be afforded is not made large before that
// is seen.
func TestManyArgumentsAreNotDecoded(t *testing.T) {
	v := NewValidator(json.RawMessage(`{"type":"object","required":["a"]}`))
	args := []byte(`{"s":"` + strings.Repeat(`,\"`, 100) + `","x":[` + strings.Repeat("0,", 4<<20) + `0]}`)
	v.Validate(nil) // compiles
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	problems := v.Validate(args)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(4*len(args)) || problems != nil {
		t.Errorf("%d bytes for arguments of %d, and the verdict %v", grown, len(args), problems)
	}
	for text, want := range map[string]bool{`{"a":",,,,"}`: false, `[1,2,3]`: false, `[1,2,3,4]`: true, `["\",\\",2,3]`: false} {
		c := &cost{extent: extent{visits: maxWork / visitWork / 2}}
		if got := c.tooMany([]byte(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
