package front

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// failingServers have one tool, exposed as "exposed", and one resource, with which
// everything ends as the test says.
type failingServers struct{ answer *messages.Answer }

func (s *failingServers) Tool(name string) (server, tool string, ok bool) {
	return "s", "t", name == "exposed"
}

func (s *failingServers) Takes(method, _ string, _ messages.Era) bool {
	return method == "resources/read"
}
func (s *failingServers) Ask(a Ask)                       { s.reply(a.Request) }
func (s *failingServers) Carried(string, json.RawMessage) {}
func (s *failingServers) Unsubscribe(Updates)             {}
func (s *failingServers) Subscribe(_ uint64, _ string, _ Updates, done func(err *messages.Error)) {
	done(nil)
}

func (s *failingServers) reply(r Request) {
	own := *s.answer
	own.Call = r.Call
	r.Reply.Answer(&own)
}

// An error of a child's is between it and the client, whatever the request was and
// whatever the code means in HTTP: a layer that repeats a 429 or a 503 by itself must
// not repeat what the child has done. Errors of ours have their own status.
func TestHTTPErrorsOfChildren(t *testing.T) {
	t.Parallel()
	servers := &failingServers{}
	engine := &fakeEngine{call: servers.reply}
	f := startHTTP(t, HTTPOptions{Open: func(Principal) (Opened, error) {
		return Opened{Session: NextSession(), Engine: engine, Passed: servers, Ready: func(*Peer) {}, Close: func() {}}, nil
	}})
	requests := map[string]string{
		"tools/call mcp_call":    `{"name":"mcp_call","arguments":` + someCall,
		"tools/call exposed":     `{"name":"exposed","arguments":{}`,
		"resources/read file://": `{"uri":"file://"`,
	}
	status := func(request string) int {
		t.Helper()
		method, name, _ := strings.Cut(request, " ")
		r := f.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+requests[request]+`,`+modernMeta+`}}`, modernHeaders(method, name))
		if !strings.Contains(r.body, "broke") {
			t.Errorf("%s is answered with %s", request, r.body)
		}
		return r.StatusCode
	}
	for request := range requests {
		for _, code := range []int{codeTooMany, codeShuttingDown, codeInvalid, codeParse, codeParams, codeInternal, codeMismatch, codeUnsupported, -32601, 7} {
			servers.answer = &messages.Answer{RPCError: fmt.Appendf(nil, `{"code":%d,"message":"it broke"}`, code)}
			if got := status(request); got != http.StatusOK {
				t.Errorf("%s: the child's error %d is %d", request, code, got)
			}
		}
		servers.answer = &messages.Answer{RPCError: json.RawMessage(`{"code":-32021,"message":"it broke"}`)}
		if got := status(request); got != http.StatusBadRequest {
			t.Errorf("%s: a capability that the client lacks is %d", request, got)
		}
	}
	for code, want := range map[messages.Code]int{
		messages.CodePoolSaturated: http.StatusTooManyRequests, messages.CodeShuttingDown: http.StatusServiceUnavailable, messages.CodeServerNotFound: http.StatusBadRequest,
	} {
		servers.answer = &messages.Answer{Err: &messages.Error{Code: code, Message: "it broke"}}
		if got := status("resources/read file://"); got != want {
			t.Errorf("our error %s is %d, want %d", code, got, want)
		}
	}
}
