package front

import (
	"encoding/json"
	"testing"
	"time"

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
