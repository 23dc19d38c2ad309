package metamcp_test

import (
	"strings"
	"testing"
	"time"
)

// The time of a script stands still while its client is asked what one of its
// calls wants to know, and goes on then.
func TestScriptsHaveTimeForAnswers(t *testing.T) {
	t.Parallel()
	const own = 5 * time.Second
	for _, era := range eras[:4] {
		t.Run(era.name, func(t *testing.T) {
			t.Parallel()
			e := openConfig(t, t.TempDir(), children(map[string][]string{"x": {"--era", era.child}}, nil))
			c := connectClient(t, e, &asked{caps: allCapabilities, modern: era.client, reply: func(q rpcLine) string {
				<-time.After(own + own/4)
				return person(q)
			}})
			run := func(code string) string {
				return textIn(t, c.rounds(`{"name":"mcp_execute","arguments":{"timeoutMs":5000,"code":`+quoted(code)+`}}`))
			}
			c.call("x", "roots", `{}`) // starting the server is no part of the matter
			if text := run(`const r = []; for (const m of ["one", "two"]) r.push(await servers.x.elicit({message: m})); return r`); !strings.Contains(text, `"two\"`) && !strings.Contains(text, `"two"`) {
				t.Errorf("a script that waits for answers gets %s", text)
			}
			if text := run(`await servers.x.elicit({message: "one"}); await sleep(25000)`); !strings.Contains(text, "The time of the whole script, 5000 ms, was over") {
				t.Errorf("a script that goes on gets %s", text)
			}
		})
	}
}
