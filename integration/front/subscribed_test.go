package front

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

// slowServers have the subscriptions done when their test says so.
type slowServers struct {
	begun chan func(err *messages.Error)
	ended chan struct{}
}

func (s *slowServers) Tool(string) (server, tool string, ok bool) { return "", "", false }
func (s *slowServers) Takes(string, string, messages.Era) bool    { return false }
func (s *slowServers) Ask(Ask)                                    {}
func (s *slowServers) Carried(string, json.RawMessage)            {}
func (s *slowServers) Unsubscribe(Updates)                        { s.ended <- struct{}{} }
func (s *slowServers) Subscribe(_ uint64, _ string, _ Updates, done func(err *messages.Error)) {
	s.begun <- done
}

// A subscription that is made when its client has given it up already is ended.
func TestSubscriptionThatWasGivenUp(t *testing.T) {
	servers := &slowServers{make(chan func(err *messages.Error), 1), make(chan struct{}, 8)}
	ends := func(when string) {
		t.Helper()
		select {
		case <-servers.ended:
		case <-time.After(patience):
			t.Fatal("the subscription is not ended " + when)
		}
	}
	s := start(t, Options{MCP: server.NewMCPServer("metamcp", "1", server.WithResourceCapabilities(true, true)), Passed: servers})
	s.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"resourceSubscriptions":["a://b"]}}}`)
	done := <-servers.begun
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	ends("with its request")
	done(nil)
	ends("once it is made")
	s.endsClean()
	if len(servers.ended) > 0 {
		t.Error("it is ended more often")
	}
}

// lineSink keeps what is written to it.
type lineSink struct {
	sink
	lines []string
}

func (s *lineSink) Write(parts ...[]byte) error {
	line := ""
	for _, p := range parts {
		line += string(p)
	}
	s.lines = append(s.lines, line)
	return nil
}

// An update reaches its subscriber whatever the server has put into _meta.
func TestUpdatesWithOddMeta(t *testing.T) {
	for params, want := range map[string]string{
		`{"uri":"x","_meta":null}`:    `"uri":"x"`,
		`{"uri":"x","_meta":7}`:       `"uri":"x"`,
		`{"uri":"x","_meta":{"a":1}}`: `"a":1`,
		`null`:                        `"method":"` + methodUpdated + `"`,
	} {
		out := &lineSink{}
		l := &resourceListener{listener: newListener(&Peer{filters: map[*listener]mcp.SubscriptionFilter{}}, json.RawMessage(`"one"`), out)}
		l.acknowledged = true
		l.Updated("x", json.RawMessage(params))
		if len(out.lines) != 1 || !strings.Contains(out.lines[0], `"`+keySubscription+`":"one"`) || !strings.Contains(out.lines[0], want) {
			t.Errorf("%s: %q", params, out.lines)
		}
	}
}
