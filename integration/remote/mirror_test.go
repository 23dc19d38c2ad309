package remote

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func TestMirrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, schema, want, err string }{
		{"none", `{"properties":{"a":{"type":"string"}}}`, "", ""},
		{"one", `{"properties":{"a":{"type":"string","x-mcp-header":"Region"}}}`, "a=Region", ""},
		{"nested", `{"properties":{"a":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"}}},"c":{"type":"boolean","x-mcp-header":"C"}}}`, "a.b=B c=C", ""},
		{"an argument of that name", `{"properties":{"x-mcp-header":{"type":"string"}}}`, "", ""},
		{"a value of that name", `{"properties":{"a":{"type":"object","default":{"x-mcp-header":1}}}}`, "", ""},
		{"empty", `{"properties":{"a":{"type":"string","x-mcp-header":""}}}`, "", "no name"},
		{"a line feed", `{"properties":{"a":{"type":"string","x-mcp-header":"A\r\nX: y"}}}`, "", "no name"},
		{"a blank", `{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}`, "", "no name"},
		{"no text", `{"properties":{"a":{"type":"string","x-mcp-header":7}}}`, "", "no name"},
		{"twice", `{"properties":{"a":{"type":"string","x-mcp-header":"R"},"b":{"type":"string","x-mcp-header":"r"}}}`, "", "twice"},
		{"an object", `{"properties":{"a":{"type":"object","x-mcp-header":"R"}}}`, "", "no string"},
		{"no type", `{"properties":{"a":{"x-mcp-header":"R"}}}`, "", "no string"},
		{"the root", `{"type":"string","x-mcp-header":"R"}`, "", "alone"},
		{"items", `{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"R"}}}}`, "", "alone"},
		{"oneOf", `{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"R"}}}]}`, "", "alone"},
		{"$defs", `{"$defs":{"d":{"type":"string","x-mcp-header":"R"}}}`, "", "alone"},
		{"large", `{"properties":{"a":{"type":"string","x-mcp-header":"R"}},"not":["` + strings.Repeat("x", 1<<20) + `"]}`, "", "larger than 1 MiB"},
		{"deep", strings.Repeat(`{"not":`, 100) + `{"x-mcp-header":"R"}` + strings.Repeat("}", 100), "", "levels"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			list, err := mirrors([]byte(tt.schema))
			got := make([]string, len(list))
			for i, m := range list {
				got[i] = strings.Join(m.path, ".") + "=" + m.name
			}
			slices.Sort(got)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) || strings.Join(got, " ") != tt.want {
				t.Errorf("%v %v", got, err)
			}
		})
	}
}

func TestHeaderValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"us-west1": "us-west1", "": "", "a b\tc": "a b\tc",
		"Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=", " padded ": "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2": "=?base64?bGluZTEKbGluZTI=?=", "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "\tx": "=?base64?CXg=?=",
	} {
		if got := headerValue(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A modern server gets the arguments that it asked for as headers, and of its
// tools those whose annotations are wrong are left out.
func TestMirroredArguments(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[methodDiscover] = func(w http.ResponseWriter, r *http.Request) {
		answer(w, []byte(r.Header.Get("X-Id")), `{"supportedVersions":["2026-07-28"]}`)
	}
	s.on[methodTools] = func(w http.ResponseWriter, r *http.Request) {
		answer(w, []byte(r.Header.Get("X-Id")), `{"tools":[
			{"name":"good","inputSchema":{"properties":{"n":{"type":"integer","x-mcp-header":"N"},"s":{"type":"string","x-mcp-header":"S"},"gone":{"type":"string","x-mcp-header":"Gone"},"null":{"type":"string","x-mcp-header":"Null"}}}},
			{"name":"bad","inputSchema":{"properties":{"s":{"type":"string","x-mcp-header":"a b"}}}},
			{"name":"plain","inputSchema":{}}],"ttlMs":1e3}`)
	}
	s.on[methodCall] = func(w http.ResponseWriter, r *http.Request) { answer(w, []byte(r.Header.Get("X-Id")), `{}`) }
	k := open(t, messages.TransportHTTP, s, Options{})
	k.say(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`)
	k.next("frame")
	k.say(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`)
	listed := string(k.next("frame").f.Result)
	if !strings.Contains(listed, `"good"`) || strings.Contains(listed, `"bad"`) || !strings.Contains(listed, `"plain"`) || !strings.Contains(listed, `"ttlMs":1e3`) {
		t.Error(listed)
	}
	k.say(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"good","arguments":{"n":12345678901234567,"s":"ü","null":null}}}`)
	k.next("frame")
	got := s.saw(t, 1, calls(methodCall))[0].header
	for name, want := range map[string]string{"Mcp-Param-N": "12345678901234567", "Mcp-Param-S": "=?base64?w7w=?=", "Mcp-Name": "good"} {
		if got.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Get(name), want)
		}
	}
	for _, name := range []string{"Mcp-Param-Gone", "Mcp-Param-Null"} {
		if values, ok := got[http.CanonicalHeaderKey(name)]; ok {
			t.Error(name, fmt.Sprint(values))
		}
	}
}

// What a server wants in headers is bounded, and so is what reading its tools costs.
func TestMirrorsOfManyTools(t *testing.T) {
	tool := func(i int) string {
		return fmt.Sprintf(`{"name":"t%d","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, i)
	}
	var tools []string
	for i := range maxMirrors + 10 {
		tools = append(tools, tool(i))
	}
	learn := func(k *Link, params, list string) string {
		return string(k.learnTools(&exchange{params: []byte(params)}, []byte(`{"ttlMs":1,"tools": [`+list+`] ,"nextCursor":"x"}`)))
	}
	k := &Link{l: &Launcher{o: Options{Log: slog.New(slog.DiscardHandler)}}, spec: &messages.ServerSpec{Name: "x"}}
	for range 2 { // a list begins anew with its first page
		got := learn(k, `{}`, strings.Join(tools[:maxMirrors-1], ","))
		if want := `{"ttlMs":1,"tools": [` + strings.Join(tools[:maxMirrors-1], ",") + `] ,"nextCursor":"x"}`; got != want {
			t.Errorf("%d bytes are %d", len(want), len(got))
		}
		got = learn(k, `{"cursor":"x"}`, tool(1)+`, `+tool(maxMirrors)+`, 7 ,`+tool(maxMirrors+1)+`,{"name":"plain"}`)
		if want := `{"ttlMs":1,"tools": [` + tool(1) + `,` + tool(maxMirrors) + `,7,{"name":"plain"}] ,"nextCursor":"x"}`; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		if len(k.mirrors) != maxMirrors {
			t.Errorf("%d tools with headers are known", len(k.mirrors))
		}
	}
	page := []byte(`{"tools":[` + tool(1) + strings.Repeat(",{}", 1_000_000) + `]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	k.learnTools(&exchange{}, page)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 2*uint64(len(page)) {
		t.Errorf("a page of %d bytes cost %d", len(page), took)
	}
}

// A modern server gets what a request is about as a header, whatever the request.
func TestNamesOfRequests(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ method, params, want string }{
		{methodCall, `{"name":"add"}`, "add"},
		{"prompts/get", `{"name":"greet"}`, "greet"},
		{"resources/read", `{"uri":"file:///a"}`, "file:///a"},
		{"tasks/get", `{"taskId":"786512e2"}`, "786512e2"},
		{"tasks/update", `{"taskId":"786512e2","inputResponses":{}}`, "786512e2"},
		{"tasks/cancel", `{"taskId":"ü"}`, "=?base64?w7w=?="},
		{"tools/other", `{"name":"add","uri":"file:///a","taskId":"786512e2"}`, ""},
	} {
		t.Run(tt.method, func(t *testing.T) {
			t.Parallel()
			s := newFake()
			k := open(t, messages.TransportHTTP, s, Options{})
			k.greetModern(s)
			k.say(`{"jsonrpc":"2.0","id":7,"method":"` + tt.method + `","params":` + tt.params + `}`)
			k.next("frame")
			if got := s.saw(t, 1, calls(tt.method))[0].header.Get("Mcp-Name"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A server that finds the headers of a call wrong may want others by now: its
// tools are to be listed again, though not after each call.
func TestHeaderMismatch(t *testing.T) {
	t.Parallel()
	s := newFake()
	s.on[methodCall] = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", jsonType)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Mcp-Param-Region does not match"}}`, r.Header.Get("X-Id")) //nolint:gosec // no browser reads it
	}
	k := open(t, messages.TransportHTTP, s, Options{})
	k.greetModern(s)
	for i := range 3 {
		k.say(callLine)
		if h := k.next("frame"); h.id != "7" || len(h.f.Error) == 0 {
			t.Errorf("%+v", h)
		}
		if i > 0 {
			continue
		}
		if h := k.next("frame"); h.f.Method != methodListChanged {
			t.Errorf("%+v", h)
		}
	}
}
