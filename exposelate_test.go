package metamcp_test

import (
	"regexp"
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

// Where a server has not answered yet that was asked for what it has, nothing is said not
// to be there as if that were certain, and a list without it is not to be kept.
func TestWhoIsLateIsNamed(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			for late, flags := range map[bool]map[string][]string{
				true: {"a": {"--content"}, "b": {"--content"}, "s1": {"--silent"}, "s2": {"--silent"}}, false: {"a": {"--content"}, "b": {"--content"}},
			} {
				settings := map[string]any{"expose": []string{"tools", "prompts", "resources"}, "startupTimeoutMs": 600_000, "discoverTimeoutMs": 60_000}
				if late {
					settings["discoverTimeoutMs"] = 300
				}
				e := openConfig(t, t.TempDir(), children(flags, settings))
				for _, name := range []string{"a", "b"} {
					if err := e.Refresh(t.Context(), name); err != nil {
						t.Fatal(err)
					}
				}
				c := connectClient(t, e, &asked{modern: way.modern, url: fronts[way.front](t, e)})
				for _, list := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
					l := c.ask(list, `{"x":0}`)
					kept := !strings.Contains(string(l.Result), `"ttlMs":0`)
					if l.Result == nil || kept == (late && way.modern) {
						t.Errorf("%s, somebody is late: %v: %.300s %s", list, late, l.Result, l.Error)
					}
				}
				named := regexp.MustCompile(`servers that have not answered yet: \\"s1\\", \\"s2\\".*"retryable":true.*again in some seconds\. \w`)
				for _, r := range [][2]string{
					{"tools/call", `{"name":"none","arguments":{}}`}, {"prompts/get", `{"name":"none"}`}, {"resources/read", `{"uri":"none://x"}`},
					{"completion/complete", `{"ref":{"type":"ref/prompt","name":"none"},"argument":{"name":"x","value":""}}`},
					{"completion/complete", `{"ref":{"type":"ref/resource","uri":"none://{x}"},"argument":{"name":"x","value":""}}`},
				} {
					l := c.ask(r[0], r[1])
					if l.Error == nil || named.Match(l.Error) != late || strings.Contains(string(l.Error), "not answered") != late {
						t.Errorf("%s %s, somebody is late: %v: %s %s", r[0], r[1], late, l.Result, l.Error)
					}
				}
			}
		})
	}
}
