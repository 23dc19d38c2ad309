package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestAnswerID(t *testing.T) {
	const window = 64
	long := strings.Repeat("x", 500)
	for _, c := range []struct{ text, want string }{
		{`{"jsonrpc":"2.0","id":7,"result":{"text":"` + long + `"}}`, `7`},
		{`{"result":{"text":"` + long + `"},"jsonrpc":"2.0","id":7}`, `7`},
		{` { "result" : "` + long + `" , "id" : "a\"b" , "jsonrpc" : "2.0" } ` + "\r\n", `"a\"b"`},
		{`{"jsonrpc":"2.0","error":{"code":1,"message":"` + long + `"},"id":7.0}`, `7.0`},
		{`{"result":"` + long + `","x":{"id":1,"a":["}",{}]},"id":8}`, `8`},
		{`{"result":{"text":"` + long + `","id":9}}`, ``},                          // not the message's own
		{`{"result":{"text":"` + long + `\",\"id\":9}"}}`, ``},                     // text
		{`{"id":3,"method":"x","params":{"text":"` + long + `"}}`, ``},             // a request
		{`{"method":"x","params":{"text":"` + long + `"},"id":3}`, ``},             // a request
		{`{"params":{"text":"` + long + `"},"method":"x","id":3}`, ``},             // a request
		{`{"level":"info","text":"` + long + `","id":3}`, ``},                      // a log line
		{`{"jsonrpc":"2.0","id":null,"result":"` + long + `"}`, ``},                // for nobody
		{`{"result":"` + long + `","id":[1]}`, ``},                                 // no id
		{`[{"jsonrpc":"2.0","id":7,"result":"` + long + `"}]`, ``},                 // a batch
		{`{"jsonrpc":"2.0","id":7,"result":{"text":"` + long, `7`},                 // without an end
		{`{"result":"` + long + `","id":123456` + strings.Repeat("7", window), ``}, // no end either
		{`{"jsonrpc":"2.0","id":7,"result":{"text":"a` + "\xff\x01" + `\q` + long + `"}}`, `7`},
		{`{"jsonrpc":"2.0","result":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,"id":7}`, `7`},
		{``, ``}, {`}`, ``}, {`{`, ``}, {`"`, ``}, {`{"id":`, ``}, {`"}`, ``}, {`:1}`, ``}, {`,}`, ``}, {`{}`, ``},
	} {
		text := []byte(c.text)
		head, tail := text[:min(len(text), window)], text[max(0, len(text)-window):]
		for name, got := range map[string]json.RawMessage{"windows": AnswerID(head, tail), "whole": AnswerID(text, text), "whole and tail": AnswerID(text, tail)} {
			if string(got) != c.want {
				t.Errorf("%s of %.60q…%q: id %q, want %q", name, c.text, tail, got, c.want)
			}
		}
	}
}

func TestAnsweredID(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"jsonrpc":"2.0","id":7}`, `7`},
		{` {"jsonrpc":"2.0","Result":{},"id":"a\"b"} `, `"a\"b"`},
		{`{"jsonrpc":"1.0","id":7,"result":{}}`, `7`},
		{`{"jsonrpc":"2.0","id":7,"method":null}`, `7`},
		{`{"jsonrpc":"2.0","id":7,"method":"","params":null,"error":null}`, `7`},
		{`{"jsonrpc":"2.0","id":7,"method":"m","result":{}}`, `7`},
		{`{"jsonrpc":"2.0","id":7,"m\u0065thod":"m","error":{}}`, `7`},
		{`{"id":7,"result":"a` + "\xff" + `"}`, `7`},
		{`{"jsonrpc":"2.0","id":7,"result":{"text":"a\qb"}}`, `7`}, // no JSON
		{`{"jsonrpc":"2.0","id":7,"method":5}`, ``},                // meant as a request
		{`{"jsonrpc":"1.0","id":7,"method":"m","result":null}`, ``},
		{`{"jsonrpc":"2.0","id":7,"method":"m","params":{"text":"a\qb"}}`, ``},
		{`{"jsonrpc":"2.0","id":null}`, ``},
		{`{"jsonrpc":"2.0","id":[7],"result":{}}`, ``},
		{`{"jsonrpc":"2.0"}`, ``},
		{`[{"jsonrpc":"2.0","id":7}]`, ``},
		{`7`, ``},
		{``, ``},
	} {
		text := []byte(c.text)
		line := text
		if !utf8.Valid(text) {
			line = Repair(text)
		}
		m, err := Parse(line)
		if err == nil {
			err = OneKind(m.Method, m.Result, m.Error)
		}
		if err == nil {
			t.Fatalf("%s is a message", c.text)
		}
		if got := AnsweredID(text, err); string(got) != c.want {
			t.Errorf("%s: id %q, want %q", c.text, got, c.want)
		}
	}
}

func TestRequestID(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, c := range []struct{ text, want string }{
		{`{"jsonrpc":"2.0","id":7,"method":"m","params":{"text":"` + long + `"}}`, `7`},
		{`{"method":"m","params":{"text":"` + long + `"},"id":"a\u0062"}`, `"a\u0062"`},
		{`{"params":{"text":"` + long + `"},"method":"m","id":-7.5e1}`, `-7.5e1`},
		{`{"jsonrpc":"2.0","method":"m","params":{"id":7,"text":"` + long + `"}}`, ``}, // a notification
		{`{"jsonrpc":"2.0","id":7,"result":{"text":"` + long + `"}}`, ``},              // a response
		{`{"jsonrpc":"2.0","id":null,"method":"m","params":"` + long + `"}`, ``},
		{`{"jsonrpc":"2.0","id":"a` + "\xff" + `","method":"m","params":"` + long + `"}`, ``}, // it must not be sent
		{`{"jsonrpc":"2.0","id":"a\q","method":"m","params":"` + long + `"}`, ``},
		{`{"jsonrpc":"2.0","id":7.,"method":"m","params":"` + long + `"}`, ``},
		{``, ``},
	} {
		text := []byte(c.text)
		if got := RequestID(text[:min(len(text), 64)], text[max(0, len(text)-64):]); string(got) != c.want {
			t.Errorf("%.60q…: id %q, want %q", c.text, got, c.want)
		}
	}
}

// TestAnswerIDOfPieces: whatever is cut out of a valid message, what is found
// is the id or nothing.
func TestAnswerIDOfPieces(t *testing.T) {
	value := rapid.SampledFrom([]string{`1`, `"id"`, `"\\\",\"id\":5}"`, `{"id":5}`, `[{"id":5},"]"]`, `null`, ` { "a" : [ ] } `, `"` + strings.Repeat(`\\`, 40) + `"`})
	rapid.Check(t, func(t *rapid.T) {
		members := []string{`"id":77`, `"jsonrpc":"2.0"`, `"result":` + value.Draw(t, "result"), `"x":` + value.Draw(t, "x"), `"id2" : ` + value.Draw(t, "id2")}
		text := []byte("{" + strings.Join(rapid.Permutation(members).Draw(t, "members"), ",") + "}")
		if !json.Valid(text) {
			t.Fatalf("%s is no JSON", text)
		}
		head := text[:rapid.IntRange(0, len(text)).Draw(t, "head")]
		tail := text[rapid.IntRange(0, len(text)).Draw(t, "tail"):]
		if got := AnswerID(head, tail); got != nil && string(got) != "77" {
			t.Fatalf("id %s from %s and %s", got, head, tail)
		}
		if got := AnswerID(text, text); string(got) != "77" {
			t.Fatalf("id %s from %s", got, text)
		}
	})
}
