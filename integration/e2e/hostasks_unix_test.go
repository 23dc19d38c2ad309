//go:build unix

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// An answer of the user reaches the question that it was given to, and no other:
// not while a host hands over to the next one, and not after a host was killed.
func TestAnswersAfterAHostHasGone(t *testing.T) {
	p := newPlace(t, demos(t, 2), nil)
	if _, err := p.shell("host", "start"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.shell("host", "stop", "--now") })
	c := p.attached()
	if _, failure := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"e2e","version":"1"}}`); failure != nil {
		t.Fatalf("initialize: %s", failure)
	}
	c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))

	first, firstAsk := c.elicits("d0", "first")
	before := p.pid()
	restart := p.run("host", "restart")
	testkit.Eventually(t, patience, func() error {
		if now := p.pid(); now == before {
			return fmt.Errorf("the host is still %d", now)
		}
		return nil
	})
	second, secondAsk := c.elicits("d1", "second")
	c.accepts(secondAsk, "to the second")
	c.holds(second, "to the second")
	c.accepts(firstAsk, "to the first")
	c.holds(first, "to the first")
	if code := restart.Wait(t, patience); code != 0 {
		t.Errorf("the restart ended with status %d", code)
	}

	lost, lostAsk := c.elicits("d0", "of a host that is killed")
	if err := syscall.Kill(p.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.holds(lost, "HOST_AWAY")
	if _, err := p.shell("host", "start"); err != nil {
		t.Fatal(err)
	}
	next, nextAsk := c.elicits("d1", "of the host after it")
	c.accepts(lostAsk, "too late")
	c.accepts(nextAsk, "in time")
	c.holds(next, "in time")
}

func (p *place) pid() int {
	p.t.Helper()
	var pid int
	testkit.Eventually(p.t, patience, func() error {
		st, err := p.status()
		if err == nil {
			pid = st.PID
		}
		return err
	})
	return pid
}

// elicits makes a call that asks its client; ask is the id of the question.
func (c *client) elicits(server, message string) (call string, ask json.RawMessage) {
	c.t.Helper()
	call = c.start(server, "elicit", `{"message":"`+message+`"}`)
	var q testkit.Line
	raw, err := c.Match(patience, func(l testkit.Line) bool { return l.Method == "elicitation/create" && l.ID != nil })
	if err == nil {
		err = json.Unmarshal(raw, &q)
	}
	if err != nil || !bytes.Contains(raw, []byte(message)) {
		c.t.Fatalf("instead of the question %q the client got %s (%v)", message, raw, err)
	}
	return call, q.ID
}

func (c *client) accepts(ask json.RawMessage, content string) {
	c.Send([]byte(`{"jsonrpc":"2.0","id":` + string(ask) + `,"result":{"action":"accept","content":{"name":"` + content + `"}}}`))
}

func (c *client) holds(call, text string) {
	c.t.Helper()
	if result := c.resultOf(call); !bytes.Contains(result, []byte(text)) {
		c.t.Errorf("the call is answered with %.600s, without %q", result, text)
	}
}
