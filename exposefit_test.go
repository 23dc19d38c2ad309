package metamcp

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// One definition that clients refuse would take the whole list from them: it is mended,
// the log says so once, and all others stay byte for byte.
func TestDefinitionsFit(t *testing.T) {
	t.Parallel()
	const object = `"inputSchema":{"type":"object"}`
	both := func(want string) [2]string { return [2]string{want, want} }
	for _, c := range []struct {
		member, key, raw string
		want             [2]string // in the legacy and the modern era; "": it stays
	}{
		{"tools", "name", `{ "name": "a", "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}, "outputSchema": {"type":"object"}, "annotations": {"title":"A","readOnlyHint":true}, "icons":[{"src":"x","sizes":["1x1"],"theme":"dark"}], "execution":{"taskSupport":"optional"}, "_meta":{}, "title":"t", "description":"d", "more": 7 }`, both("")},
		{"tools", "name", `{"name":"a"}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a","inputSchema":null,"x":[ 1 ]}`, both(`{"name":"a",` + object + `,"x":[ 1 ]}`)},
		{"tools", "name", `{"inputSchema":false,"name":"a"}`, both(`{` + object + `,"name":"a"}`)},
		{"tools", "name", `{"name":"a","input\u0053chema":"x"}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"type":"banana","properties":{}}}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"type":["object"]}}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"type":"object","properties":[1,2]}}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"type":"object","properties":{"x":7,"y":{"a": 1},"z":null}}}`, both(`{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{"a": 1},"z":{}}}}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"type":"object","required":"x"}}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"type":["null","object"],"properties":{"x":{"a": 1}},"required":["x"]}}`, both(`{"name":"a","inputSchema":{"type":"object","properties":{"x":{"a": 1}},"required":["x"]}}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"type":["string",7],"properties":{"x":{}}}}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"$schema":7,"type":"object","properties":{"x":{"a": 1}},"required":null}}`, both(`{"name":"a","inputSchema":{"type":"object","properties":{"x":{"a": 1}}}}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"required":["x",1],"properties":null,"description":"d"}}`, both(`{"name":"a","inputSchema":{"type":"object","description":"d"}}`)},
		{"tools", "name", `{"name":"a",` + object + `,"outputSchema":{"type":["object"]}}`, [2]string{`{"name":"a",` + object + `,"outputSchema":{"type":"object"}}`, ""}},
		{"tools", "name", `{"name":"a",` + object + `,"inputSchema":7}`, both(`{"name":"a",` + object + `,` + object + `}`)},
		{"tools", "name", `{"name":"a","inputSchema":{"properties":{"x":true,"y":false,"z":{"a": 1}},"required":["x"]}}`, both(`{"name":"a","inputSchema":{"type":"object","properties":{"x":{},"y":{"not":{}},"z":{"a": 1}},"required":["x"]}}`)},
		{"tools", "name", `{"name":"a","description":5,"title":null,"annotations":"x","icons":[{}],"_meta":[],"execution":{"taskSupport":"x"},` + object + `}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a","annotations":{"readOnlyHint":"yes"},` + object + `}`, both(`{"name":"a",` + object + `}`)},
		{"tools", "name", `{"name":"a",` + object + `,"outputSchema":{"type":"array"}}`, [2]string{`{"name":"a",` + object + `}`, ""}},
		{"tools", "name", `{"name":"a",` + object + `,"outputSchema":null}`, both(`{"name":"a",` + object + `}`)},
		{"prompts", "name", `{"name":"a", "arguments":[{"name":"x","required":true,"more":1}]}`, both("")},
		{"prompts", "name", `{"name":"a","arguments":"x"}`, both(`{"name":"a"}`)},
		{"prompts", "name", `{"name":"a","arguments":[{"required":true}],"description":"d"}`, both(`{"name":"a","description":"d"}`)},
		{"resources", "uri", `{"uri":"x://a", "name":"n", "size":7, "annotations":{"audience":["user"],"priority":0.5}}`, both("")},
		{"resources", "uri", `{"uri":"x://a","size":"7","annotations":{"audience":["dog"]}}`, both(`{"uri":"x://a","name":"x://a"}`)},
		{"resources", "uri", `{"name":7,"uri":"x://a","annotations":{"priority":2}}`, both(`{"name":"x://a","uri":"x://a"}`)},
		{"resourceTemplates", "uriTemplate", `{"uriTemplate":"x://{a}","mimeType":[]}`, both(`{"uriTemplate":"x://{a}","name":"x://{a}"}`)},
	} {
		for i, era := range []messages.Era{messages.EraLegacy, messages.EraModern} {
			want := c.want[i]
			if want == "" {
				want = c.raw
			}
			var said bytes.Buffer
			name := "a"
			if c.member != "tools" && c.member != "prompts" {
				name = stringOf(json.RawMessage(c.raw), c.key)
			}
			set := &namedSet{
				key: c.key, names: &naming{log: slog.New(slog.NewTextHandler(&said, nil))},
				list: []exposed{{thing: thing{server: "s", name: name, raw: json.RawMessage(c.raw)}, as: name}},
			}
			for range 2 {
				page, failure := set.page(c.member, "", nil, nil, era, false)
				if failure != nil || !json.Valid(page) || !strings.HasPrefix(string(page), `{"`+c.member+`":[`+want+`]`) {
					t.Errorf("%s of %s: %s, %v; want %s", c.raw, era, page, failure, want)
				}
			}
			if n := strings.Count(said.String(), "level=WARN"); n != 0 && want == c.raw || n != 1 && want != c.raw {
				t.Errorf("%s: the log: %s", c.raw, said.String())
			}
		}
	}
}
