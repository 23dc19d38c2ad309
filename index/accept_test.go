package index

import (
	"encoding/json"
	"strings"
	"testing"
)

// acceptorSchemas is the corpus of the fuzz test: what servers write, and
// what an acceptor could get wrong.
var acceptorSchemas = []string{
	`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`,
	browserSchema,
	`{"type":"object","properties":{"n":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991},"x":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":10}}}`,
	`{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string","minLength":2,"maxLength":4},"minItems":1,"maxItems":3},"m":{"type":"string","enum":["a","b\"c","é","a\\n"]}}}`,
	`{"type":"object","properties":{"o":{"type":"object","properties":{"k":{"anyOf":[{"type":"string","enum":["x"]},{"type":"integer","minimum":3},{"type":"null"}]}},"required":["k"],"additionalProperties":false}}}`,
	`{"type":"object","properties":{"l":{"type":["string","null"]},"b":{"type":"boolean"},"any":{},"yes":true,"e":{"enum":["p",null]}},"additionalProperties":{}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["z"],"properties":{"f":{"type":"string","format":"uri"},"q":{"oneOf":[{"type":"array","items":{"type":"number"}},{"type":"boolean"}]}}}`,
	`{"properties":{"untyped":{"minLength":3,"minimum":2,"minItems":1,"required":["r"]}}}`,
	`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"n":{"type":"integer","minimum":1,"exclusiveMinimum":true}}}`,
	`{"type":"object","properties":{"n":{"anyOf":[{"type":"integer"},{"type":"number","minimum":5}]},"c":{"const":1},"r":{"$ref":"#"}}}`,
	`{"type":"array","items":{"type":"integer"}}`,
	`{}`,
}

var acceptorArgs = []string{
	`{"text":"hello"}`, `{"text":"he\"llo\\"}`, `{"text":1}`, `{}`, `{"text":"a","text":2}`, `{"t\u0065xt":1}`, `[1,2]`, `[1.0,2e0]`,
	`{"url":"https://example.com/a?b=c","fullPage":true}`, `{"fullPage":true}`, `{"url":"x","other":1}`,
	`{"n":3,"x":0.5}`, `{"n":3.0}`, `{"n":9007199254740992,"x":10}`, `{"n":-0,"x":1}`, `{"n":1}`, `{"n":12345678901234567890123}`,
	`{"tags":["ab","éé"],"m":"a"}`, `{"tags":[]}`, `{"tags":["a"]}`, `{"tags":["\u0061"],"m":"b\"c"}`, `{"m":"é"}`, `{"m":"a\\n"}`, `{"m":"a\n"}`,
	`{"o":{"k":"x"}}`, `{"o":{"k":3}}`, `{"o":{"k":2}}`, `{"o":{"k":null}}`, `{"o":{}}`, `{"o":{"k":"x","y":1}}`,
	`{"l":null,"b":false,"any":[{"a":[1,"]",{}]}],"yes":1,"e":null}`, `{"l":1}`, `{"e":"q"}`, `{"z":1,"f":"no uri","q":[1,2.5]}`, `{"z":1,"q":["1"]}`,
	`{"untyped":"ab"}`, `{"untyped":1}`, `{"untyped":[]}`, `{"untyped":{}}`, `{"untyped":{"r":1}}`, `{"untyped":null}`,
	` { "text" : "a" , "b" : [ 1 , 2 ] } `, "{\"text\":\"\xff\"}", `null`, `"x"`, `1`,
}

func TestAcceptorAgreesWithTheLibrary(t *testing.T) {
	accepted := 0
	for _, schema := range acceptorSchemas {
		p, j := compilePlain(json.RawMessage(schema)), newJudge(json.RawMessage(schema))
		if p == nil {
			continue
		}
		for _, args := range acceptorArgs {
			if !p.accepts([]byte(args)) {
				continue
			}
			accepted++
			if got := j.problems(json.RawMessage(args)); got != nil {
				t.Errorf("schema %s\nargs %s\naccepted, but the library says %v", schema, args, got)
			}
		}
	}
	if accepted < 100 {
		t.Errorf("only %d pairs were accepted: the acceptor is of no use", accepted)
	}
}

func TestAcceptorTakesWhatIsCommon(t *testing.T) {
	tests := []struct {
		schema, args string
		want         bool
	}{
		{acceptorSchemas[0], `{"text":"hello"}`, true},
		{acceptorSchemas[0], `{"text":"say \"hi\" \\"}`, true},
		{acceptorSchemas[0], `{}`, false},
		{acceptorSchemas[0], `{"te\u0078t":"x"}`, false},
		{acceptorSchemas[0], `{"text":"a","text":"b"}`, false},
		{acceptorSchemas[0], `{"text":"a"`, false},
		{acceptorSchemas[0], `{"text":"a`, false},
		{acceptorSchemas[0], ``, false},
		{acceptorSchemas[1], `{"url":"x","fullPage":false}`, true},
		{acceptorSchemas[1], `{"url":"x","z":1}`, false},
		{acceptorSchemas[2], `{"n":3,"x":5}`, true},
		{acceptorSchemas[3], `{"tags":["ab","abcd"],"m":"a"}`, true},
		{acceptorSchemas[3], `{"m":"c"}`, false},
		{acceptorSchemas[4], `{"o":{"k":null}}`, true},
		{acceptorSchemas[4], `{"o":{"k":3}}`, true},
		{acceptorSchemas[5], `{"any":{"deep":[[[1]]]},"e":null}`, true},
		{acceptorSchemas[6], `{"z":{},"q":[1,2]}`, true},
	}
	for _, tt := range tests {
		p := compilePlain(json.RawMessage(tt.schema))
		if p == nil {
			t.Errorf("%s is not plain", tt.schema)
			continue
		}
		if got := p.accepts([]byte(tt.args)); got != tt.want {
			t.Errorf("%s with %s: %v", tt.schema, tt.args, got)
		}
	}
	for _, schema := range []string{
		`{"$ref":"#/x"}`, `{"allOf":[{}]}`, `{"not":{}}`, `{"type":"int"}`, `{"properties":{"a":false}}`, `{"additionalProperties":{"type":"string"}}`,
		`{"properties":{"a":{"pattern":"x"}}}`, `{"minimum":0.5}`, `{"enum":[1]}`, `{"type":"object","type":"string"}`, `{"anyOf":[{"type":"integer"},{"type":"number"}]}`,
		`{"properties":{"\ufffd":{}}}`, strings.Repeat(`{"items":`, 50) + `{}` + strings.Repeat(`}`, 50),
	} {
		if compilePlain(json.RawMessage(schema)) != nil {
			t.Errorf("%s must be left to the library", schema)
		}
	}
}

func TestAcceptorDoesNotAllocate(t *testing.T) {
	p := compilePlain(json.RawMessage(acceptorSchemas[3]))
	args := []byte(`{"tags":["ab","cd"],"m":"a","other":[1,{"x":"y"}]}`)
	if n := testing.AllocsPerRun(100, func() {
		if !p.accepts(args) {
			t.Fatal("not accepted")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzAcceptor looks for arguments that the acceptor takes and the library
// would not, under each schema of the corpus and under any other.
func FuzzAcceptor(f *testing.F) {
	for i, args := range acceptorArgs {
		f.Add(acceptorSchemas[i%len(acceptorSchemas)], []byte(args))
	}
	for _, schema := range acceptorSchemas {
		f.Add(schema, []byte(`{"a":1}`))
	}
	type compiled struct {
		p *plain
		j *judge
	}
	var corpus []compiled
	for _, schema := range acceptorSchemas {
		corpus = append(corpus, compiled{compilePlain(json.RawMessage(schema)), newJudge(json.RawMessage(schema))})
	}
	f.Fuzz(func(t *testing.T, schema string, args []byte) {
		candidates := corpus
		if json.Valid([]byte(schema)) {
			if p := compilePlain(json.RawMessage(schema)); p != nil {
				candidates = append(candidates[:len(candidates):len(candidates)], compiled{p, newJudge(json.RawMessage(schema))})
			}
		}
		valid := json.Valid(args)
		for _, c := range candidates {
			if c.p == nil || !c.p.accepts(args) || !valid {
				continue // invalid JSON must only not crash
			}
			if got := c.j.problems(args); got != nil {
				t.Errorf("schema %s\nargs %q\naccepted, but the library says %v", c.j.raw, args, got)
			}
		}
	})
}

func BenchmarkAcceptHello(b *testing.B) {
	v := NewValidator(json.RawMessage(acceptorSchemas[0]))
	args := json.RawMessage(`{"text":"hello"}`)
	b.ReportAllocs()
	for b.Loop() {
		if v.Validate(args) != nil {
			b.Fatal("invalid")
		}
	}
}

func BenchmarkAcceptMegabyte(b *testing.B) {
	v := NewValidator(json.RawMessage(acceptorSchemas[0]))
	args := json.RawMessage(`{"text":"` + strings.Repeat("0123456789abcdef", 1<<16) + `"}`)
	b.SetBytes(int64(len(args)))
	b.ReportAllocs()
	for b.Loop() {
		if v.Validate(args) != nil {
			b.Fatal("invalid")
		}
	}
}

func BenchmarkAcceptEscapedMegabyte(b *testing.B) {
	v := NewValidator(json.RawMessage(acceptorSchemas[0]))
	args := json.RawMessage(`{"text":"` + strings.Repeat(`{\"key\": \"value\"}\n`, 50000) + `"}`)
	b.SetBytes(int64(len(args)))
	for b.Loop() {
		if v.Validate(args) != nil {
			b.Fatal("invalid")
		}
	}
}
