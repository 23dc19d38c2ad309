package metamcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// person answers every kind of question, and gives back what it was asked.
func person(q rpcLine) string {
	switch q.Method {
	case "elicitation/create":
		var p struct{ Message string }
		_ = json.Unmarshal(q.Params, &p)
		return `"result":{"action":"accept","content":{"answer":"` + p.Message + `"},  "odd" : 1.0}`
	case "sampling/createMessage":
		var p struct {
			Messages []struct{ Content struct{ Text string } }
		}
		_ = json.Unmarshal(q.Params, &p)
		return `"result":{"role":"assistant","model":"m","content":{"type":"text","text":"` + p.Messages[0].Content.Text + `"}}`
	case "roots/list":
		return `"result":{"roots":[{"uri":"file:///a"}]}`
	}
	return `"error":{"code":-32601,"message":"no"}`
}

var eras = []struct {
	name         string
	client       bool // modern
	child        string
	wantMethod   bool
	childIsOlder bool
}{
	{name: "legacy client, legacy child", child: "legacy"},
	{name: "legacy client, modern child", child: "modern"},
	{name: "modern client, legacy child", client: true, child: "legacy"},
	{name: "modern client, modern child", client: true, child: "modern"},
}

// What a child asks while it works on a call reaches the client that made it, and
// its answer reaches the child, in all pairs of eras.
func TestChildrenAskClients(t *testing.T) {
	t.Parallel()
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			t.Parallel()
			cfg := children(map[string][]string{"x": {"--era", era.child}}, nil)
			cfg["mcpServers"].(map[string]any)["x"].(map[string]any)["roots"] = true
			e := openConfig(t, t.TempDir(), cfg)
			c := connectClient(t, e, &asked{caps: allCapabilities, modern: era.client, reply: person})
			for _, q := range []struct{ tool, args, want string }{
				{"elicit", `{"message":"one"}`, `{"action":"accept","content":{"answer":"one"},"odd":1.0}`},
				{"elicit", `{"message":"two","rounds":3}`, `{"action":"accept","content":{"answer":"two"},"odd":1.0}`},
				{"elicit", `{"message":"three","mode":"url"}`, `{"action":"accept","content":{"answer":"three"},"odd":1.0}`},
				{"sample", `{"text":"four"}`, `{"role":"assistant","model":"m","content":{"type":"text","text":"four"}}`},
				{"sample", `{"text":"five","tools":true}`, `{"role":"assistant","model":"m","content":{"type":"text","text":"five"}}`},
				{"roots", `{}`, `{"roots":[{"uri":"file:///a"}]}`},
			} {
				answers, failure := answersOf(t, c.call("x", q.tool, q.args))
				want := 1
				if strings.Contains(q.args, "rounds") {
					want = 3
				}
				if len(answers) != want || failure != nil {
					t.Errorf("%s %s: %s, error %s", q.tool, q.args, answers, failure)
					continue
				}
				for _, a := range answers {
					if compactJSON(t, a) != q.want {
						t.Errorf("%s %s: %s, want %s", q.tool, q.args, a, q.want)
					}
				}
			}
			if era.client == (era.child == "modern") || era.child == "legacy" {
				return
			}
		})
	}
}

func compactJSON(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var b strings.Builder
	inside := false
	for _, r := range string(raw) {
		if r == '"' {
			inside = !inside
		}
		if r != ' ' || inside {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// A client that cannot be asked is not, and the child hears of it at once.
func TestClientsThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			t.Parallel()
			e := open(t, map[string][]string{"x": {"--era", era.child}}, nil)
			c := connectClient(t, e, &asked{caps: `{"elicitation":{}}`, modern: era.client, reply: person})
			for _, q := range []struct {
				tool, args string
				code       int
			}{
				{"elicit", `{"message":"one","mode":"url"}`, -32602}, {"sample", `{"text":"x"}`, -32601}, {"roots", `{}`, -32601},
			} {
				l := c.call("x", q.tool, q.args)
				if era.child == "modern" {
					if !strings.Contains(string(l.Error), "-32021") || !strings.Contains(string(l.Error), "requiredCapabilities") {
						t.Errorf("%s: %s %s", q.tool, l.Result, l.Error)
					}
					continue
				}
				if _, failure := answersOf(t, l); !strings.Contains(string(failure), fmt.Sprint(q.code)) {
					t.Errorf("%s: %s %s", q.tool, l.Result, failure)
				}
			}
			if n := c.questions(); n != 0 {
				t.Errorf("%d questions came all the same", n)
			}
			if answers, _ := answersOf(t, c.call("x", "elicit", `{"message":"one"}`)); len(answers) != 1 {
				t.Errorf("a form is answered with %s", answers)
			}
		})
	}
}
