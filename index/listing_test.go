package index

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestParseToolsKeepsDefinitionsByteForByte(t *testing.T) {
	raw := "{ \"name\" : \"take_screenshot\",\n  \"title\":\"Take a screenshot\", \"description\":\"caf\\u00e9 \\\"now\\\"\", \"inputSchema\":{\"type\":\"object\",\"x-n\":1.0e2}, \"outputSchema\":{\"type\":\"object\"}, \"annotations\":{\"readOnlyHint\":true,\"idempotentHint\":true}, \"_meta\":{\"a\":12345678901234567890} }"
	page := json.RawMessage(`{"tools":[` + raw + `, {"name":"b","inputSchema":null}],"nextCursor":"p2"}`)
	tools, skipped, err := ParseTools("browser", page)
	if err != nil || skipped != 0 || len(tools) != 2 {
		t.Fatalf("got %d tools, %d skipped, %v", len(tools), skipped, err)
	}
	tool := tools[0]
	if string(tool.Raw) != raw {
		t.Errorf("raw definition changed:\n%s\n%s", tool.Raw, raw)
	}
	if tool.Server != "browser" || tool.Name != "take_screenshot" || tool.Title != "Take a screenshot" || tool.Description != `café "now"` {
		t.Errorf("wrong fields: %+v", tool)
	}
	if string(tool.InputSchema) != `{"type":"object","x-n":1.0e2}` || string(tool.OutputSchema) != `{"type":"object"}` {
		t.Errorf("wrong schemas: %s %s", tool.InputSchema, tool.OutputSchema)
	}
	if !tool.ReadOnly || !tool.Idempotent {
		t.Error("hints are lost")
	}
	if tools[1].InputSchema != nil {
		t.Error("a null schema is no schema")
	}
}

func TestParseToolsOddDefinitions(t *testing.T) {
	long := strings.Repeat("n", 257)
	tests := []struct {
		name, page string
		want       string // names, joined
		skipped    int
		fails      string
	}{
		{name: "empty", page: `{"tools":[]}`},
		{name: "null list", page: `{"tools":null}`},
		{name: "not objects", page: `{"tools":[1,"x",null,[],true,{"name":"a"}]}`, want: "a", skipped: 5},
		{name: "no usable name", page: `{"tools":[{},{"name":""},{"name":7},{"name":"a\nb"},{"name":"` + long + `"},{"Name":"case"},{"name":"a"}]}`, want: "a", skipped: 6},
		{name: "names that deceive", page: `{"tools":[{"name":"\u202eevil"},{"name":"a\u2066b"},{"name":"a\u2028b"},{"name":" "},{"name":"\u00a0"},{"name":"a\u200bb"},{"name":"a\udb40\udc41"},{"name":"\u6771\u4eac"}]}`, want: "東京", skipped: 7},
		{name: "longest name", page: `{"tools":[{"name":"` + long[:256] + `"}]}`, want: long[:256]},
		{name: "odd schemas are kept", page: `{"tools":[{"name":"a","inputSchema":true},{"name":"b","inputSchema":[]},{"name":"c","inputSchema":"x"},{"name":"d","inputSchema":{"type":["object","null"]}},{"name":"e","annotations":[],"description":{},"title":4}]}`, want: "a b c d e"},
		{name: "doubles", page: `{"tools":[{"name":"a","description":"first"},{"name":"b"},{"name":"a"},{"name":"a"}]}`, want: "a b", skipped: 2},
		{name: "escaped key", page: `{"\u0074ools":[{"n\u0061me":"a"}]}`, want: "a"},
		{name: "last member counts", page: `{"tools":[{"name":"x","name":"a"}]}`, want: "a"},
		{name: "white space", page: " {\n\"tools\" :\t[ {\"name\" : \"a\" } ,\r{ \"name\":\"b\"} ] } ", want: "a b"},
		{name: "no list", page: `{}`, fails: "no member"},
		{name: "list is object", page: `{"tools":{}}`, fails: "not an array"},
		{name: "array", page: `[]`, fails: "not an object"},
		{name: "nothing", page: ``, fails: "not valid JSON"},
		{name: "broken", page: `{"tools":[{"name":"a"}`, fails: "not valid JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tools, skipped, err := ParseTools("s", json.RawMessage(tt.page))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || !strings.Contains(err.Error(), `"s"`) {
					t.Fatalf("error %v, want one with %q and the server's name", err, tt.fails)
				}
				return
			}
			var names []string
			for _, tool := range tools {
				names = append(names, tool.Name)
			}
			if err != nil || strings.Join(names, " ") != tt.want || skipped != tt.skipped {
				t.Errorf("got %q, skipped %d, error %v", names, skipped, err)
			}
		})
	}
}

// Of a page with too many definitions no more than the bound is read.
func TestParseToolsOfAnEndlessPage(t *testing.T) {
	const many = 1_000_000
	page := json.RawMessage(`{"tools":[{"name":"first"}` + strings.Repeat(`,{"name":"t"}`, many-1) + `]}`)
	if n := CountTools(page); n != many {
		t.Errorf("%d definitions are counted", n)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tools, skipped, err := ParseTools("s", page)
	runtime.ReadMemStats(&after)
	if err != nil || len(tools) != 2 || skipped != MaxTools-2 {
		t.Errorf("%d tools, %d skipped, %v", len(tools), skipped, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > MaxTools*1024 {
		t.Errorf("a page of %d bytes cost %d", len(page), took)
	}
	for page, want := range map[string]int{`{}`: 0, `[]`: 0, `{"tools":null}`: 0, `{"tools":{"a":1}}`: 0, `{"tools":[1,{}],"tools":[null]}`: 1} {
		if n := CountTools(json.RawMessage(page)); n != want {
			t.Errorf("%s: %d", page, n)
		}
	}
}

// FuzzParseTools checks that slicing agrees with a JSON decoder.
func FuzzParseTools(f *testing.F) {
	f.Add([]byte(`{"tools":[{"name":"a\\\"","inputSchema":{"type":"object"}},{"name":"b"},3],"nextCursor":"x"}`))
	f.Add([]byte(`{"tools":[ {"name":"\\\\"} , [[{}]] ]}`))
	f.Add([]byte(`{"tools":[`))
	f.Fuzz(func(t *testing.T, page []byte) {
		tools, skipped, err := ParseTools("s", page)
		if err != nil {
			return
		}
		var want struct {
			Tools []json.RawMessage `json:"tools"`
		}
		if json.Unmarshal(page, &want) != nil {
			return // the decoder also takes "TOOLS", which is none of ours
		}
		var kept []json.RawMessage
		for _, raw := range want.Tools {
			if len(kept) < len(tools) && string(raw) == string(tools[len(kept)].Raw) {
				kept = append(kept, raw)
			}
		}
		if len(kept) != len(tools) && len(want.Tools) == len(tools)+skipped {
			t.Errorf("%d tools are no elements of the list", len(tools)-len(kept))
		}
		for _, tool := range tools {
			if !json.Valid(tool.Raw) || (tool.InputSchema != nil && !json.Valid(tool.InputSchema)) {
				t.Errorf("sliced wrongly: %s", tool.Raw)
			}
		}
	})
}
