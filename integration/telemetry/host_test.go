package telemetry_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/telemetry/fakeotlp"
	"github.com/metamcp/metamcp/integration/testkit"
)

const secret = "s3cr3t-v4lue-of-a-test"

// running is a real host with a client.
type running struct {
	*testkit.Process
	lines *testkit.Lines
	last  int
}

// startHost starts a host with one demo server, which has the secret in its
// environment.
func startHost(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	environment(t)
	demo := testkit.DemoServer(t)
	demo["env"] = map[string]string{"DEMO_TOKEN": secret}
	demo["retry"] = "always"
	p := testkit.StartHost(t, testkit.Host{
		Servers: map[string]map[string]any{"demo": demo}, Env: env,
		Args: append([]string{"--log-level", "debug", "--log-format", "json"}, args...),
	})
	r := &running{Process: p, lines: p.Lines(t)}
	r.lines.Handshake()
	return r
}

// call calls a tool of the demo server with members of a _meta, and returns the
// answer.
func (r *running) call(t *testing.T, tool, args, meta string) string {
	t.Helper()
	r.last++
	result, failure := r.lines.Call(strconv.Itoa(r.last), "tools/call",
		`{"name":"mcp_call","arguments":{"server":"demo","tool":"`+tool+`","args":`+args+`},"_meta":{`+meta+`}}`)
	return string(result) + string(failure)
}

// childMeta is the _meta that a call with the given one has at the child.
func (r *running) childMeta(t *testing.T, meta string) map[string]any {
	t.Helper()
	answer := r.call(t, "meta", "{}", meta)
	var result struct {
		Content []struct{ Text string }
	}
	out := map[string]any{}
	if err := json.Unmarshal([]byte(answer), &result); err != nil || len(result.Content) != 1 || json.Unmarshal([]byte(result.Content[0].Text), &out) != nil {
		t.Fatalf("the tool meta answered %s", answer)
	}
	return out
}

// stop ends the host in the way a client does.
func (r *running) stop(t *testing.T) {
	t.Helper()
	r.CloseStdin()
	if code := r.Wait(t, wait); code != 0 {
		t.Errorf("the host ended with %d; the end of its log:\n%s", code, r.Stderr)
	}
}

const traced = `"traceparent":"` + parent + `","tracestate":"rojo=00f067aa0ba902b7","baggage":"user=alice"`

func TestTraceContextPassesAHostWithoutTelemetry(t *testing.T) {
	r := startHost(t, nil)
	meta := r.childMeta(t, traced)
	if meta["traceparent"] != parent || meta["tracestate"] != "rojo=00f067aa0ba902b7" || meta["baggage"] != "user=alice" {
		t.Errorf("the child got %v", meta)
	}
	for _, none := range []string{"", `"traceparent":7,"baggage":{}`, `"traceparent":"` + strings.Repeat("0", 300) + `"`} {
		meta = r.childMeta(t, none)
		if meta["traceparent"] != nil || meta["baggage"] != nil || meta["progressToken"] == nil {
			t.Errorf("with %.40s the child got %v", none, meta)
		}
	}
	big := `{"text":"` + strings.Repeat("x", 100_000) + `"}` // takes another way to the child
	if answer := r.call(t, "echo", big, traced); !strings.Contains(answer, "xxx") {
		t.Errorf("a large call: %.200s", answer)
	}
	r.stop(t)
}

func TestHostExportsItsCalls(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *fakeotlp.Collector{"http": fakeotlp.Start, "grpc": fakeotlp.StartGRPC} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			protocol := map[string]string{"http": "http/protobuf", "grpc": "grpc"}[name]
			r := startHost(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_BSP_SCHEDULE_DELAY=20"})
			meta := r.childMeta(t, traced)
			args := `{"text":"` + secret + `","message":"` + secret + `","name":"DEMO_TOKEN"}`
			for _, tool := range []string{"echo", "fail", "refuse", "env", secret} {
				r.call(t, tool, args, "")
			}
			r.call(t, "add", `{"a":"`+secret+`","b":1}`, "") // does not fit the schema
			r.call(t, "crash", `{"code":3}`, "")             // twice
			r.stop(t)

			spans := c.Spans()
			of := func(id []byte) *tracepb.Span {
				i := slices.IndexFunc(spans, func(s *tracepb.Span) bool { return bytes.Equal(s.GetSpanId(), id) })
				if i < 0 {
					t.Fatalf("there is no span %x:\n%s", id, c.Text())
				}
				return spans[i]
			}
			told := strings.Split(fmt.Sprint(meta["traceparent"]), "-")
			if len(told) != 4 || told[1] != traceID {
				t.Fatalf("the child was told %v", meta)
			}
			id, _ := hex.DecodeString(told[2])
			client := of(id)
			server := of(client.GetParentSpanId())
			if client.GetKind() != tracepb.Span_SPAN_KIND_CLIENT || server.GetKind() != tracepb.Span_SPAN_KIND_SERVER || hex.EncodeToString(server.GetParentSpanId()) != parentID {
				t.Errorf("the child's parent is\n%v\nbelow\n%v", client, server)
			}
			if meta["tracestate"] != "rojo=00f067aa0ba902b7" || meta["baggage"] != "user=alice" {
				t.Errorf("the child was told %v", meta)
			}
			var crashed []string
			for _, s := range byKind(spans, tracepb.Span_SPAN_KIND_CLIENT) {
				attrs := fakeotlp.Attributes(s.GetAttributes())
				if of(s.GetParentSpanId()).GetKind() != tracepb.Span_SPAN_KIND_SERVER {
					t.Errorf("the parent of %v is no request", s)
				}
				if attrs["gen_ai.tool.name"] == "crash" {
					crashed = append(crashed, fmt.Sprint(attrs["error.type"]))
				}
			}
			if fmt.Sprint(crashed) != "[connection_lost TOOL_EXECUTION_ERROR]" {
				t.Errorf("the attempts at a call that crashes its server ended with %v", crashed)
			}
			outcomes := map[any]any{}
			for _, s := range byKind(spans, tracepb.Span_SPAN_KIND_SERVER) {
				attrs := fakeotlp.Attributes(s.GetAttributes())
				outcomes[attrs["metamcp.tool.name"]] = attrs["metamcp.outcome"]
			}
			want := map[any]any{
				"meta": "ok", "echo": "ok", "fail": "tool-error", "refuse": "rpc-error", "env": "ok", nil: "TOOL_NOT_FOUND",
				"add": "VALIDATION_ERROR", "crash": "TOOL_EXECUTION_ERROR",
			}
			if fmt.Sprint(outcomes) != fmt.Sprint(want) {
				t.Errorf("outcomes are %v, not %v", outcomes, want)
			}
			metrics := c.Metrics()
			number := func(name string) float64 {
				if p := points(metrics[name]); len(p) == 1 {
					return p[0].GetAsDouble()
				}
				t.Errorf("%s: %v", name, metrics[name])
				return 0
			}
			if calls, spawns, exits, retries := number("metamcp.calls"), number("metamcp.server.spawns"), number("metamcp.server.exits"), number("metamcp.server.retries"); calls != 8 || spawns < 2 || exits != spawns || retries != 1 {
				t.Errorf("%v calls, %v spawns, %v exits, %v retries", calls, spawns, exits, retries)
			}
			if strings.Contains(c.Text(), secret) {
				t.Errorf("a secret was exported:\n%s", c.Text())
			}
			if r.Stderr.Contains(secret) {
				t.Errorf("a secret is in the log:\n%s", r.Stderr)
			}
			logIsJSON(t, r.Stderr.String())
		})
	}
}

// logIsJSON checks that each line of a log is one JSON object.
func logIsJSON(t *testing.T, log string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(log))
	n := 0
	for ; lines.Scan(); n++ {
		var record struct{ Level, Msg string }
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil || record.Level == "" || record.Msg == "" {
			t.Errorf("this is no line of a JSON log: %s", lines.Text())
		}
	}
	if n == 0 {
		t.Error("nothing was logged")
	}
}

// A host whose collector is away, or hangs, works and ends as always.
func TestHostWithABadCollector(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	hanging, _ := fakeotlp.StartHanging(t)
	for name, url := range map[string]string{"away": away, "hanging": hanging.URL, "nonsense": "::not a url"} {
		t.Run(name, func(t *testing.T) {
			r := startHost(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_METRIC_EXPORT_INTERVAL=10"})
			for range 20 {
				if answer := r.call(t, "echo", `{"text":"hello"}`, ""); !strings.Contains(answer, "hello") {
					t.Fatalf("a call: %s", answer)
				}
			}
			r.stop(t)
			for _, signal := range []string{"traces", "metrics"} {
				if n := strings.Count(r.Stderr.String(), `did not take what it was sent; calls are not affected","signal":"`+signal); n > 1 {
					t.Errorf("%d lines in the log about %s:\n%s", n, signal, r.Stderr)
				}
			}
			logIsJSON(t, r.Stderr.String())
		})
	}
}

// servedAt reads from the log where metrics are served.
func (r *running) servedAt(t *testing.T) string {
	t.Helper()
	url := ""
	testkit.Eventually(t, wait, func() error {
		for line := range strings.Lines(r.Stderr.String()) {
			var record struct{ Msg, URL string }
			if json.Unmarshal([]byte(line), &record) == nil && record.Msg == "metrics are served" {
				url = strings.TrimSuffix(record.URL, "/metrics")
				return nil
			}
		}
		return fmt.Errorf("the log does not say where metrics are served:\n%s", r.Stderr)
	})
	return url
}

func TestHostServesMetrics(t *testing.T) {
	r := startHost(t, nil, "--metrics", "0")
	url := r.servedAt(t)
	for range 3 {
		r.call(t, "echo", `{"text":"`+secret+`"}`, "")
	}
	r.call(t, "fail", `{"message":"`+secret+`"}`, "")
	r.call(t, "crash", `{}`, "")
	for _, path := range []string{"/healthz", "/readyz"} {
		if status, body := get(t, url+path, ""); status != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	status, body := get(t, url+"/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("/metrics: %d %s", status, body)
	}
	check(t, parse(t, strings.NewReader(body)), 3)
	if strings.Contains(body, secret) || r.Stderr.Contains(secret) {
		t.Errorf("a secret is in the metrics or the log")
	}

	// The control socket offers the same.
	r.AwaitControl(t)
	info, err := control.Find(r.StateDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := control.Dial(info)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	resp, err := c.Do(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	check(t, parse(t, resp.Body), 3)

	// A second host does without.
	second := startHost(t, nil, "--metrics", strings.TrimPrefix(url, "http://"))
	if answer := second.call(t, "echo", `{"text":"hello"}`, ""); !strings.Contains(answer, "hello") {
		t.Errorf("a host whose port is taken: %s", answer)
	}
	testkit.Eventually(t, wait, func() error {
		if !second.Stderr.Contains("address already in use") || !second.Stderr.Contains("choose another address with --metrics") {
			return fmt.Errorf("its log:\n%s", second.Stderr)
		}
		return nil
	})
	second.stop(t)
	r.stop(t)
}

func check(t *testing.T, f families, echoes float64) {
	t.Helper()
	if got := value(t, f, "metamcp_call_duration_seconds", "server", "demo", "tool", "echo", "outcome", "ok"); got != echoes {
		t.Errorf("%v calls of echo, not %v", got, echoes)
	}
	value(t, f, "metamcp_call_duration_seconds", "server", "demo", "tool", "fail", "outcome", "tool-error")
	if calls, failed := value(t, f, "metamcp_calls_total"), value(t, f, "metamcp_calls_failed_total"); calls != echoes+2 || failed != 1 {
		t.Errorf("%v calls, %v failed", calls, failed)
	}
	if spawns := value(t, f, "metamcp_server_spawns_total", "server", "demo"); spawns < 2 {
		t.Errorf("%v spawns", spawns)
	}
	if sessions := value(t, f, "metamcp_sessions"); sessions != 1 {
		t.Errorf("%v sessions", sessions)
	}
}

// An address that somebody else has is no reason to fail.
func TestMetricsAddressThatIsTaken(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken := l.Addr().String()
	r := startHost(t, nil, "--metrics", taken)
	if answer := r.call(t, "echo", `{"text":"hello"}`, ""); !strings.Contains(answer, "hello") {
		t.Errorf("a call: %s", answer)
	}
	r.stop(t)
	if !r.Stderr.Contains(taken) {
		t.Errorf("the log does not name the address:\n%s", r.Stderr)
	}
}

func TestWrongLogFormat(t *testing.T) {
	p := testkit.StartCommand(t, testkit.Command{Path: testkit.Binary(t), Args: []string{"--log-format", "xml"}})
	if _, err := io.Copy(io.Discard, p.Stdout(t)); err != nil {
		t.Fatal(err)
	}
	if code := p.Wait(t, wait); code != 2 || !p.Stderr.Contains("use text or json") {
		t.Errorf("it ended with %d and said %s", code, p.Stderr)
	}
}
