package metamcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/index"
)

func TestOutline(t *testing.T) {
	var rows []string
	for i := range 5000 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"name":"item %d","tags":["a","b"],"text":%q}`, i, i, strings.Repeat("long ", 100)))
	}
	table := "[" + strings.Join(rows, ",") + "]"
	for _, c := range []struct {
		value string
		most  int
		want  []string // parts
	}{
		{table, 1000, []string{`[{"id":0,"name":"item 0","tags":["a","b"],"text":"long long `, `(500 bytes)"}`, `"… 49`, `more items"]`}},
		{table, 60, []string{`[{"id":0,"name":"item 0"`, `"… 4999 more items"]`}},
		{`{"total":5000,"rows":` + table + `,"z":{"deep":{"er":{"still":[1,2,3]}}}}`, 400, []string{`{"total":5000,"rows":[{"id":0`, ` more items"],"z":{"deep":`}},
		{`[` + strings.Repeat(`[`, 50) + `1` + strings.Repeat(`]`, 50) + `,` + strings.Repeat(" 1,", 3000) + `2]`, 300, []string{`"… 1 item"`, `more items"]`}},
		{`{"a":"` + strings.Repeat(`\n`, 9000) + `"}`, 200, []string{`{"a":"\n\n`, `… (9000 bytes)"}`}},
	} {
		got := string(outline(json.RawMessage(c.value), c.most))
		if !json.Valid([]byte(got)) || index.EstimateTokens(got) > c.most {
			t.Errorf("%d tokens, want at most %d of JSON: %s", index.EstimateTokens(got), c.most, got)
		}
		at := 0
		for _, part := range c.want {
			i := strings.Index(got[at:], part)
			if i < 0 {
				t.Errorf("%q is not in %s", part, got)
				break
			}
			at += i
		}
	}
	for _, value := range []string{`"` + strings.Repeat("x", 9000) + `"`, `12`, `true`, ``} {
		if got := outline(json.RawMessage(value), 1000); got != nil {
			t.Errorf("%.20s has an outline: %s", value, got)
		}
	}
	if got := outline(json.RawMessage(table), 2); got != nil {
		t.Errorf("an outline in 2 tokens: %s", got)
	}
}

func BenchmarkOutline(b *testing.B) {
	value := json.RawMessage("[" + strings.Repeat(`{"id":1,"name":"some name","list":[1,2,3]},`, 100_000) + "1]")
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		if outline(value, 1000) == nil {
			b.Fatal("none")
		}
	}
}
