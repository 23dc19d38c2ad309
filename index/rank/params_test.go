package rank

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParams(t *testing.T) {
	for schema, want := range map[string][]Param{
		``: nil, `null`: nil, `[]`: nil, `7`: nil, `{"type":"object"}`: nil, `{"properties":[1,{}]}`: nil, `{"properties":{}}`: nil,
		`{"type":"object","properties":{"b":{"type":"string","description":"B\n\u00e9"},"a":{"enum":[{"description":"no"}]}},"required":["b"]}`: {{"b", "B\né"}, {"a", ""}},
		`{ "$defs":{"properties":{"x":{}}}, "properties" : { "a" : { "properties":{"inner":{"description":"I"}}, "description" : "A" } , "b":true, "c":{"description":7} } }`: {
			{"a", "A"}, {"b", ""}, {"c", ""},
		},
		`{"properties":{"a":{"description":"A"},"b":{"descr`:   {{"a", "A"}, {"b", ""}},
		`{"properties":{"a":{"description":"A"}`:               {{"a", "A"}},
		`{"properties":{"a" "b"}}`:                             nil,
		`{"properties":{"a":{"x":"\"}\\","description":"A"}}}`: {{"a", "A"}},
	} {
		if got := Params([]byte(schema)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", schema, got, want)
		}
	}
}

func TestParamsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"properties":{`)
	for i := range 1000 {
		fmt.Fprintf(&b, `"p%d":{"description":%q},`, i, strings.Repeat("long ", 1000))
	}
	b.WriteString(`"z":{}}}`)
	params := Params([]byte(b.String()))
	if len(params) != maxParams || len(params[0].Description) > maxParamText {
		t.Errorf("%d parameters, the first with %d bytes", len(params), len(params[0].Description))
	}
	for _, deep := range []string{"[", `{"a":`, `{"properties":{"a":`} {
		Params([]byte(strings.Repeat(deep, 1<<20)))
	}
}
