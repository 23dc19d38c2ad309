package metamcp_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
)

// A question of which nobody knows whose it is waits until it is clear, and not for
// long; from then on the server works for one client at a time.
func TestQuestionsOfNobodyKnowsWhom(t *testing.T) {
	t.Parallel()
	e, executed := recorded(t)
	a := connectClient(t, e, &asked{caps: allCapabilities, reply: person})
	b := connectClient(t, e, &asked{caps: allCapabilities, reply: func(q rpcLine) string {
		t.Errorf("the wrong client is asked %s", q.Params)
		return person(q)
	}})
	a.call("x", "echo", `{"text":"warm"}`)

	_, slow := b.begin("tools/call", callOf("x", "slow", `{"ms":1500}`))
	executed("slow")
	_, answer := a.begin("tools/call", callOf("x", "elicit", `{"message":"held"}`))
	if text := textIn(t, a.await(answer)); !strings.Contains(text, `"answer":"held"`) {
		t.Errorf("a question that was held back: %s", text)
	}
	select {
	case <-slow:
	case <-time.After(1200 * time.Millisecond):
		t.Error("it was asked while another client had a call there")
		b.await(slow)
	}

	other, executed := recorded(t)
	a = connectClient(t, other, &asked{caps: allCapabilities, reply: person})
	b = connectClient(t, other, &asked{caps: allCapabilities})
	a.call("x", "echo", `{"text":"warm"}`)
	id, slow := b.begin("tools/call", callOf("x", "slow", `{"ms":30000}`))
	executed("slow")
	_, answer = a.begin("tools/call", callOf("x", "elicit", `{"message":"refused"}`))
	if _, failure := answersOf(t, a.await(answer)); !strings.Contains(string(failure), "several clients") {
		t.Errorf("a question that stays unclear is answered with %s", failure)
	}
	if len(slow) != 0 {
		t.Error("it was not unclear")
	}
	b.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
}

// A call that waits because another client is being asked ends by its own time, with
// the reason.
func TestTurnsAreBounded(t *testing.T) {
	t.Parallel()
	e, _ := recorded(t)
	a := connectClient(t, e, &asked{caps: allCapabilities})
	b := connectClient(t, e, &asked{caps: allCapabilities})
	id, _ := a.begin("tools/call", callOf("x", "elicit", `{"message":"open"}`))
	until(t, "the question comes", func() bool { return a.questions() == 1 })
	waits := strings.Replace(callOf("x", "echo", `{"text":"b"}`), `"tool":`, `"timeoutMs":300,"tool":`, 1)
	_, answer := b.begin("tools/call", waits)
	text := string(b.await(answer).Result)
	for _, want := range []string{"EXECUTION_TIMEOUT", "another client is being asked", "scope", "maxInstances"} {
		if !strings.Contains(text, want) {
			t.Errorf("the call that waited in vain got %s, without %q", text, want)
		}
	}
	a.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
	if text := textIn(t, b.call("x", "echo", `{"text":"b"}`)); text != "b" {
		t.Errorf("afterwards it says %q", text)
	}
}

// recorded is an engine with a legacy demo server, and what waits until that has
// begun a call of a tool.
func recorded(t testing.TB) (e *metamcp.Engine, executed func(tool string)) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "calls")
	e = open(t, map[string][]string{"x": {"--era", "legacy", "--calls-file", file}}, nil)
	return e, func(tool string) {
		t.Helper()
		until(t, tool+" is called", func() bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), quoted(tool))
		})
	}
}

// Calls to a server that asks take turns by client, in the order in which they
// came; where the server may have more instances they need not wait.
func TestTurnsOfClients(t *testing.T) {
	t.Parallel()
	for name, instances := range map[string]int{"one instance": 1, "two instances": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := limited(t, "legacy", map[string]any{"maxInstances": instances})
			hold := make(chan struct{})
			a := connectClient(t, e, &asked{caps: allCapabilities, reply: func(q rpcLine) string {
				if strings.Contains(string(q.Params), "hold") {
					<-hold
				}
				return person(q)
			}})
			b := connectClient(t, e, &asked{caps: allCapabilities, reply: person})
			a.call("x", "elicit", `{"message":"first"}`)
			_, first := a.begin("tools/call", callOf("x", "elicit", `{"message":"hold"}`))
			until(t, "the question comes", func() bool { return a.questions() == 2 })
			_, second := b.begin("tools/call", callOf("x", "elicit", `{"message":"second"}`))
			if instances > 1 {
				b.await(second)
				if len(first) != 0 {
					t.Error("the first call was answered too early")
				}
				close(hold)
				a.await(first)
				return
			}
			waits := func(what string, answer chan rpcLine) {
				t.Helper()
				select {
				case l := <-answer:
					t.Errorf("%s did not wait: %s", what, l.Result)
				case <-time.After(300 * time.Millisecond):
				}
			}
			waits("another client's call", second)
			_, third := a.begin("tools/call", callOf("x", "echo", `{"text":"third"}`))
			waits("a later call of the first client", third)
			close(hold)
			for _, answer := range []chan rpcLine{first, second, third} {
				if l := a.await(answer); l.Result == nil || strings.Contains(string(l.Result), `"error"`) {
					t.Errorf("%s %s", l.Result, l.Error)
				}
			}
		})
	}
}
