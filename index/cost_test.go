package index

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

// Each of these would keep the library busy for minutes, or need gigabytes; a
// test that comes back at all has passed.
func TestNoSchemaTakesLong(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)
	shared := `{"$defs":{"f":{"properties":{"a":{"$ref":"#"}}}},"type":"object","allOf":[{"$ref":"#/$defs/f"},{"$ref":"#/$defs/f"}]}`
	many := `{"type":"object","properties":{`
	for i := range 4000 {
		if i > 0 {
			many += ","
		}
		many += `"p` + strconv.Itoa(i) + `":{"type":"string","pattern":"(x{1,20}y?){1,50}z` + strconv.Itoa(i) + `"}`
	}
	many += "}}"
	for _, c := range []struct{ name, schema, args string }{
		{"recursion that branches", `{"type":"object","allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, nested},
		{"recursion that branches through a shared part", shared, nested},
		{"a large pattern", `{"type":"object","properties":{"s":{"type":"string","pattern":"^` + strings.Repeat("(a|b)*", 20000) + `$"}}}`, `{"s":"` + strings.Repeat("ab", 10000) + `c"}`},
		{"a repeated pattern on a long text", `{"type":"object","properties":{"s":{"type":"string","pattern":"^([a-z]+ ?[0-9]*){0,500}$"}}}`, `{"s":"` + strings.Repeat("abc 12", 200_000) + `!"}`},
		{"very many patterns", many, `{"p1":"x"}`},
		{"a name pattern", `{"type":"object","patternProperties":{"` + strings.Repeat("(x|y)*", 50000) + `":{}}}`, `{"xy":1}`},
		{"many alternatives for many items", `{"type":"object","properties":{"l":{"items":{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{"properties":{"a":{"enum":[1]},"b":{"minimum":3}},"required":["c"]},`, 500), ",") + `]}}}}`,
			`{"l":[` + strings.TrimSuffix(strings.Repeat(`{"a":2,"b":1},`, 50_000), ",") + `]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := NewValidator(json.RawMessage(c.schema))
			if got := v.Validate(json.RawMessage(c.args)); got != nil {
				t.Errorf("judged after all: %v", got)
			}
		})
	}
}

// What people write is judged as before.
func TestOrdinarySchemasAreAffordable(t *testing.T) {
	tree := `{"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n"}},"required":["v"]}},"$ref":"#/$defs/n"}`
	deep := strings.Repeat(`{"v":1,"next":`, 30) + `{"v":"x"}` + strings.Repeat("}", 30)
	for _, c := range []struct{ name, schema, args string }{
		{"a list as a recursion", tree, deep},
		{"a pattern", `{"type":"object","properties":{"s":{"type":"string","pattern":"^[a-z]{2,10}-[0-9]+$"}}}`, `{"s":"abc"}`},
		{"a thousand items", `{"type":"object","properties":{"l":{"items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}}}}`,
			`{"l":[` + strings.Repeat(`{"a":"x"},`, 1000) + `{"b":1}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := NewValidator(json.RawMessage(c.schema))
			if got := v.Validate(json.RawMessage(c.args)); len(got) != 1 {
				t.Errorf("problems %v, want one (%s)", got, v.Note())
			}
		})
	}
}
