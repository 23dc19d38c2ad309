package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		line   string
		want   Message
		syntax bool
		bad    string // part of a MessageError
	}{
		{line: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`, want: Message{ID: raw(`1`), Method: "tools/call", Params: raw(`{"name":"x"}`)}},
		{line: " {\"id\" : \"a\\\"b\" , \"jsonrpc\" : \"2.0\" , \"result\" : [ 1 , 2 ] } \r\n", want: Message{ID: raw(`"a\"b"`), Result: raw(`[ 1 , 2 ]`)}},
		{line: `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, want: Message{Method: "notifications/progress", Params: raw(`{}`)}},
		{line: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, want: Message{ID: raw(`null`), Error: raw(`{"code":-32700,"message":"x"}`)}},
		{line: `{"jsonrpc":"2.0","id":3,"result":null}`, want: Message{ID: raw(`3`), Result: raw(`null`)}},
		{line: `{"jsonrpc":"2.0","id":-1.5e3,"method":"x\/y"}`, want: Message{ID: raw(`-1.5e3`), Method: "x/y"}},
		{line: `{"\u006asonrpc":"2\u002e0","id":1,"m\u0065thod":"ping"}`, want: Message{ID: raw(`1`), Method: "ping"}},
		{line: `{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b"}`, want: Message{ID: raw(`2`), Method: "b"}},
		{line: `{"jsonrpc":"2.0","id":1,"ID":2,"method":"a"}`, want: Message{ID: raw(`1`), Method: "a"}},
		{line: ``, syntax: true},
		{line: `{"jsonrpc":"2.0","id":1,"method":"a"`, syntax: true},
		{line: `{"jsonrpc":"2.0","id":1,"method":"a"}}`, syntax: true},
		{line: `[{"jsonrpc":"2.0","id":1,"method":"a"}]`, bad: "batches were removed"},
		{line: `7`, bad: "no JSON object"},
		{line: `{"id":1,"method":"a"}`, want: Message{ID: raw(`1`)}, bad: `"jsonrpc"`},
		{line: `{"jsonrpc":2.0,"id":1,"method":"a"}`, want: Message{ID: raw(`1`)}, bad: `"jsonrpc"`},
		{line: `{"jsonrpc":"1.0","id":1,"method":"a"}`, want: Message{ID: raw(`1`)}, bad: `"jsonrpc"`},
		{line: `{"jsonrpc":"2.0","id":true,"method":"a"}`, bad: `"id"`},
		{line: `{"jsonrpc":"2.0","id":{},"method":"a"}`, bad: `"id"`},
		{line: `{"jsonrpc":"2.0","id":1,"method":7}`, want: Message{ID: raw(`1`)}, bad: `"method"`},
		{line: `{"jsonrpc":"2.0","id":1,"method":""}`, want: Message{ID: raw(`1`)}, bad: `"method"`},
		{line: `{"jsonrpc":"2.0","id":1}`, want: Message{ID: raw(`1`)}, bad: "neither"},
	}
	for _, test := range tests {
		got, err := Parse([]byte(test.line))
		var syntax *SyntaxError
		var bad *MessageError
		switch {
		case test.syntax:
			if !errors.As(err, &syntax) {
				t.Errorf("Parse(%s): %v, want a syntax error", test.line, err)
			}
		case test.bad != "":
			if !errors.As(err, &bad) || !strings.Contains(bad.What, test.bad) {
				t.Errorf("Parse(%s): %v, want a message error with %q", test.line, err, test.bad)
			}
		case err != nil:
			t.Errorf("Parse(%s): %v", test.line, err)
		}
		if show(got) != show(test.want) {
			t.Errorf("Parse(%s)\n got %s\nwant %s", test.line, show(got), show(test.want))
		}
	}
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func show(m Message) string {
	var b strings.Builder
	for _, r := range []json.RawMessage{m.ID, m.Params, m.Result, m.Error} {
		if r == nil {
			b.WriteString("- ")
		} else {
			b.WriteString(string(r) + " ")
		}
	}
	return b.String() + m.Method
}

// looseShape is the shape of those fields, and takes names that stand there twice.
func looseShape(fields ...Field) ParamsShape {
	return ParamsShape{newShape(messageFields(fields...), 0)}
}

var callShape = looseShape(
	Field{Name: "name"},
	Field{Name: "arguments", Fields: []Field{{Name: "server"}, {Name: "tool"}, {Name: "args"}}},
	Field{Name: "_meta", Fields: []Field{{Name: "progressToken"}}},
)

func TestParseShape(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"n","arguments":{"server":"s","args":{"server":"inner"},"tool":"t"},"_meta":{"progressToken":7}}}`: `"n"|{"server":"s","args":{"server":"inner"},"tool":"t"}|"s"|"t"|{"server":"inner"}|{"progressToken":7}|7`,
		`{"jsonrpc":"2.0","id":1,"method":"m"}`:                                                                           `||||||`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":[{"name":"n"}]}`:                                                   `||||||`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":"x","name":{"server":1}}}`:                            `{"server":1}|"x"|||||`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","_meta":{"progressToken":1}},"params":{"name" : "b"}}`: `"b"||||||`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"server":1},"arguments":{"tool":2}}}`:                `|{"tool":2}||2|||`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"server":1},"arguments":null}}`:                      `|null|||||`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"argum\u0065nts":{"\u0073erver":1}}}`:                             `|{"\u0073erver":1}|1||||`,
	} {
		var out [7][]byte
		if _, err := ParseShape([]byte(line), callShape, out[:]); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		parts := make([]string, len(out))
		for i, o := range out {
			parts[i] = string(o)
		}
		if got := strings.Join(parts, "|"); got != want {
			t.Errorf("ParseShape(%s)\n got %s\nwant %s", line, got, want)
		}
	}
	var out [7][]byte
	if _, err := ParseShape([]byte(`{"jsonrpc":"2.0","params":{"name":"n"},`), callShape, out[:]); err == nil || out[0] != nil {
		t.Errorf("a broken line left captures: %v %s", err, out[0])
	}
}

// The first name beside those of the fields is captured, of the object that counts
// and of no other.
func TestOtherName(t *testing.T) {
	t.Parallel()
	shape := looseShape(Field{Name: "name"}, Field{Name: "arguments", Other: true, Fields: []Field{{Name: "args"}}}, Field{Name: "_meta", Fields: []Field{{Name: "t"}}})
	for params, want := range map[string]string{
		`{"x":1,"name":2,"arguments":{"args":{"y":1}},"_meta":{"z":1}}`: `2|{"args":{"y":1}}|{"y":1}||{"z":1}|`,
		`{"arguments":{"args":1,"x":{"args":2},"y":3},"_meta":{"t":4}}`: `|{"args":1,"x":{"args":2},"y":3}|1|"x"|{"t":4}|4`,
		`{"arguments":{"":1}}`:                                  `|{"":1}||""||`,
		`{"arguments":{"Args":1}}`:                              `|{"Args":1}||"Args"||`,
		`{"arguments":{"\u0061rgs":1}}`:                         `|{"\u0061rgs":1}|1|||`,
		`{"arguments":{"\u0078":1}}`:                            `|{"\u0078":1}||"\u0078"||`,
		`{"arguments":{"x":1},"arguments":{}}`:                  `|{}||||`,
		`{"arguments":{},"arguments":{"x":1}}`:                  `|{"x":1}||"x"||`,
		`{"arguments":[{"x":1}],"_meta":1,"name":{"args":"x"}}`: `{"args":"x"}|[{"x":1}]|||1|`,
	} {
		var out [6][]byte
		if _, err := ParseShape([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":`+params+`}`), shape, out[:]); err != nil {
			t.Errorf("%s: %v", params, err)
		}
		if got := string(bytes.Join(out[:], []byte("|"))); got != want {
			t.Errorf("%s:\n got %s\nwant %s", params, got, want)
		}
	}
}

var named = Names{"uri", "taskId"}

// isMember finds a name that is one of a member of a valid text: quotes within
// strings have a backslash before them.
var isMember = map[string]*regexp.Regexp{
	"uri": regexp.MustCompile(`[^\\]"uri"[ \t\r\n]*:`), "taskId": regexp.MustCompile(`[^\\]"taskId"[ \t\r\n]*:`),
}

func TestParseNaming(t *testing.T) {
	for line, want := range map[string]uint8{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                                         0,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"resource":{"uri":"a"}}]}}`:                     1,
		`{"jsonrpc":"2.0","id":1,"result":{"a":{"taskId" : 1},"b":"uri"}}`:                             2,
		`{"jsonrpc":"2.0","id":1,"method":"x","params":{"uri":{"taskId":[]}}}`:                         3,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"{\"uri\":1,\"taskId\":2}"},"taskId"]}}`: 0,
	} {
		if _, seen, err := ParseNaming([]byte(line), &named); err != nil || seen != want {
			t.Errorf("%s: %d, %v, want %d", line, seen, err, want)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"server":"s","args":{"a":[1,2,3]},"tool":"t"}}}`)
	if n := testing.AllocsPerRun(100, func() {
		var out [7][]byte
		if _, err := ParseShape(line, callShape, out[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(line); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"server":"s"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"id":"x","result":{"a":[1,2]},"error":null}`))
	f.Add([]byte(`[{"jsonrpc":"2.0"}]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := Parse(line)
		var out [7][]byte
		m2, err2 := ParseShape(line, callShape, out[:])
		m3, seen, err3 := ParseNaming(line, &named)
		if (err == nil) != (err2 == nil) || show(m) != show(m2) || (err == nil) != (err3 == nil) || show(m) != show(m3) {
			t.Fatalf("Parse, ParseShape and ParseNaming differ on %q", line)
		}
		if err != nil {
			return
		}
		for i, name := range named[:len(isMember)] {
			if got, want := seen>>i&1 != 0, isMember[name].Match(line); got != want {
				t.Fatalf("ParseNaming finds %s in %q: %v", name, line, got)
			}
		}
		// A map keeps the last of several members, with exact names.
		var want map[string]json.RawMessage
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		for name, got := range map[string]json.RawMessage{"id": m.ID, "params": m.Params, "result": m.Result, "error": m.Error} {
			if string(got) != string(want[name]) {
				t.Fatalf("%s of %q: %s, want %s", name, line, got, want[name])
			}
		}
		if name := Get(m.Params, "name"); !bytes.Equal(name, out[0]) {
			t.Fatalf("Get of %q: %s, shape %s", line, name, out[0])
		}
	})
}

func TestOneKind(t *testing.T) {
	for line, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"a","result":null,"error":null}`: true,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`:                true,
		`{"jsonrpc":"2.0","id":1,"method":"a","result":{}}`:                false,
		`{"jsonrpc":"2.0","method":"a","error":0}`:                         false,
	} {
		m, err := Parse([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := OneKind(m.Method, m.Result, m.Error); (err == nil) != want {
			t.Errorf("%s: %v", line, err)
		}
	}
}
