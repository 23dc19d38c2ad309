package jsonrpc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestStrictShape(t *testing.T) {
	shape := NewStrictShape([]string{"uri", "cursor"}, Field{Name: "name"}, Field{Name: "task"}, Field{Name: "arguments", Fields: []Field{{Name: "server"}}},
		Field{Name: "_meta", Strict: true, Known: []string{"x/known"}, Fields: []Field{{Name: "token"}}})
	many := func(last string) string {
		var b strings.Builder
		for i := range 40 {
			fmt.Fprintf(&b, `"k%d":1,`, i)
		}
		return b.String() + last
	}
	const head = `{"jsonrpc":"2.0","id":1,"method":"m"`
	for _, test := range []struct{ line, bad string }{
		{head + `}`, ""},
		{head + `,"params":{"name":1,"uri":2,"other":3,"Other":4,"_meta":{"token":1,"x/known":2,"y":3}}}`, ""},
		{head + `,"params":{"arguments":{"server":1,"Server":2,"server":3,"x":1,"x":2}}}`, ""},
		{head + `,"params":{` + many(`"last":1`) + `}}`, ""},
		{head + `,"params":{"a":{"jsonrpc":1,"Method":2,"method":3,"name":1,"Name":1}}}`, ""},
		{head + `,"Method":"n"}`, `"Method" looks like "method"`},
		{`{"jsonrpc":"2.0","id":1,"METHOD":"n"}`, `"METHOD" looks like "method"`},
		{head + `,"\u004dethod":"n"}`, `"Method" looks like "method"`},
		{head + `,"method":"n"}`, `"method" stands there twice`},
		{head + `,"m\u0065thod":"n"}`, `"method" stands there twice`},
		{head + `,"id":2}`, `"id" stands there twice`},
		{head + `,"ID":2}`, `"ID" looks like "id"`},
		{head + `,"Result":2}`, `"Result" looks like "result"`},
		{head + `,"paramſ":{}}`, `"paramſ" looks like "params"`},
		{head + `,"other":1,"other":2}`, `"other" stands there twice`},
		{head + `,"params":{"Name":1}}`, `"Name" looks like "name"`},
		{head + `,"params":{"tasK":1}}`, `looks like "task"`},
		{head + `,"params":{"URI":1}}`, `"URI" looks like "uri"`},
		{head + `,"params":{"uri":1,"uri":1}}`, `"uri" stands there twice`},
		{head + `,"params":{"_Meta":{}}}`, `"_Meta" looks like "_meta"`},
		{head + `,"params":{"_meta":{},"_meta":{"token":1}}}`, `"_meta" stands there twice`},
		{head + `,"params":{"_meta":{"Token":1}}}`, `"Token" looks like "token"`},
		{head + `,"params":{"_meta":{"X/known":1}}}`, `"X/known" looks like "x/known"`},
		{head + `,"params":{"_meta":{"token":1,"token":1}}}`, `"token" stands there twice`},
		{head + `,"params":{},"params":{"name":1}}`, `"params" stands there twice`},
		{head + `,"params":{` + many(`"k7":1`) + `}}`, `"k7" stands there twice`},
		{head + `,"params":{` + many(`"k39":1`) + `}}`, `"k39" stands there twice`},
		{head + `,"` + strings.Repeat("ü", 1000) + `":1,"` + strings.Repeat("ü", 1000) + `":1}`, strings.Repeat("ü", 50) + `…" stands there twice`},
	} {
		var out [6][]byte
		m, err := ParseShape([]byte(test.line), shape, out[:])
		var bad *MessageError
		switch {
		case test.bad == "" && err != nil:
			t.Errorf("%.200s: %v", test.line, err)
		case test.bad != "" && (!errors.As(err, &bad) || !strings.Contains(bad.What, test.bad)):
			t.Errorf("%.200s: %v, want %q", test.line, err, test.bad)
		}
		if open := strings.Contains(test.bad, `"id"`); open != (m.ID == nil) || !open && string(m.ID) != "1" {
			t.Errorf("%.200s: id %q", test.line, m.ID)
		}
	}
	if _, err := ParseShape([]byte(head+`,"id":2,`), shape, nil); !errors.As(err, new(*SyntaxError)) {
		t.Errorf("what is no JSON: %v", err)
	}
}

// A message that leaves open which id it has has none: an answer with one of them
// could be that to another request.
func TestStrictIDs(t *testing.T) {
	t.Parallel()
	shape := NewStrictShape(nil, Field{Name: "name"})
	for _, test := range []struct{ line, id string }{
		{`{"jsonrpc":"2.0","id":12,"id":99,"method":"m"}`, ""},
		{`{"jsonrpc":"2.0","id":14,"\u0069d":78,"method":"m"}`, ""},
		{`{"jsonrpc":"2.0","id":14,"ID":78,"method":"m"}`, ""},
		{`{"jsonrpc":"2.0","ID":78,"method":"m"}`, ""},
		{`{"jsonrpc":"2.0","Method":"m","id":1,"id":2,"method":"m"}`, ""},
		{`{"jsonrpc":"2.0","x":1,"x":2,"id":1,"Id":2,"method":"m"}`, ""},
		{`{"jsonrpc":"2.0","method":"m","method":"n","id":7}`, "7"},
		{`{"jsonrpc":"2.0","id":7,"method":"m","params":{"id":1,"ID":2,"id":3,"Name":1}}`, "7"},
	} {
		m, err := ParseShape([]byte(test.line), shape, nil)
		var bad *MessageError
		if !errors.As(err, &bad) || string(m.ID) != test.id {
			t.Errorf("%s: id %q, %v; want %q", test.line, m.ID, err, test.id)
		}
	}
}
