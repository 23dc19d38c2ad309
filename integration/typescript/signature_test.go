package typescript

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// schemas are what a tool takes, and how that is written.
var schemas = []struct{ name, schema, want string }{
	{"nothing said", `{}`, `args?: Record<string, unknown>`},
	{"anything", `true`, `args?: Record<string, unknown>`},
	{"no schema", `null`, `args?: Record<string, unknown>`},
	{"impossible", `false`, `args: never`},
	{"any object", `{"type":"object"}`, `args?: Record<string, unknown>`},
	{"no members", `{"type":"object","properties":{}}`, `args?: {}`},
	{"closed", `{"type":"object","additionalProperties":false}`, `args?: {}`},
	{
		"required and optional in the author's order",
		`{"type":"object","properties":{"path":{"type":"string"},"head":{"type":"number"},"mode":{"enum":["r","w"]}},"required":["path"]}`,
		`args: { path: string; head?: number; mode?: "r" | "w" }`,
	},
	{
		"required but not described",
		`{"type":"object","properties":{"a":{"type":"null"}},"required":["b","b"]}`,
		`args: { a?: null; b: unknown }`,
	},
	{
		"the author's words and facts",
		`{"type":"object","properties":{"head":{"type":"integer","description":"Only the first lines. More about it.","minimum":1,"maximum":100,"default":10}}}`,
		`args?: { head?: number /* Only the first lines; integer, 1..100, default 10 */ }`,
	},
	{
		"facts of strings",
		`{"properties":{"a":{"type":"string","format":"date-time"},"b":{"type":"string","minLength":1,"maxLength":9,"pattern":"^a*/b$","default":"x\ny"},"c":{"type":"string","contentEncoding":"base64","deprecated":true}}}`,
		`args?: { a?: string /* date-time */; b?: string /* 1..9 characters, matches ^a* /b$, default "x\ny" */; c?: string /* base64, deprecated */ }`,
	},
	{
		"facts of numbers",
		`{"properties":{"a":{"type":"number","exclusiveMinimum":0},"b":{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":1},"c":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991,"multipleOf":5}}}`,
		`args?: { a?: number /* > 0 */; b?: number /* > 0, <= 1 */; c?: number /* integer, multiple of 5 */ }`,
	},
	{
		"lists",
		`{"properties":{"a":{"type":"array"},"b":{"type":"array","items":{"type":"string"},"minItems":1,"uniqueItems":true},"c":{"type":"array","items":{"enum":[1,2]}},"d":{"items":{"type":"string","format":"uri"}}}}`,
		`args?: { a?: unknown[]; b?: string[] /* >= 1 items, distinct */; c?: (1 | 2)[]; d?: (string /* uri */)[] }`,
	},
	{
		"tuples of every draft",
		`{"properties":{"a":{"prefixItems":[{"type":"string"},{"type":"number"}]},"b":{"items":[{"type":"string"}],"additionalItems":{"type":"number"}},"c":{"type":"array","prefixItems":[{"type":"string"},{"type":["number","null"]}],"minItems":1,"items":false},"d":{"type":"array","items":[]}}}`,
		`args?: { a?: [string, number]; b?: [string, ...number[]]; c?: [string, (number | null)?] /* >= 1 items */; d?: unknown[] }`,
	},
	{
		"maps",
		`{"properties":{"a":{"type":"object","additionalProperties":{"type":"number"}},"b":{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":{"type":"number"}},"c":{"type":"object","additionalProperties":true},"d":{"type":"object","patternProperties":{"^x":{"type":"boolean"}}}}}`,
		`args?: { a?: { [key: string]: number }; b?: { x?: string; [key: string]: unknown }; c?: Record<string, unknown>; d?: { [key: string]: boolean } }`,
	},
	{
		"values",
		`{"properties":{"a":{"const":"x"},"b":{"const":null},"c":{"enum":["a",1,-1.5e3,true,null,["x"],{"y":1},"a"]},"d":{"const":1e999}}}`,
		`args?: { a?: "x"; b?: null; c?: "a" | 1 | -1.5e3 | true | null | unknown[] | object; d?: number }`,
	},
	{
		"unions",
		`{"properties":{"a":{"type":["string","null"]},"b":{"anyOf":[{"type":"string"},{"type":"null"},{"type":"string"}]},"c":{"oneOf":[{"const":"r","description":"to read"},{"const":"w"}]},"d":{"type":"string","nullable":true},"e":{"anyOf":[{"type":"string"},{}]},"f":{"anyOf":[{"anyOf":[{"type":"number"},{"type":"string"}]},{"type":"string"},false]}}}`,
		`args?: { a?: string | null; b?: string | null; c?: "r" /* to read */ | "w"; d?: string | null; e?: unknown; f?: number | string }`,
	},
	{
		"combinations",
		`{"properties":{"a":{"allOf":[{"properties":{"x":{"type":"string"}}},{"properties":{"y":{"type":["string","number"]}},"required":["y"]}]},"b":{"type":"object","properties":{"x":{"type":"string"}},"anyOf":[{"required":["x"]},{"required":["y"]}]},"c":{"type":"object","allOf":[{"type":["string","number"]}]},"d":{"allOf":[{"type":["string","number"]},{"enum":["a",1]}]}}}`,
		`args?: { a?: { x?: string } & { y: string | number }; b?: { x?: string }; c?: string | number; d?: (string | number) & ("a" | 1) }`,
	},
	{
		"a type of its own making",
		`{"properties":{"a":{"type":"file"},"b":{"type":["string","file"]},"c":{"type":[]},"d":{"type":7},"e":7}}`,
		`args?: { a?: unknown; b?: unknown; c?: unknown; d?: unknown; e?: unknown }`,
	},
	{
		"references",
		`{"$defs":{"a/b":{"type":"string","description":"a name"}},"definitions":{"P":{"properties":{"x":{"type":"number"}}}},"properties":{"a":{"$ref":"#/$defs/a~1b"},"b":{"$ref":"#/definitions/P","description":"a place"},"c":{"$ref":"http://example.com/x"},"d":{"$ref":"#/nowhere"},"e":{"$ref":"#/properties/a"},"f":{"$ref":"#/%24defs/a~1b"},"g":{"$ref":"#anchor"}}}`,
		`args?: { a?: string /* a name */; b?: { x?: number } /* a place */; c?: unknown; d?: unknown; e?: string /* a name */; f?: string /* a name */; g?: unknown }`,
	},
	{
		"names that are none", `{"properties":{"a-b":{},"":{},"1":{},"default":{},"readonly":{},"ä":{},"a\"b\\":{},"x\ny*/":{},"z\u200b\u2028\ud83d\udc7e\udb40\udc41":{}}}`,
		`args?: { "a-b"?: unknown; ""?: unknown; "1"?: unknown; default?: unknown; readonly?: unknown; "ä"?: unknown; "a\"b\\"?: unknown; "x\ny*/"?: unknown; "z\u200b\u2028👾\u{e0041}"?: unknown }`,
	},
	{
		"a way out of a comment", `{"properties":{"a":{"type":"string","description":"x */ evil(); /* y *\u200b/ z\u001b[31m"},"b":{"type":"string","format":"*/","default":"*/"}}}`,
		`args?: { a?: string /* x * / evil(); /* y * / z */; b?: string /* * /, default "* /" */ }`,
	},
	{
		"values that are too long to write", `{"properties":{"a":{"enum":["` + strings.Repeat("x", 200) + `","y"]},"` + strings.Repeat("n", 200) + `":{}}}`,
		`args: { a?: string | "y"; [key: string]: unknown /* and 1 more */ }`,
	},
}

func TestSchemas(t *testing.T) {
	for _, tt := range schemas {
		t.Run(tt.name, func(t *testing.T) {
			got := checked(t, Tool{Server: "s", Name: "t", Input: json.RawMessage(tt.schema)})
			if want := "servers.s.t(" + tt.want + "): Promise<unknown>"; got != want {
				t.Errorf("%s\ngives %s\nwant  %s", tt.schema, got, want)
			}
		})
	}
}

// Types that hold themselves, or that are used again and again, get a name.
var named = []struct{ name, in, out, want string }{
	{
		"a tree", `{"$defs":{"node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["children"]}},"properties":{"root":{"$ref":"#/$defs/node"}},"required":["root"]}`, `true`,
		"type Node = { children: Node[] };\nservers.s.t(args: { root: Node }): Promise<unknown>",
	},
	{
		"the whole schema", `{"type":"object","properties":{"sub":{"$ref":"#"}}}`, `{"type":"object","properties":{"sub":{"$ref":"#"}}}`,
		"type Args = { sub?: Args };\ntype Result = { sub?: Result };\nservers.s.t(args?: Args): Promise<Result>",
	},
	{
		"used twice", `{"$defs":{"p":{"properties":{"x":{"type":"number"}},"description":"A place."}},"properties":{"a":{"$ref":"#/$defs/p"},"b":{"$ref":"#/$defs/p"}}}`, ``,
		"type P = { x?: number }; /* A place */\nservers.s.t(args?: { a?: P; b?: P }): Promise<unknown>",
	},
	{
		"one name twice", `{"$defs":{"p":{"properties":{"x":{"$ref":"#/$defs/p"}}}},"$ref":"#/$defs/p"}`, `{"$defs":{"p":{"items":{"$ref":"#/$defs/p"}}},"$ref":"#/$defs/p"}`,
		"type P = { x?: P };\ntype P2 = P2[];\nservers.s.t(args: P): Promise<P2>",
	},
	{
		"names that are none", `{"$defs":{"*/ evil":{"items":{"$ref":"#/$defs/*~1 evil"}},"":{"items":{"$ref":"#/$defs/"}},"9":{"items":{"$ref":"#/$defs/9"}},"promise":{"items":{"$ref":"#/$defs/promise"}}},"properties":{"a":{"$ref":"#/$defs/*~1 evil"},"b":{"$ref":"#/$defs/"},"c":{"$ref":"#/$defs/9"},"d":{"$ref":"#/$defs/promise"}}}`, ``,
		"type ___evil = ___evil[];\ntype Type = Type[];\ntype Type9 = Type9[];\ntype Promise2 = Promise2[];\nservers.s.t(args?: { a?: ___evil; b?: Type; c?: Type9; d?: Promise2 }): Promise<unknown>",
	},
	{
		"circles without a meaning", `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"},"c":{"anyOf":[{"$ref":"#/$defs/c"},{"type":"string"}]},"d":{"allOf":[{"$ref":"#/$defs/d"},{"properties":{"x":{"type":"string"}}}]}},"properties":{"a":{"$ref":"#/$defs/a"},"c":{"$ref":"#/$defs/c"},"d":{"$ref":"#/$defs/d"}}}`, `{"$ref":"#"}`,
		"servers.s.t(args?: { a?: unknown; c?: string; d?: { x?: string } }): Promise<unknown>",
	},
	{
		"a circle with and without an object between", `{"$defs":{"t":{"anyOf":[{"properties":{"x":{"$ref":"#/$defs/u"}}},{"$ref":"#/$defs/u"}]},"u":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"string"}]}},"properties":{"t":{"$ref":"#/$defs/t"}}}`, ``,
		"type U = string;\nservers.s.t(args?: { t?: { x?: U } | U }): Promise<unknown>",
	},
}

func TestTypesWithNames(t *testing.T) {
	for _, tt := range named {
		t.Run(tt.name, func(t *testing.T) {
			if got := checked(t, Tool{Server: "s", Name: "t", Input: json.RawMessage(tt.in), Output: json.RawMessage(tt.out)}); got != tt.want {
				t.Errorf("gives\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestTools(t *testing.T) {
	const nothing = `(args?: Record<string, unknown>): Promise<unknown>`
	for _, tt := range []struct {
		tool Tool
		want string
	}{
		{Tool{Server: "my server", Name: "tool-name"}, `servers["my server"]["tool-name"]` + nothing},
		{Tool{Server: "a.b", Name: "new"}, `servers["a.b"].new` + nothing},
		{Tool{Server: "s", Name: "then"}, `servers.s.call(tool: "then", args?: Record<string, unknown>): Promise<unknown>`},
		{Tool{Server: "s", Name: "a\"]; evil() //\n"}, `servers.s["a\"]; evil() //\n"]` + nothing},
		{Tool{Server: "s", Name: "t", Description: "Reads a file, e.g. a text. Then more."}, "/** Reads a file, e.g. a text. */\nservers.s.t" + nothing},
		{Tool{Server: "s", Name: "t", Description: " \n*/ evil()\n/* x"}, "/** * / evil() /* x */\nservers.s.t" + nothing},
		{Tool{Server: "s", Name: "t", Description: "\u200b\u202e"}, "servers.s.t" + nothing},
		{
			Tool{Server: "s", Name: "t", Description: strings.Repeat("word ", 60)},
			"/** " + strings.Repeat("word ", 31) + "word… */\nservers.s.t" + nothing,
		},
		{
			Tool{Server: "s", Name: "t", Output: json.RawMessage(`{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]}`)},
			`servers.s.t(args?: Record<string, unknown>): Promise<{ content: string }>`,
		},
		{Tool{Server: "s", Name: "t", Input: json.RawMessage(`{"type":`)}, ""},
		{Tool{Server: "s", Name: "t", Output: json.RawMessage(`{} {}`)}, ""},
		{Tool{Server: "s", Name: "t", Input: json.RawMessage(strings.Repeat("[", 300) + strings.Repeat("]", 300))}, ""},
		{Tool{Server: "s", Name: strings.Repeat("n", 500)}, ""},
		{Tool{Server: "s", Name: strings.Repeat("\u200b", 130)}, `servers.s["` + strings.Repeat(`\u200b`, 130) + `"]` + nothing},
	} {
		if got := checked(t, tt.tool); got != tt.want {
			t.Errorf("%+v\ngives %s\nwant  %s", tt.tool, got, tt.want)
		}
	}
}

// nested is an object of so many levels with some members in each.
func nested(levels, wide int) string {
	if levels == 0 {
		return `{"type":"string","description":"the innermost of all"}`
	}
	members := make([]string, wide)
	for i := range members {
		members[i] = fmt.Sprintf(`"m%d_%d":%s`, levels, i, nested(levels-1, wide))
	}
	return `{"type":"object","description":"a level","properties":{` + strings.Join(members, ",") + `}}`
}

// What does not fit is told in less detail, the innermost first.
func TestLessDetailWhereItDoesNotFit(t *testing.T) {
	many := func(n int, each string) string {
		members := make([]string, n)
		for i := range members {
			members[i] = fmt.Sprintf(each, i)
		}
		return strings.Join(members, ",")
	}
	for _, tt := range []struct {
		name, schema string
		has, lacks   []string
	}{
		{
			"comments of the innermost go first", nested(3, 4),
			[]string{"m1_3?: string", "m2_0?: {", "} /* a level */"}, []string{"innermost", "object"},
		},
		{"then objects", nested(4, 4), []string{"m3_3?: { m2_0?: object"}, []string{"m1_", "innermost"}},
		{
			"then members, needed ones last", `{"type":"object","properties":{` + many(1000, `"property_%d":{"type":"string"}`) + `},"required":["property_290"]}`,
			[]string{"{ property_290: string; property_0?: string; ", "; [key: string]: unknown /* and 940 more */ }"}, []string{"property_150"},
		},
		{
			"short words before none", `{"type":"object","properties":{` + many(22, `"p%d":{"type":"string","description":"`+strings.Repeat("words ", 15)+`"}`) + `}}`,
			[]string{"p21?: string /* words words"}, []string{strings.Repeat("words ", 10)},
		},
		{
			"values of a long list", `{"type":"object","properties":{"country":{"enum":[` + many(250, `"country %d"`) + `]},"n":{"enum":[` + many(250, `%d`) + `]}}}`,
			[]string{`"country 0" | "country 1"`, ` | string /* `, ` | number /* `}, []string{"country 100"},
		},
		{
			"kinds of objects", `{"type":"object","properties":{"x":{"oneOf":[` + many(120, `{"properties":{"k%d":{"type":"string"}},"required":["k1"]}`) + `]}}}`,
			[]string{"x?: "}, nil,
		},
		{
			"too much altogether", `{"anyOf":[` + many(200, `{"properties":{"a%d":{"type":"string"},"`+strings.Repeat("x", 100)+`":{"type":"string"}}}`) + `]}`,
			[]string{"args: "}, nil,
		},
		{"larger than anything that is read", `{"type":"object","description":"` + strings.Repeat("x", maxSchema) + `"}`, []string{"args?: Record<string, unknown>"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := checked(t, Tool{Server: "s", Name: "t", Input: json.RawMessage(tt.schema)})
			for _, part := range tt.has {
				if !strings.Contains(got, part) {
					t.Errorf("lacks %q:\n%s", part, got)
				}
			}
			for _, part := range tt.lacks {
				if strings.Contains(got, part) {
					t.Errorf("has %q:\n%s", part, got)
				}
			}
		})
	}
}

// bombs are schemas that are small and would be huge, or take for ever.
func bombs() map[string]string {
	var doubling, chain, ladder, enums strings.Builder
	for i := range 200 {
		fmt.Fprintf(&doubling, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
		fmt.Fprintf(&ladder, `"d%d":{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, (i*7)%200)
	}
	for i := range 5000 {
		fmt.Fprintf(&chain, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	for i := range 3000 {
		fmt.Fprintf(&enums, `{"enum":["%d","a","b","c"]},`, i)
	}
	deep := strings.Repeat(`{"items":`, 99) + `{}` + strings.Repeat(`}`, 99)
	return map[string]string{
		"doubling":    `{"$defs":{` + doubling.String() + `"d200":{}},"$ref":"#/$defs/d0"}`,
		"chain":       `{"$defs":{` + chain.String() + `"d5000":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/d0"}}}`,
		"ladder":      `{"$defs":{` + ladder.String() + `"d200":{}},"$ref":"#/$defs/d0"}`,
		"enums":       `{"properties":{"x":{"anyOf":[` + enums.String() + `{}]}}}`,
		"deep":        `{"properties":{"x":` + deep + `}}`,
		"into itself": `{"properties":{"a":{"properties":{"b":{"$ref":"#/properties/a"},"c":{"$ref":"#/properties/a/properties/b"},"d":{"$ref":"#/properties/a/properties/d"}}}}}`,
		"required":    `{"type":"object","required":[` + strings.Repeat(`"x",`, 30_000) + `"y"]}`,
		"types":       `{"type":["string"` + strings.Repeat(`,"object"`, 10_000) + `],"properties":` + `{"a":{"type":["array"` + strings.Repeat(`,"array"`, 6) + `],"items":{"$ref":"#"}}}}`,
	}
}

func TestBombsAreBounded(t *testing.T) {
	for name, schema := range bombs() {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			got := checked(t, Tool{Server: "s", Name: "t", Input: json.RawMessage(schema), Output: json.RawMessage(schema)})
			// Far more than it takes, far less than what is not bounded.
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			if got == "" {
				t.Error("there is no signature")
			}
		})
	}
}
