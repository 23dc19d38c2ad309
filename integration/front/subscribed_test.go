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
	begun chan subscribing
	ended chan struct{}
}

// subscribing is a subscription that is not done yet.
type subscribing struct {
	to   Updates
	done func(err *messages.Error)
}

func (s *slowServers) Tool(string) (server, tool string, ok bool) { return "", "", false }
func (s *slowServers) Takes(string, string, messages.Era) bool    { return false }
func (s *slowServers) Ask(Ask)                                    {}
func (s *slowServers) Carried(string, json.RawMessage)            {}
func (s *slowServers) Unsubscribe(Updates)                        { s.ended <- struct{}{} }
func (s *slowServers) Subscribe(_ uint64, _ string, to Updates, done func(err *messages.Error)) {
	s.begun <- subscribing{to, done}
}

// A subscription that is made when its client has given it up already is ended.
func TestSubscriptionThatWasGivenUp(t *testing.T) {
	servers := &slowServers{make(chan subscribing, 1), make(chan struct{}, 8)}
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
	done := (<-servers.begun).done
	s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	ends("with its request")
	done(nil)
	ends("once it is made")
	s.endsClean()
	if len(servers.ended) > 0 {
		t.Error("it is ended more often")
	}
}

// What changes while further resources are still being subscribed to comes behind the
// acknowledgement, once for each thing.
func TestChangesBeforeTheAcknowledgement(t *testing.T) {
	servers := &slowServers{make(chan subscribing, 1), make(chan struct{}, 8)}
	lists := server.NewMCPServer("metamcp", "1", server.WithToolCapabilities(true), server.WithResourceCapabilities(true, true))
	s := start(t, Options{MCP: lists, Passed: servers})
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	s.send(`{"jsonrpc":"2.0","id":"one","method":"subscriptions/listen","params":{` + modern + `,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a://1","a://2"]}}}`)
	first := <-servers.begun
	first.done(nil)
	second := <-servers.begun
	for range 3 {
		first.to.Updated("a://1", json.RawMessage(`{"uri":"a://1"}`))
		lists.SendNotificationToAllClients(mcp.MethodNotificationToolsListChanged, nil)
	}
	// Its answer comes behind what was told before it, and these have to wait.
	s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + modern + `}}`)
	if line := s.recv(); !strings.Contains(line, `"id":2`) {
		t.Errorf("before the acknowledgement came %s", line)
	}
	second.done(nil)
	if line := s.recv(); !strings.Contains(line, "subscriptions/acknowledged") {
		t.Errorf("first came %s", line)
	}
	got := s.recv() + s.recv()
	for _, want := range []string{`"method":"notifications/resources/updated"`, `"uri":"a://1"`, `"method":"notifications/tools/list_changed"`} {
		if strings.Count(got, want) != 1 {
			t.Errorf("behind the acknowledgement came %s; want %s once", got, want)
		}
	}
	second.to.Updated("a://2", json.RawMessage(`{"uri":"a://2"}`))
	if line := s.recv(); !strings.Contains(line, `"uri":"a://2"`) {
		t.Errorf("then came %s", line)
	}
	if rest, err := s.end(); err != nil || len(rest) != 1 || !strings.Contains(rest[0], `"id":"one","result":{`) {
		t.Errorf("the end: %v, %q", err, rest)
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
