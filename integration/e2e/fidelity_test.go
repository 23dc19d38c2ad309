package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// toolCall is one call of a fidelity test.
type toolCall struct{ tool, args string }

// timeOfDay is how server-everything writes the moment at which it made a
// resource: the one text in these answers that a second call may change.
var timeOfDay = regexp.MustCompile(`created at \d{1,2}\D\d\d\D\d\d[^"]*"`)

// subject is a server that is compared with itself behind metamcp.
type subject struct {
	name   string
	modern bool // the direct connection is one of the modern era
	// entry makes the server anew: two of them must not share what they keep.
	entry func(t testing.TB) map[string]any
	calls []toolCall
}

var demoCalls = []toolCall{
	{"echo", `{"text":"plain"}`},
	{"echo", `{"text":"<a href=\"x\">&amp;</a> ü 漢字 😀 \u2028\u2029 \\ \t"}`},
	{"echo", `{"text":""}`},
	{"echo", `{"text":"\u0000\u001f\ud83d\ude00"}`},
	{"add", `{"a":1.5,"b":2}`},
	{"add", `{"a":9007199254740993,"b":1e300}`},
	{"fail", `{"message":"the tool says <no>"}`},
	{"refuse", `{"code":-32000,"message":"busy & <gone>"}`},
	{"refuse", `{"code":-32602,"message":"own code"}`},
	{"refuse", `{"code":42,"message":""}`},
	{"image", `{}`},
	{"big", `{"bytes":100000}`},
	{"notes_add", `{"text":"first"}`},
	{"notes_list", `{}`},
	{"env", `{"name":"NOT_SET_ANYWHERE"}`},
	{"raw", `{"result":{"content":[],"structuredContent":{"big":123456789012345678901234567890,"exp":1.0e2,"neg":-0.0,"a":{"b":[1,[2,{"c":null}]]}},"_meta":{"io.example/x":{"y":[true,false,null]}}}}`},
	{"raw", `{"result":{"content":[{"type":"resource_link","uri":"file:///a%20b","name":"n","x-vendor":1.50}],"isError":false,"zz":"\/escaped\u0041"}}`},
	{"raw", `{"result":{"content":[{"type":"resource","resource":{"uri":"x:y","mimeType":"text/plain","text":"t","blob":""},"annotations":{"audience":["user"],"priority":0.10}},{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"of-tomorrow","x":1}]}}`},
	{"raw", `{"result":{"content":[{"type":"text","text":"spaced"}],  "dup":1,"dup":2 , "isError" : true }}`},
	{"raw", `{"result":{}}`},
}

func demoSubject(name string, modern bool, flags ...string) subject {
	return subject{name, modern, func(t testing.TB) map[string]any { return testkit.DemoServer(t, flags...) }, demoCalls}
}

func subjects(t *testing.T) []subject {
	node := npmservers.Node(t)
	npm := func(s npmservers.Server, args ...string) map[string]any {
		return nodeEntry(node, append([]string{npmservers.Entry(t, s)}, args...)...)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{"a.txt": "one\ntwo\nthree <&> ü\n", "b.json": `{"x": 1.0}`} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(folder, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return quote(filepath.Join(folder, name)) }
	modernNode, dbhub := npmservers.DBHub(t)
	return []subject{
		demoSubject("demo legacy", false, "--era", "legacy"),
		demoSubject("demo modern", true, "--era", "modern"),
		demoSubject("demo both", false, "--era", "both"),
		{"everything", false, func(testing.TB) map[string]any { return npm(npmservers.Everything, "stdio") }, []toolCall{
			{"echo", `{"message":"héllo <b>&</b>"}`},
			{"get-sum", `{"a":0.1,"b":0.2}`},
			{"get-tiny-image", `{}`},
			{"get-structured-content", `{"location":"New York"}`},
			{"get-resource-links", `{"count":3}`},
			{"get-resource-reference", `{"resourceType":"Text","resourceId":1}`},
			{"get-annotated-message", `{"messageType":"error","includeImage":true}`},
			{"get-annotated-message", `{"messageType":"success"}`},
		}},
		{"filesystem", false, func(testing.TB) map[string]any { return npm(npmservers.Filesystem, folder) }, []toolCall{
			{"list_allowed_directories", `{}`},
			{"read_text_file", `{"path":` + file("a.txt") + `}`},
			{"read_text_file", `{"path":` + file("a.txt") + `,"head":1}`},
			{"read_text_file", `{"path":` + file("none.txt") + `}`},
			{"read_text_file", `{"path":"/"}`},
			{"read_multiple_files", `{"paths":[` + file("a.txt") + `,` + file("none.txt") + `]}`},
			{"list_directory", `{"path":` + quote(folder) + `}`},
			{"directory_tree", `{"path":` + quote(folder) + `}`},
			{"search_files", `{"path":` + quote(folder) + `,"pattern":"*.json"}`},
		}},
		{"memory", false, func(t testing.TB) map[string]any {
			e := npm(npmservers.Memory)
			e["env"] = map[string]string{"MEMORY_FILE_PATH": tempFile(t, "memory.jsonl")}
			return e
		}, []toolCall{
			{"read_graph", `{}`},
			{"create_entities", `{"entities":[{"name":"Ü","entityType":"letter","observations":["<one>","two & 😀"]},{"name":"B","entityType":"letter","observations":[]}]}`},
			{"create_relations", `{"relations":[{"from":"Ü","to":"B","relationType":"precedes"}]}`},
			{"search_nodes", `{"query":"Ü"}`},
			{"open_nodes", `{"names":["B","none"]}`},
			{"add_observations", `{"observations":[{"entityName":"nobody","contents":["x"]}]}`},
			{"read_graph", `{}`},
		}},
		{"sequential-thinking", false, func(testing.TB) map[string]any { return npm(npmservers.SequentialThinking) }, []toolCall{
			{"sequentialthinking", `{"thought":"first <&> 漢","nextThoughtNeeded":true,"thoughtNumber":1,"totalThoughts":2}`},
			{"sequentialthinking", `{"thought":"second","nextThoughtNeeded":false,"thoughtNumber":2,"totalThoughts":2}`},
		}},
		// metamcp greets a server of both eras in the legacy one.
		{"dbhub", false, func(testing.TB) map[string]any {
			return nodeEntry(modernNode, dbhub, "--transport", "stdio", "--demo")
		}, []toolCall{
			{"execute_sql", `{"sql":"SELECT 1 AS one, 'ü<&>' AS text"}`},
			{"execute_sql", `{"sql":"SELECT nothing FROM nowhere"}`},
		}},
	}
}

// What a tool answers through metamcp is what it answers without it, to the
// byte, whatever the eras of the client and of the server.
func TestResultsAreThoseOfADirectConnection(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			bare := direct(t, s.entry(t), s.modern)
			legacy := host(t, servers{"x": s.entry(t)}, nil)
			modern := modernHost(t, servers{"x": s.entry(t)}, nil)
			info := serverInfo(t, modern)
			for _, c := range s.calls {
				result, failure := bare.ask("tools/call", toolParams(c.tool, c.args))
				if result == nil && failure == nil {
					t.Fatalf("%s %s is answered with neither result nor error", c.tool, c.args)
				}
				viaResult, viaFailure := legacy.ask("tools/call", callParams("x", c.tool, c.args))
				same(t, "legacy client: "+c.tool+c.args, result, viaResult)
				same(t, "legacy client: "+c.tool+c.args, failure, viaFailure)
				viaResult, viaFailure = modern.ask("tools/call", callParams("x", c.tool, c.args))
				same(t, "modern client: "+c.tool+c.args, result, withoutSplices(t, result, viaResult, info))
				same(t, "modern client: "+c.tool+c.args, failure, viaFailure)
			}
		})
	}
}

func same(t testing.TB, what string, want, got []byte) {
	t.Helper()
	const moment = `created at TIME OF DAY"`
	want, got = timeOfDay.ReplaceAllLiteral(want, []byte(moment)), timeOfDay.ReplaceAllLiteral(got, []byte(moment))
	if !bytes.Equal(want, got) {
		t.Errorf("%s\nwant %.1500s\ngot  %.1500s", what, want, got)
	}
}

// serverInfo is how metamcp names itself in the modern era.
func serverInfo(t testing.TB, c *client) string {
	t.Helper()
	result, failure := c.ask("server/discover", "{}")
	var r struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(result, &r); err != nil || r.Meta["io.modelcontextprotocol/serverInfo"] == nil {
		t.Fatalf("server/discover: result %s, error %s: %v", result, failure, err)
	}
	return string(r.Meta["io.modelcontextprotocol/serverInfo"])
}

// withoutSplices takes out of a modern answer what the revision asks for and
// the server's own answer lacks. Where it does not stand where it was put,
// nothing is taken out, and the comparison fails.
func withoutSplices(t testing.TB, own, via json.RawMessage, info string) json.RawMessage {
	t.Helper()
	if own == nil {
		return via
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(own, &members); err != nil {
		t.Fatal(err)
	}
	rest := string(via)
	cut := func(what string) {
		i := strings.Index(rest, what)
		if i < 0 {
			t.Errorf("%.300s lacks %s", via, what)
			return
		}
		rest = rest[:i] + strings.TrimPrefix(rest[i+len(what):], ",")
	}
	if _, has := members["resultType"]; !has {
		cut(`"resultType":"complete"`)
	}
	member := `"io.modelcontextprotocol/serverInfo":` + info
	if meta, has := members["_meta"]; !has {
		cut(`"_meta":{` + member + `}`)
	} else if !bytes.Contains(meta, []byte(`"io.modelcontextprotocol/serverInfo"`)) {
		cut(member)
	}
	return json.RawMessage(rest)
}

// A model that asks for one tool whole sees what the server wrote.
func TestDefinitionsAreTheServersOwn(t *testing.T) {
	t.Parallel()
	all := subjects(t)
	for _, s := range append(all, demoSubject("demo odd", false, "--era", "legacy", "--odd-tools", "--tools", "30", "--page-size", "7")) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			own := definitions(t, direct(t, s.entry(t), s.modern))
			via := host(t, servers{"x": s.entry(t)}, map[string]any{"discoverTimeoutMs": 60_000})
			if len(own) == 0 {
				t.Fatal("the server lists no tools")
			}
			for name, want := range own {
				d := via.discover(`{"server":"x","tool":` + quote(name) + `,"detail":"full"}`)
				if d.Tool == nil {
					t.Errorf("%s: no definition", name)
					continue
				}
				same(t, name, want, d.Tool.Definition)
			}
		})
	}
}

// definitions lists the tools of a server that have a name, page by page.
func definitions(t testing.TB, c *client) map[string]json.RawMessage {
	t.Helper()
	defs := map[string]json.RawMessage{}
	params := "{}"
	for {
		result, failure := c.ask("tools/list", params)
		var page struct {
			Tools      []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal(result, &page); err != nil {
			t.Fatalf("tools/list: %s: %v", failure, err)
		}
		for _, def := range page.Tools {
			var named struct{ Name string }
			if json.Unmarshal(def, &named) == nil && named.Name != "" {
				defs[named.Name] = def
			}
		}
		if page.NextCursor == "" {
			return defs
		}
		params = `{"cursor":` + quote(page.NextCursor) + `}`
	}
}
