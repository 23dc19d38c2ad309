package telemetry_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/metamcp/metamcp/integration/telemetry/fakeotlp"
	"github.com/metamcp/metamcp/messages"
)

var stdio = messages.Sending{Instance: 4, Era: messages.EraLegacy, Transport: messages.TransportStdio}

// byKind finds the spans of one kind.
func byKind(spans []*tracepb.Span, kind tracepb.Span_SpanKind) []*tracepb.Span {
	var out []*tracepb.Span
	for _, s := range spans {
		if s.GetKind() == kind {
			out = append(out, s)
		}
	}
	return out
}

// What a client speaks over has nothing to do with how its server is reached.
func TestTransportOfTheClient(t *testing.T) {
	for over, want := range map[messages.Transport]string{messages.TransportStdio: "pipe", messages.TransportHTTP: "tcp"} {
		t.Run(string(over), func(t *testing.T) {
			tel, c, _ := collected(t)
			call := newCall(1, "files", "read")
			tel.BeginRequest(call, incoming, messages.EraLegacy, over)
			call.Sending.Sending(stdio)
			tel.Ended(call, &messages.Answer{Result: []byte(`{}`)}, "ok", time.Millisecond)
			tel.BeginScriptRequest(incoming, over, 2).End("ok")
			tel.BeginProvisionRequest(incoming, over, 3).End("local", "ok")
			end(t, tel)
			spans := byKind(c.Spans(), tracepb.Span_SPAN_KIND_SERVER)
			if len(spans) != 3 {
				t.Errorf("%d requests", len(spans))
			}
			for _, s := range spans {
				if got := fakeotlp.Attributes(s.GetAttributes())["network.transport"]; got != want {
					t.Errorf("%s came over %v, want %s", s.GetName(), got, want)
				}
			}
			points := c.Metrics()["mcp.server.operation.duration"].GetHistogram().GetDataPoints()
			if len(points) != 1 || fakeotlp.Attributes(points[0].GetAttributes())["network.transport"] != want {
				t.Errorf("the histogram has %v, want %s", points, want)
			}
		})
	}
}

func TestSpansOfCalls(t *testing.T) {
	base := map[string]any{
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "mcp_call", "network.transport": "pipe",
		"metamcp.request.id": int64(7), "metamcp.request.size": int64(22), "metamcp.retries": int64(0), "metamcp.response.size": int64(0),
	}
	tests := []struct {
		name         string
		server, tool string
		attempts     int
		answer       messages.Answer
		outcome      string
		want         map[string]any // beside base
		errorType    string
	}{
		{"success", "files", "read", 1, messages.Answer{Result: []byte(`{"content":[]}`)}, "ok",
			map[string]any{"metamcp.response.size": int64(14), "metamcp.server.name": "files", "metamcp.tool.name": "read"}, ""},
		{"retried", "files", "read", 2, messages.Answer{Result: []byte(`{}`)}, "ok",
			map[string]any{"metamcp.response.size": int64(2), "metamcp.retries": int64(1), "metamcp.server.name": "files", "metamcp.tool.name": "read"}, ""},
		{"error of the tool", "files", "write", 1, messages.Answer{Result: []byte(`{"isError":true}`)}, "tool-error",
			map[string]any{"metamcp.response.size": int64(16), "metamcp.server.name": "files", "metamcp.tool.name": "write"}, "tool_error"},
		{"JSON-RPC error", "files", "write", 1, messages.Answer{RPCError: []byte(`{"code":-32602,"message":"hunter2 is wrong"}`)}, "rpc-error",
			map[string]any{"metamcp.response.size": int64(44), "metamcp.server.name": "files", "metamcp.tool.name": "write", "rpc.response.status_code": "-32602"}, "-32602"},
		{"error of ours", "files", "write", 1, messages.Answer{Err: &messages.Error{Code: messages.CodeExecutionTimeout, Message: "hunter2"}}, string(messages.CodeExecutionTimeout),
			map[string]any{"metamcp.server.name": "files", "metamcp.tool.name": "write"}, string(messages.CodeExecutionTimeout)},
		{"no such tool", "files", "hunter2", 0, messages.Answer{Err: &messages.Error{Code: messages.CodeToolNotFound}}, string(messages.CodeToolNotFound),
			map[string]any{"metamcp.server.name": "files"}, string(messages.CodeToolNotFound)},
		{"no such server", "hunter2", "read", 0, messages.Answer{Err: &messages.Error{Code: messages.CodeServerNotFound}}, string(messages.CodeServerNotFound),
			nil, string(messages.CodeServerNotFound)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tel, c, _ := collected(t)
			call := newCall(7, tt.server, tt.tool)
			tel.BeginRequest(call, incoming, messages.EraLegacy, messages.TransportStdio)
			var sent []string
			for n := range tt.attempts {
				to := stdio
				to.Attempt = uint8(n)
				sent = append(sent, string(call.Sending.Sending(to)))
			}
			tel.Ended(call, &tt.answer, tt.outcome, 5*time.Millisecond)
			end(t, tel)

			spans := c.Spans()
			if len(spans) != 1+tt.attempts {
				t.Fatalf("%d spans came, not %d:\n%s", len(spans), 1+tt.attempts, c.Text())
			}
			request := byKind(spans, tracepb.Span_SPAN_KIND_SERVER)[0]
			want := maps.Clone(base)
			maps.Copy(want, tt.want)
			want["metamcp.outcome"] = tt.outcome
			if tt.errorType != "" {
				want["error.type"] = tt.errorType
			}
			if got := fakeotlp.Attributes(request.GetAttributes()); !maps.Equal(got, want) {
				t.Errorf("attributes of the request:\n%v\nwant\n%v", got, want)
			}
			if request.GetName() != "tools/call mcp_call" {
				t.Errorf("the request is called %q", request.GetName())
			}
			if got := hex.EncodeToString(request.GetTraceId()) + " " + hex.EncodeToString(request.GetParentSpanId()); got != traceID+" "+parentID {
				t.Errorf("trace and parent of the request are %s", got)
			}
			if failed := request.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR; failed != (tt.errorType != "") {
				t.Errorf("status of the request: %v", request.GetStatus())
			}
			for n, attempt := range byKind(spans, tracepb.Span_SPAN_KIND_CLIENT) {
				got := fakeotlp.Attributes(attempt.GetAttributes())
				if !bytes.Equal(attempt.GetParentSpanId(), request.GetSpanId()) || attempt.GetName() != "tools/call "+tt.tool {
					t.Errorf("attempt %d is %q below %x, not below the request %x", n, attempt.GetName(), attempt.GetParentSpanId(), request.GetSpanId())
				}
				wantError, last := any("connection_lost"), n == tt.attempts-1
				if last {
					wantError = tt.errorType
				}
				if got["error.type"] == nil {
					got["error.type"] = ""
				}
				if got["metamcp.server.name"] != tt.server || got["gen_ai.tool.name"] != tt.tool || got["jsonrpc.request.id"] != "7" ||
					got["metamcp.attempt"] != int64(n) || got["metamcp.instance"] != int64(4) || got["error.type"] != wantError {
					t.Errorf("attributes of attempt %d: %v", n, got)
				}
				meta := metaOf(t, sent[n])
				if want := "00-" + traceID + "-" + hex.EncodeToString(attempt.GetSpanId()) + "-01"; meta["traceparent"] != want ||
					meta["tracestate"] != "rojo=00f067aa0ba902b7" || meta["baggage"] != "user=alice" {
					t.Errorf("attempt %d carried %v; want the span %s", n, meta, want)
				}
			}
			if strings.Contains(c.Text(), "hunter2") {
				t.Errorf("a secret is in what was exported:\n%s", c.Text())
			}
		})
	}
}

// metaOf reads members of a _meta.
func metaOf(t *testing.T, members string) map[string]any {
	t.Helper()
	var meta map[string]any
	if err := json.Unmarshal([]byte("{"+members+"}"), &meta); err != nil {
		t.Fatalf("the members of _meta are no JSON: %v: %s", err, members)
	}
	return meta
}

func TestBrokenTraceContextsStartATrace(t *testing.T) {
	for _, tc := range []messages.TraceContext{
		{}, {Parent: quoted("00-" + traceID)}, {Parent: quoted(strings.ToUpper(parent))}, {State: quoted("a=b")}, {Parent: json.RawMessage(`"\u00"`)},
	} {
		t.Run(string(tc.Parent), func(t *testing.T) {
			tel, c, _ := collected(t)
			call := newCall(1, "files", "read")
			tel.BeginRequest(call, tc, messages.EraModern, messages.TransportStdio)
			meta := metaOf(t, string(call.Sending.Sending(stdio)))
			tel.Ended(call, &messages.Answer{Result: []byte("{}")}, "ok", time.Millisecond)
			end(t, tel)
			request := byKind(c.Spans(), tracepb.Span_SPAN_KIND_SERVER)[0]
			if len(request.GetParentSpanId()) != 0 {
				t.Errorf("the request has a parent: %x", request.GetParentSpanId())
			}
			if !trace.SpanContextFromContext(context.Background()).IsValid() && !strings.Contains(meta["traceparent"].(string), hex.EncodeToString(request.GetTraceId())) {
				t.Errorf("the child was told of %v, not of trace %x", meta, request.GetTraceId())
			}
		})
	}
}

// A span that its client does not sample is not exported, and the child is
// told the same.
func TestSampling(t *testing.T) {
	tests := []struct {
		name  string
		flags string
		vars  []string
		want  int
	}{
		{"the client samples", "01", nil, 2},
		{"the client does not", "00", nil, 0},
		{"always on", "00", []string{"OTEL_TRACES_SAMPLER=always_on"}, 2},
		{"always off", "01", []string{"OTEL_TRACES_SAMPLER=always_off"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tel, c, _ := collected(t, tt.vars...)
			call := newCall(1, "files", "read")
			tel.BeginRequest(call, messages.TraceContext{Parent: quoted(strings.TrimSuffix(parent, "01") + tt.flags)}, messages.EraLegacy, messages.TransportStdio)
			meta := metaOf(t, string(call.Sending.Sending(stdio)))
			tel.Ended(call, &messages.Answer{Result: []byte("{}")}, "ok", time.Millisecond)
			end(t, tel)
			if got := len(c.Spans()); got != tt.want {
				t.Errorf("%d spans came, not %d", got, tt.want)
			}
			flags := "00"
			if tt.want > 0 {
				flags = "01"
			}
			if got, _ := meta["traceparent"].(string); !strings.HasPrefix(got, "00-"+traceID) || !strings.HasSuffix(got, flags) {
				t.Errorf("the child was told %q", got)
			}
		})
	}
}

func TestCallsOfAGoProgram(t *testing.T) {
	id, _ := trace.TraceIDFromHex(traceID)
	span, _ := trace.SpanIDFromHex(parentID)
	member, err := baggage.NewMember("user", "alice")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled}))
	ctx = baggage.ContextWithBaggage(ctx, bag)

	t.Run("off", func(t *testing.T) {
		noLeaks(t)
		environment(t)
		tel := newHost().start(t)
		call := newCall(1, "files", "read")
		tel.BeginCall(ctx, call)
		if meta := metaOf(t, string(call.Sending.Sending(stdio))); meta["traceparent"] != parent || meta["baggage"] != "user=alice" {
			t.Errorf("the child was told %v", meta)
		}
		plain := newCall(2, "files", "read")
		tel.BeginCall(t.Context(), plain)
		if plain.Sending != nil {
			t.Error("a call without a span costs something")
		}
	})
	t.Run("on", func(t *testing.T) {
		tel, c, _ := collected(t)
		call := newCall(1, "files", "read")
		tel.BeginCall(ctx, call)
		meta := metaOf(t, string(call.Sending.Sending(stdio)))
		tel.Ended(call, &messages.Answer{Result: []byte("{}")}, "ok", time.Millisecond)
		end(t, tel)
		own := byKind(c.Spans(), tracepb.Span_SPAN_KIND_INTERNAL)
		if len(own) != 1 || own[0].GetName() != "execute_tool read" || hex.EncodeToString(own[0].GetParentSpanId()) != parentID {
			t.Fatalf("spans:\n%s", c.Text())
		}
		client := byKind(c.Spans(), tracepb.Span_SPAN_KIND_CLIENT)[0]
		if meta["traceparent"] != "00-"+traceID+"-"+hex.EncodeToString(client.GetSpanId())+"-01" || meta["baggage"] != "user=alice" {
			t.Errorf("the child was told %v", meta)
		}
		if c.Metrics()["metamcp.call.duration"] == nil {
			t.Error("the call was not counted")
		}
	})
}

func TestOffPassesOnWhatCame(t *testing.T) {
	noLeaks(t)
	environment(t)
	tests := []struct {
		tc   messages.TraceContext
		want string
	}{
		{messages.TraceContext{}, ""},
		{incoming, `"traceparent":"` + parent + `","tracestate":"rojo=00f067aa0ba902b7","baggage":"user=alice"`},
		{messages.TraceContext{Baggage: quoted(`a=\u0062`)}, `"baggage":"a=\u0062"`},
		{messages.TraceContext{Parent: quoted("99-future"), Baggage: quoted("x")}, `"traceparent":"99-future","baggage":"x"`},
	}
	tel := newHost().start(t)
	for _, tt := range tests {
		call := newCall(1, "files", "read")
		tel.BeginRequest(call, tt.tc, messages.EraModern, messages.TransportStdio)
		got := ""
		if call.Sending != nil {
			got = string(call.Sending.Sending(stdio))
		}
		if got != tt.want {
			t.Errorf("%v: the child is told %s, not %s", tt.tc, got, tt.want)
		}
		tel.Ended(call, &messages.Answer{Result: []byte("{}")}, "ok", time.Millisecond)
	}
	if tel.Exporting() {
		t.Error("something is exported")
	}
}

// A call that was answered before it reached its child has one end.
func TestSendingAfterTheEnd(t *testing.T) {
	tel, c, _ := collected(t)
	call := newCall(1, "files", "read")
	tel.BeginRequest(call, incoming, messages.EraLegacy, messages.TransportStdio)
	gone := &messages.Answer{Err: &messages.Error{Code: messages.CodeCancelled}}
	tel.Ended(call, gone, string(messages.CodeCancelled), time.Millisecond)
	if meta := metaOf(t, string(call.Sending.Sending(stdio))); !strings.HasPrefix(meta["traceparent"].(string), "00-"+traceID) {
		t.Errorf("the child was told %v", meta)
	}
	tel.Ended(call, gone, string(messages.CodeCancelled), time.Millisecond)
	end(t, tel)
	if spans := c.Spans(); len(spans) != 1 {
		t.Errorf("%d spans came, not 1", len(spans))
	}
}
