package jsonrpc

import "testing"

func TestWithout(t *testing.T) {
	for obj, want := range map[string]string{
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`: `{"type":"object"}`,
		`{ "a" : [1, {"$schema": 2}] , "$schema" : "x" , "b\"" : "\\" }`:        `{"a" : [1, {"$schema": 2}],"b\"" : "\\"}`,
		`{"$schema":1,"\u0061\ud800":2,"\u0024schema":3,"b":1e1}`:               `{"\u0061\ud800":2,"b":1e1}`,
		`{"$schema":{}}`: `{}`, `{}`: `{}`, `{ "type": "object" }`: `{ "type": "object" }`, `[1]`: `[1]`, `true`: `true`, ``: ``,
		`{"$schema":1,`: `{"$schema":1,`, `{"$schema":1} 2`: `{"$schema":1} 2`,
	} {
		if got := string(Without([]byte(obj), "$schema")); got != want {
			t.Errorf("%s without it is %s, want %s", obj, got, want)
		}
	}
}
