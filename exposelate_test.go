package metamcp_test

import (
	"strings"
	"testing"
)

// A call of an exposed tool whose server was not listed yet fails as one of a known tool
// does: with a result. A name that nobody has is an error of the protocol.
func TestLateToolsFailLikeKnownOnes(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			for what, params := range map[string]string{
				"arguments that do not fit":       `{"name":"x__add","arguments":{"a":"one","b":2}}`,
				"arguments that are no object":    `{"name":"x__add","arguments":[1,2]}`,
				"a client that can mend failures": `{"name":"x__add","arguments":{}}`,
			} {
				e := openConfig(t, t.TempDir(), children(map[string][]string{"x": nil}, map[string]any{"expose": []string{"tools"}}))
				caps := "{}"
				if strings.HasPrefix(what, "a client") {
					caps = urlCapability
				}
				c := connectClient(t, e, &asked{caps: caps, modern: way.modern, url: fronts[way.front](t, e)})
				for _, call := range []string{"first", "second"} {
					if l := c.rounds(params); !strings.Contains(string(l.Result), `"isError":true`) || !strings.Contains(string(l.Result), "VALIDATION_ERROR") {
						t.Errorf("%s: the %s call gets %s %s", what, call, l.Result, l.Error)
					}
				}
				if l := c.rounds(`{"name":"x__nothing","arguments":{}}`); l.Result != nil || !strings.Contains(string(l.Error), "TOOL_NOT_FOUND") {
					t.Errorf("%s: a name that nobody has gets %s %s", what, l.Result, l.Error)
				}
			}
		})
	}
}
