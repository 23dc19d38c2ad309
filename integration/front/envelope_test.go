package front

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

const testInfo = `{"name":"metamcp","version":"1"}`

func TestAppendResult(t *testing.T) {
	const si = `"io.modelcontextprotocol/serverInfo":`
	for _, test := range []struct {
		result, want string
		era          messages.Era
		info         string
	}{
		{`{ "content":[],"x":1.0e5,"s":"\u003c" }`, `{ "content":[],"x":1.0e5,"s":"\u003c" }`, messages.EraLegacy, testInfo},
		{`{"content":[]}`, `{"resultType":"complete","_meta":{` + si + testInfo + `},"content":[]}`, messages.EraModern, testInfo},
		{`{"content":[]}`, `{"resultType":"complete","content":[]}`, messages.EraModern, ""},
		{`{}`, `{"resultType":"complete","_meta":{` + si + testInfo + `}}`, messages.EraModern, testInfo},
		{` { } `, ` {"resultType":"complete","_meta":{` + si + testInfo + `} } `, messages.EraModern, testInfo},
		{`{"resultType":"input_required","a":1}`, `{"_meta":{` + si + testInfo + `},"resultType":"input_required","a":1}`, messages.EraModern, testInfo},
		{`{"a":1,"_meta":{"k":2}}`, `{"resultType":"complete","a":1,"_meta":{` + si + testInfo + `,"k":2}}`, messages.EraModern, testInfo},
		{`{"_meta":{ },"resultType":"x"}`, `{"_meta":{` + si + testInfo + ` },"resultType":"x"}`, messages.EraModern, testInfo},
		{`{"_meta":{` + si + `{"name":"child"}},"resultType":"x"}`, `{"_meta":{` + si + `{"name":"child"}},"resultType":"x"}`, messages.EraModern, testInfo},
		{`{"_meta":null,"a":1}`, `{"resultType":"complete","_meta":null,"a":1}`, messages.EraModern, testInfo},
		{`[1]`, `[1]`, messages.EraModern, testInfo},
		{"{\n  \"a\": \"x\\n\"\r\n}", "{   \"a\": \"x\\n\"  }", messages.EraLegacy, testInfo},
	} {
		var info []byte
		if test.info != "" {
			info = []byte(test.info)
		}
		before := test.result
		got := string(AppendResult(nil, []byte(`"id"`), []byte(test.result), test.era, info))
		want := `{"jsonrpc":"2.0","id":"id","result":` + test.want + `}`
		if got != want || !json.Valid([]byte(got)) || before != test.result {
			t.Errorf("%s, %s\n got %s\nwant %s", test.result, test.era, got, want)
		}
	}
}

func TestAppendErrors(t *testing.T) {
	if got := string(AppendRPCError(nil, []byte(`1`), []byte("{\"code\":-1,\n\"message\":\"<x>\"}"))); got != `{"jsonrpc":"2.0","id":1,"error":{"code":-1, "message":"<x>"}}` {
		t.Errorf("got %s", got)
	}
	if got := string(AppendError(nil, nil, -32700, "a \"b\"")); got != `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a \"b\""}}` {
		t.Errorf("got %s", got)
	}
	e := &messages.Error{
		Code: messages.CodeCircuitOpen, Message: "m <&> \"q\"", Server: "s", Tool: "t", Class: messages.ClassOffline,
		Retryable: true, RetryAfter: 1500 * time.Millisecond, Hint: "h", Details: []string{"d1", "d\n2"},
	}
	line := AppendToolError(nil, []byte(`5`), e, messages.EraModern, []byte(testInfo))
	var got struct {
		ID     int
		Result struct {
			ResultType string
			IsError    bool
			Content    []struct{ Type, Text string }
		}
	}
	if err := json.Unmarshal(line, &got); err != nil || got.ID != 5 || !got.Result.IsError || got.Result.ResultType != "complete" || len(got.Result.Content) != 1 || got.Result.Content[0].Type != "text" {
		t.Fatalf("%s: %v", line, err)
	}
	want := `{"error":{"code":"CIRCUIT_OPEN","message":"m <&> \"q\"","server":"s","tool":"t","class":"offline","retryable":true,"retryAfterMs":1500,"hint":"h","details":["d1","d\n2"]}}`
	if got.Result.Content[0].Text != want {
		t.Errorf("\n got %s\nwant %s", got.Result.Content[0].Text, want)
	}
	if strings.ContainsAny(string(line), "\n\r") {
		t.Error("the line has a line feed")
	}
}

func TestAppendProgress(t *testing.T) {
	const head, tail = `{"jsonrpc":"2.0","method":"notifications/progress","params":`, `}`
	for params, want := range map[string]string{
		`{"progressToken":12,"progress":1.50,"x":{"progressToken":3}}`:    `{"progressToken":"tok","progress":1.50,"x":{"progressToken":3}}`,
		`{ "progress" : 1 , "progressToken" : "our\"s" , "message":"m" }`: `{ "progress" : 1 , "progressToken" : "tok" , "message":"m" }`,
		`{"progress":1}`:                      `{"progressToken":"tok","progress":1}`,
		`{}`:                                  `{"progressToken":"tok"}`,
		``:                                    `{"progressToken":"tok"}`,
		"{\n\"progressToken\":1\n}":           `{ "progressToken":"tok" }`,
		`{"progress\u0054oken":1,"total":20}`: `{"progress\u0054oken":"tok","total":20}`,
	} {
		got := string(AppendProgress(nil, []byte(`"tok"`), []byte(params)))
		if got != head+want+tail || !json.Valid([]byte(got)) {
			t.Errorf("%s\n got %s\nwant %s", params, got, head+want+tail)
		}
	}
}

func TestUnescapeHTML(t *testing.T) {
	for in, want := range map[string]string{
		`"\u003ca\u003E \u0026 \u0026"`:  `"<a> & &"`,
		`"\\u003c \\\u003c \u0041 \u00"`: `"\\u003c \\< \u0041 \u00"`,
		`"plain"`:                        `"plain"`,
	} {
		if got := string(unescapeHTML([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// Only a call of the spliced tool has a timeoutMs.
func TestHintsOfRequestsWithoutTimeout(t *testing.T) {
	e := &messages.Error{Code: messages.CodeExecutionTimeout, Server: "s", Tool: "t", Message: "late", Hint: "Look first. A longer timeoutMs gives it more time."}
	if got := InNameOf("s_t", e).Hint; got != "Look first. A longer timeoutMs in the server's entry gives it more time." {
		t.Errorf("an exposed tool: %s", got)
	}
	c := newConnection(t.Context(), Options{MCP: server.NewMCPServer("x", "1")}.withDefaults(), nil)
	var out kept
	c.write(&Entry{ID: []byte("1"), passed: true, out: &out}, &messages.Answer{Err: e})
	if got := string(out); !strings.Contains(got, "longer timeoutMs in the server's entry") {
		t.Errorf("a passed request: %s", got)
	}
	out = nil
	c.write(&Entry{ID: []byte("1"), passed: true, out: &out}, &messages.Answer{Err: InNameOf("s_t", e)})
	if got := string(out); strings.Count(got, "in the server's entry") != 2 { // in the text and in data
		t.Errorf("a passed request of an exposed tool: %s", got)
	}
	if strings.Contains(e.Hint, "entry") {
		t.Error("the error itself is changed")
	}
}

// kept keeps what is written to it.
type kept []byte

func (l *kept) Answer(parts ...[]byte) error { return l.Write(parts...) }
func (l *kept) Write(parts ...[]byte) error {
	for _, p := range parts {
		*l = append(*l, p...)
	}
	return nil
}
func (l *kept) Hold(line []byte) { *l = append(*l, line...) }
func (*kept) Release()           {}
func (*kept) Drop()              {}
