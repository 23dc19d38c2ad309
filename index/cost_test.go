package index

import (
	"encoding/json"
	"fmt"
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
		{"many required names", `{"type":"object","properties":{"l":{"items":{"type":"object","required":[` + numbered(`"v%d"`, 80_000) + `]}}}}`, `{"l":[` + numbered(`{}`, 2000) + `]}`},
		{"many dependent names", `{"type":"object","properties":{"l":{"items":{"dependentRequired":{"a":[` + numbered(`"v%d"`, 80_000) + `]}}}}}`, `{"l":[` + numbered(`{"a":1}`, 2000) + `]}`},
		{"many numbers listed", `{"type":"object","properties":{"l":{"items":{"enum":[` + numbered(`%d`, 130_000) + `]}}}}`, `{"l":[` + numbered(`129999`, 100) + `]}`},
		{"many strings listed", `{"type":"object","properties":{"l":{"items":{"enum":[` + numbered(`"v%d"`, 80_000) + `]}}}}`, `{"l":[` + numbered(`"v79999"`, 20_000) + `]}`},
		{"a large constant", `{"type":"object","properties":{"l":{"items":{"const":[` + numbered(`%d`, 100_000) + `]}}}}`, `{"l":[` + numbered(`[`+numbered(`%d`, 100)+`]`, 100) + `]}`},
		{"a number with very many digits", `{"type":"object","properties":{"n":{"multipleOf":0.7}}}`, `{"n":1.` + strings.Repeat("1", 4_000_000) + `}`},
		{"a bound with very many digits", `{"type":"object","properties":{"n":{"minimum":1.` + strings.Repeat("1", 1_000_000) + `}}}`, `{"n":0}`},
		{"many numbers with large exponents", `{"type":"object","properties":{"l":{"items":{"multipleOf":0.7}}}}`, `{"l":[` + numbered(`1.3e-4000`, 200_000) + `]}`},
		{"many patterns for one text", `{"type":"object","properties":{"s":{"allOf":[` + numbered(`{"pattern":"^([a-z]+ ?[0-9]*){0,90}$"}`, 100) + `]}}}`, `{"s":"` + strings.Repeat("abc 12", 4_000) + `!"}`},
		{"a long chain of references", `{"$defs":{` + numbered(`"d%[1]d":{"$ref":"#/$defs/d%[2]d"}`, 7000) + `,"d7000":{"type":"null"}},"type":"object","properties":{"l":{"items":{"$ref":"#/$defs/d0"}}}}`, `{"l":[` + numbered(`1`, 200) + `]}`},
		{"errors at the end of long ways", `{"$defs":{"n":{"maxItems":0,"items":{"$ref":"#/$defs/n"}}},"type":"object","properties":{"l":{"$ref":"#/$defs/n"}}}`, `{"l":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`},
		{"unique items that hash alike", `{"type":"object","properties":{"l":{"uniqueItems":true}}}`, `{"l":[` + alike(15) + `]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := NewValidator(json.RawMessage(c.schema))
			if got := v.Validate(json.RawMessage(c.args)); got != nil {
				t.Errorf("judged after all: %v", got)
			}
		})
	}
}

// numbered repeats a format with numbers in it, each and the one after it.
func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(format, "%") && !strings.Contains(format, "[1]") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(strings.NewReplacer("%[1]d", strconv.Itoa(i), "%[2]d", strconv.Itoa(i+1)).Replace(format))
		}
	}
	return b.String()
}

// alike are 2^n arrays of strings that differ in where one ends and the next
// begins, which the library's hash does not see.
func alike(n int) string {
	items := make([]string, 1<<n)
	for i := range items {
		text := "a"
		for bit := range n {
			if i>>bit&1 == 1 {
				text += `\u0004b`
			} else {
				text += `","b`
			}
		}
		items[i] = `["` + text + `"]`
	}
	return strings.Join(items, ",")
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
		{"a list of countries", `{"type":"object","properties":{"l":{"items":{"enum":[` + numbered(`"c%d"`, 250) + `]}}}}`, `{"l":[` + numbered(`"c%d"`, 200) + `,"x"]}`},
		{"numbers from a list", `{"type":"object","properties":{"l":{"items":{"enum":[` + numbered(`%d`, 100) + `]}}}}`, `{"l":[` + numbered(`%d`, 100) + `,-1]}`},
		{"a long list of numbers", `{"type":"object","properties":{"l":{"uniqueItems":true,"items":{"type":"number","minimum":0}}}}`, `{"l":[` + numbered(`%d.5`, 10_000) + `,-1]}`},
		{"thirty required names", `{"type":"object","required":[` + numbered(`"v%d"`, 30) + `]}`, `{` + numbered(`"v%d":{"a":[1,2,3]}`, 29) + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := NewValidator(json.RawMessage(c.schema))
			if got := v.Validate(json.RawMessage(c.args)); len(got) != 1 {
				t.Errorf("problems %v, want one (%s)", got, v.Note())
			}
		})
	}
}
