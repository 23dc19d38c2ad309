package telemetry_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/metamcp/metamcp/integration/telemetry/fakeotlp"
	"github.com/metamcp/metamcp/messages"
)

// Requests that are no calls of tools have spans under their own method, and say
// nothing of tools.
func TestSpansOfPassedRequests(t *testing.T) {
	for _, tt := range []struct {
		method, params, name, said, prompt string
	}{
		{"resources/read", `{"uri":"file:///hunter2"}`, "resources/read", "resources/read", ""},
		{"prompts/get", `{"name":"greet","arguments":{"who":"hunter2"}}`, "prompts/get greet", "prompts/get", "greet"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"hunter2"}}`, "completion/complete", "completion/complete", ""},
		{"tasks/hunter2", `{"taskId":"1"}`, "_OTHER", "_OTHER", ""},
	} {
		t.Run(tt.method, func(t *testing.T) {
			tel, c, _ := collected(t)
			call := &messages.Call{Meta: messages.Meta{Trace: 7, Session: 1}, ID: 7, Server: "files", Method: tt.method, Params: json.RawMessage(tt.params)}
			tel.BeginRequest(call, incoming, messages.EraLegacy, messages.TransportStdio)
			call.Sending.Sending(stdio)
			tel.Ended(call, &messages.Answer{Result: []byte(`{}`)}, "ok", time.Millisecond)
			end(t, tel)
			want := map[string]any{
				"mcp.method.name": tt.said, "network.transport": "pipe", "metamcp.request.id": int64(7), "metamcp.outcome": "ok",
				"metamcp.request.size": int64(len(tt.params)), "metamcp.retries": int64(0), "metamcp.response.size": int64(2), "metamcp.server.name": "files",
			}
			if tt.prompt != "" {
				want["gen_ai.prompt.name"] = tt.prompt
			}
			request, attempt := byKind(c.Spans(), tracepb.Span_SPAN_KIND_SERVER)[0], byKind(c.Spans(), tracepb.Span_SPAN_KIND_CLIENT)[0]
			if got := fakeotlp.Attributes(request.GetAttributes()); !maps.Equal(got, want) {
				t.Errorf("attributes of the request:\n%v\nwant\n%v", got, want)
			}
			got := fakeotlp.Attributes(attempt.GetAttributes())
			if got["mcp.method.name"] != tt.said || got["gen_ai.tool.name"] != nil || got["gen_ai.operation.name"] != nil || tt.prompt != "" && got["gen_ai.prompt.name"] != tt.prompt {
				t.Errorf("attributes of the attempt: %v", got)
			}
			if request.GetName() != tt.name || attempt.GetName() != tt.name {
				t.Errorf("the spans are called %q and %q, want %q", request.GetName(), attempt.GetName(), tt.name)
			}
		})
	}
}
