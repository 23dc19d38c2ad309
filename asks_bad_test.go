package metamcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/testkit"
)

// until waits for a condition.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if cond() {
			return nil
		}
		return errors.New(what)
	})
}

// limited is an engine with one legacy demo server whose entry has these further
// members.
func limited(t testing.TB, era string, members map[string]any) *metamcp.Engine {
	t.Helper()
	cfg := children(map[string][]string{"x": {"--era", era}}, nil)
	entry := cfg["mcpServers"].(map[string]any)["x"].(map[string]any)
	for name, value := range members {
		entry[name] = value
	}
	return openConfig(t, t.TempDir(), cfg)
}

const elicitLine = `{"jsonrpc":"2.0","id":"%s","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`

func sendArgs(t testing.TB, args map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// A child that asks without end, with ids that are taken, for no call, or after its
// answer, harms neither the host nor its client.
func TestChildrenThatAskWrongly(t *testing.T) {
	t.Parallel()
	e := limited(t, "legacy", nil)
	refusals, err := e.WatchTrace(t.Context(), "type=child-request")
	if err != nil {
		t.Fatal(err)
	}
	c := connectClient(t, e, &asked{caps: allCapabilities})
	c.call("x", "send", sendArgs(t, map[string]any{"lines": []string{fmt.Sprintf(elicitLine, "late-%d")}, "after": true}))
	select {
	case r := <-refusals:
		if !strings.Contains(r.Detail, "no call in flight") {
			t.Errorf("a late question: %s", r.Detail)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing becomes of a late question")
	}
	if n := c.questions(); n != 0 {
		t.Errorf("%d questions for no call", n)
	}
	c.call("x", "send", sendArgs(t, map[string]any{"lines": []string{fmt.Sprintf(elicitLine, "same"), fmt.Sprintf(elicitLine, "same"), `{"jsonrpc":"2.0","id":"odd","method":"elicitation/create","params":[1]}`, `{"jsonrpc":"2.0","id":"no","method":"nobody/knows"}`}}))
	if n := c.questions(); n != 1 {
		t.Errorf("%d questions with one id", n)
	}
	until(t, "the question of a call that was answered is withdrawn", func() bool { return len(c.notified("notifications/cancelled")) == 1 })
	c.call("x", "send", sendArgs(t, map[string]any{"lines": []string{fmt.Sprintf(elicitLine, "given-up"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"given-up"}}`}}))
	until(t, "a question that the child gave up is withdrawn", func() bool { return len(c.notified("notifications/cancelled")) == 2 })

	_, answer := c.begin("tools/call", callOf("x", "send", sendArgs(t, map[string]any{"lines": []string{fmt.Sprintf(elicitLine, "flood-%d")}, "count": 5_000})))
	if l := c.await(answer); !strings.Contains(string(l.Result), "sent") {
		t.Errorf("%s %s", l.Result, l.Error)
	}
	if n := c.questions(); n > 2+256 {
		t.Errorf("%d questions reached the client", n)
	}
	until(t, "all are withdrawn", func() bool { return len(c.notified("notifications/cancelled")) == c.questions() })
	if text := textIn(t, c.call("x", "echo", `{"text":"well"}`)); text != "well" {
		t.Errorf("afterwards it says %q", text)
	}
}

// A client that answers late, twice, with what is no answer, or not at all.
func TestClientsThatAnswerWrongly(t *testing.T) {
	t.Parallel()
	e := limited(t, "legacy", map[string]any{"timeoutMs": 2000, "maxTimeoutMs": 6000})
	var how atomic.Value
	c := &asked{caps: allCapabilities}
	c.reply = func(q rpcLine) string {
		switch h := how.Load().(string); h {
		case "slow":
			<-time.After(2500 * time.Millisecond) // longer than a call may take
			return person(q)
		case "twice":
			c.send(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,` + person(q) + `}`)
			return `"result":{"action":"decline"}`
		default:
			return h
		}
	}
	connectClient(t, e, c)
	for _, tc := range []struct{ how, want string }{
		{"slow", `"action":"accept"`}, {"twice", `"action":"accept"`},
		{`"result":[1]`, "-32603"}, {`"error":{"code":"x"}`, "-32603"}, {`"error":{"code":-1,"message":"User rejected","data":[1.0]}`, `{"code":-1,"message":"User rejected","data":[1.0]}`},
		{"", "did not answer"},
	} {
		how.Store(tc.how)
		if text := textIn(t, c.call("x", "elicit", `{"message":"m"}`)); !strings.Contains(text, tc.want) {
			t.Errorf("%q: the child got %s", tc.how, text)
		}
	}
	until(t, "the client hears that nobody waits any more", func() bool { return len(c.notified("notifications/cancelled")) == 1 })
	c.send(`{"jsonrpc":"2.0","id":` + string(c.asks[0].ID) + `,"result":{}}`)
	c.send(`{"jsonrpc":"2.0","id":null,"result":{}}`)
	if text := textIn(t, c.call("x", "echo", `{"text":"well"}`)); text != "well" {
		t.Errorf("afterwards it says %q", text)
	}
}

// A call that is cancelled takes its question with it, and so does a client that
// goes away.
func TestQuestionsEndWithTheirCall(t *testing.T) {
	t.Parallel()
	e := limited(t, "legacy", nil)
	c := connectClient(t, e, &asked{caps: allCapabilities})
	id, answer := c.begin("tools/call", callOf("x", "elicit", `{"message":"m"}`))
	until(t, "the question comes", func() bool { return c.questions() == 1 })
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	until(t, "the question is withdrawn", func() bool {
		n := c.notified("notifications/cancelled")
		return len(n) == 1 && strings.Contains(string(n[0].Params), string(c.asks[0].ID))
	})
	if len(answer) != 0 {
		t.Error("a cancelled call was answered")
	}
	c.mu.Lock()
	delete(c.waiting, id)
	c.mu.Unlock()

	_, answer = c.begin("tools/call", callOf("x", "elicit", `{"message":"m"}`))
	until(t, "the question comes", func() bool { return c.questions() == 2 })
	_ = c.in.Close()
	if l := c.await(answer); !strings.Contains(textIn(t, l), "cannot answer") {
		t.Errorf("%s", l.Result)
	}
	other := connectClient(t, e, &asked{caps: allCapabilities, reply: person})
	if answers, _ := answersOf(t, other.call("x", "elicit", `{"message":"m"}`)); len(answers) != 1 {
		t.Errorf("another client: %s", answers)
	}
}

// What a client of the newer protocol brings back is held to what it was given. That
// a call was not carried out is said of none that may have been.
func TestStatesAreBound(t *testing.T) {
	t.Parallel()
	for _, child := range []string{"legacy", "modern"} {
		t.Run(child, func(t *testing.T) {
			t.Parallel()
			e := limited(t, child, nil)
			a := connectClient(t, e, &asked{caps: allCapabilities, modern: true})
			b := connectClient(t, e, &asked{caps: allCapabilities, modern: true})
			params := callOf("x", "elicit", `{"message":"m"}`)
			var r struct {
				ResultType    string
				InputRequests map[string]rpcLine
				RequestState  string
			}
			if l := a.ask("tools/call", params); json.Unmarshal(l.Result, &r) != nil || r.ResultType != "input_required" || len(r.InputRequests) != 1 || r.RequestState == "" {
				t.Fatalf("%s %s", l.Result, l.Error)
			}
			key := ""
			for key = range r.InputRequests {
			}
			again := func(params, state string) string {
				return strings.TrimSuffix(params, "}") + `,"inputResponses":{"` + key + `":{"action":"accept","content":{"answer":"a"}}},"requestState":` + quoted(state) + `}`
			}
			refused := func(what string, l rpcLine) {
				t.Helper()
				if text := string(l.Error); !strings.Contains(text, "-32602") || !strings.Contains(text, "the outcome of the call that the state belongs to is unknown") || strings.Contains(text, "nothing was done") {
					t.Errorf("%s: %s %s", what, l.Result, l.Error)
				}
			}
			refused("another client", b.ask("tools/call", again(params, r.RequestState)))
			refused("other arguments", a.ask("tools/call", again(callOf("x", "elicit", `{"message":"n"}`), r.RequestState)))
			refused("another tool", a.ask("tools/call", again(callOf("x", "sample", `{"message":"m"}`), r.RequestState)))
			refused("a forged state", a.ask("tools/call", again(params, r.RequestState[:len(r.RequestState)-3]+"abc")))
			refused("a state of nobody", a.ask("tools/call", again(params, "state")))
			next := connectClient(t, limited(t, child, nil), &asked{caps: allCapabilities, modern: true})
			refused("a state that the host before gave out", next.ask("tools/call", again(params, r.RequestState)))
			if answers, _ := answersOf(t, a.ask("tools/call", again(params, r.RequestState))); len(answers) != 1 {
				t.Errorf("the right one: %s", answers)
			}
			refused("a state that was used", a.ask("tools/call", again(params, r.RequestState)))
		})
	}
}

// Lines of a child's log reach the client whose call they belong to, as far as it
// wants them.
func TestLogsOfChildren(t *testing.T) {
	t.Parallel()
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			t.Parallel()
			e := limited(t, era.child, nil)
			c := &asked{modern: era.client, url: fronts[era.front](t, e)}
			connectClient(t, e, c)
			other := connectClient(t, e, &asked{})
			lines := func(level string, want int, told string) {
				t.Helper()
				before := len(c.notified("notifications/message"))
				if text := textIn(t, c.call("x", "log", `{"level":"`+level+`","text":"t","count":3}`)); text != "level "+told {
					t.Errorf("the child heard %q, want %q", text, told)
				}
				if got := len(c.notified("notifications/message")) - before; got != want {
					t.Errorf("%d lines of level %s, want %d", got, level, want)
				}
			}
			if era.client {
				lines("info", 0, "")
				c.meta = `,"io.modelcontextprotocol/logLevel":"warning"`
			} else {
				if era.child == "legacy" {
					lines("info", 3, "")
				}
				c.ask("logging/setLevel", `{"level":"warning"}`)
			}
			lines("info", 0, "warning")
			lines("error", 3, "warning")
			if n := len(other.notified("notifications/message")); n != 0 {
				t.Errorf("another client got %d lines", n)
			}
			if n := c.notified("notifications/message"); !strings.Contains(string(n[len(n)-1].Params), `"data":"t 2"`) {
				t.Errorf("the last line is %s", n[len(n)-1].Params)
			}
		})
	}
}
