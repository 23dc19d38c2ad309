package metamcp_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// poster sends requests of a modern client, and returns how they are answered.
func poster(t *testing.T, url string) func(method, name, arguments string, headers ...string) (int, string) {
	t.Helper()
	return func(method, name, arguments string, headers ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"name":"`+name+`","arguments":`+arguments+
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range append([]string{
			"Content-Type: application/json", "Accept: application/json, text/event-stream", "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method, "Mcp-Name: " + name,
		}, headers...) {
			key, value, _ := strings.Cut(h, ": ")
			r.Header.Add(key, value)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		_ = res.Body.Close() // it was read
		return res.StatusCode, string(body)
	}
}

// Headers that a tool's schema asks for must say what the arguments say, for
// tools that clients call by themselves over HTTP.
func TestHeadersOfExposedTools(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tools.json")
	const deploy = `{"name":"deploy","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},` +
		`"in":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry"}}}}}}`
	const odd = `{"name":"odd","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}`
	if err := os.WriteFile(file, []byte(`{"deploy":`+deploy+`,"odd":`+odd+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := openConfig(t, t.TempDir(), children(map[string][]string{"x": {"--tools-file", file}}, map[string]any{"expose": []string{"tools"}, "exposePrefix": "none"}))
	post := poster(t, fronts["http"](t, e))
	if status, body := post("tools/list", "", "{}"); status != http.StatusOK || !strings.Contains(body, `"deploy"`) {
		t.Fatalf("tools/list: %d, %s", status, body)
	}
	region, n := "Mcp-Param-Region: eu", "Mcp-Param-N: 7"
	for name, c := range map[string]struct {
		tool, arguments string
		headers         []string
		refused         bool
	}{
		"as they are":             {"deploy", `{"region":"eu","n":7,"in":{"dry":true}}`, []string{region, n, "Mcp-Param-Dry: true"}, false},
		"no arguments":            {"deploy", `{}`, nil, false},
		"null":                    {"deploy", `{"region":null}`, nil, false},
		"encoded":                 {"deploy", `{"region":"eü"}`, []string{"Mcp-Param-Region: =?base64?ZcO8?="}, false},
		"missing":                 {"deploy", `{"region":"eu","n":7}`, []string{region}, true},
		"another value":           {"deploy", `{"region":"us"}`, []string{region}, true},
		"another number":          {"deploy", `{"n":8}`, []string{n}, true},
		"deep down":               {"deploy", `{"in":{"dry":true}}`, []string{"Mcp-Param-Dry: false"}, true},
		"for no argument":         {"deploy", `{}`, []string{region}, true},
		"twice":                   {"deploy", `{"region":"eu"}`, []string{region, "Mcp-Param-Region: us"}, true},
		"no Base64":               {"deploy", `{"region":"eu"}`, []string{"Mcp-Param-Region: =?base64?%?="}, true},
		"a schema that is wrong":  {"odd", `{"a":{}}`, nil, false},
		"by way of mcp_call":      {"mcp_call", `{"server":"x","tool":"deploy","args":{"region":"eu"}}`, nil, false},
		"a header of no argument": {"deploy", `{}`, []string{"Mcp-Param-Else: 1"}, false},
	} {
		status, body := post("tools/call", c.tool, c.arguments, c.headers...)
		if refused := status == http.StatusBadRequest && strings.Contains(body, "-32020"); refused != c.refused || !refused && status != http.StatusOK {
			t.Errorf("%s: %d, %s", name, status, body)
		}
	}
}

// What headers say is compared with the arguments in the very first call of a tool, too,
// before its server was listed.
func TestHeadersOfToolsThatAreNotKnownYet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, calls := filepath.Join(dir, "tools.json"), filepath.Join(dir, "calls")
	const deploy = `{"name":"deploy","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`
	if err := os.WriteFile(file, []byte(`{"deploy":`+deploy+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	e := openConfig(t, dir, children(map[string][]string{"x": {"--tools-file", file, "--calls-file", calls}}, map[string]any{"expose": []string{"tools"}}))
	post := poster(t, fronts["http"](t, e))
	if status, body := post("tools/call", "x__deploy", `{"region":"us"}`, "Mcp-Param-Region: eu"); status != http.StatusBadRequest || !strings.Contains(body, "-32020") {
		t.Errorf("another value: %d, %s", status, body)
	}
	if sent, err := os.ReadFile(calls); err == nil && len(sent) > 0 {
		t.Errorf("sent was %s", sent)
	}
	if status, body := post("tools/call", "x__deploy", `{"region":"eu"}`, "Mcp-Param-Region: eu"); status != http.StatusOK {
		t.Errorf("as it is: %d, %s", status, body)
	}
	if status, body := post("tools/call", "x__nothing", `{}`); status != http.StatusBadRequest || strings.Contains(body, "-32020") || !strings.Contains(body, "TOOL_NOT_FOUND") {
		t.Errorf("a name that nobody has: %d, %s", status, body)
	}
}
