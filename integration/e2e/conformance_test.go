package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// driverVariable makes this test binary the client that the conformance suite
// starts: it holds the path of metamcp.
const driverVariable = "METAMCP_TEST_CONFORMANCE_DRIVER"

// toolOfNobody is called where a scenario watches only what comes before a call.
const toolOfNobody = "tool-of-nobody"

// scenario is one of the suite's for clients: its server is the only child of
// metamcp.
type scenario struct {
	name     string
	revision string // "": the suite's default
	calls    []toolCall
	// known are checks that do not pass, with the reason.
	known []string
}

var scenarios = []scenario{
	{name: "initialize", calls: []toolCall{{toolOfNobody, `{}`}}},
	{name: "tools_call", calls: []toolCall{{"add_numbers", `{"a":5,"b":3}`}}},
	{name: "sse-retry", calls: []toolCall{{"test_reconnection", `{}`}}},
	{name: "tools_call", revision: "2026-07-28", calls: []toolCall{{"add_numbers", `{"a":5,"b":3}`}}},
	{name: "request-metadata", revision: "2026-07-28", calls: []toolCall{{toolOfNobody, `{}`}}},
	{name: "http-standard-headers", revision: "2026-07-28", calls: []toolCall{{"test_headers", `{}`}, {"my-hyphenated-tool", `{}`}}},
	// It has a null where the tool's schema wants a boolean, which metamcp
	// refuses before it sends anything.
	{name: "http-custom-headers", revision: "2026-07-28", known: []string{"sep-2243-client-omit-null"}},
	{name: "http-invalid-tool-headers", revision: "2026-07-28", calls: []toolCall{{"valid_tool", `{"region":"x"}`}}},
	{name: "json-schema-ref-no-deref", revision: "2026-07-28", calls: []toolCall{{toolOfNobody, `{}`}}},
}

// metamcp as a client of servers over HTTP does what the protocol's own suite
// asks of clients.
func TestConformanceAsAClient(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(strings.TrimSpace(s.name+" "+s.revision), func(t *testing.T) {
			t.Parallel()
			conform(t, s)
		})
	}
}

// conform runs one scenario.
func conform(t *testing.T, s scenario) {
	t.Helper()
	node, suite := npmservers.Conformance(t)
	dir := t.TempDir()
	calls, err := json.Marshal(lines(s.calls))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{suite, "client", "--command", os.Args[0], "--scenario", s.name, "-o", dir, "--timeout", "120000"}
	if s.revision != "" {
		args = append(args, "--spec-version", s.revision)
	}
	if len(s.known) > 0 {
		file := filepath.Join(dir, "known.yml")
		text := "client:\n"
		for _, k := range s.known {
			text += "  - " + s.name + ":" + k + "\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--expected-failures", file)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), driverVariable+"="+testkit.Binary(t), driverVariable+"_CALLS="+string(calls), driverVariable+"_DIR="+dir,
		"DBUS_SESSION_BUS_ADDRESS=", "XDG_RUNTIME_DIR=") // tokens belong into no keyring here
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("SUCCESS")) && s.name != "initialize" || bytes.Contains(out, []byte("WARNING")) {
		said, _ := os.ReadFile(filepath.Join(dir, "driver.log"))
		t.Errorf("%v\n%s\n%s", err, out, said)
	}
}

func lines(calls []toolCall) [][2]string {
	out := make([][2]string, len(calls))
	for i, c := range calls {
		out[i] = [2]string{c.tool, c.args}
	}
	return out
}

// driveConformance is what the suite starts, with the address of its server as
// the last argument: one metamcp for each call. What they answer is the suite's
// to judge, from what its server was sent.
func driveConformance(metamcp string) int {
	dir, url := os.Getenv(driverVariable+"_DIR"), os.Args[len(os.Args)-1]
	log, err := os.Create(filepath.Join(dir, "driver.log"))
	if err != nil {
		return 1
	}
	defer func() { _ = log.Close() }()
	calls, err := callsToDrive()
	if err != nil {
		_, _ = fmt.Fprintln(log, err)
		return 1
	}
	entry := map[string]any{"url": url}
	if o := oauthToDrive(); o != nil {
		entry["oauth"] = o
	}
	cfg, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"suite": entry}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "mcp.json"), cfg, 0o600)
	}
	if err != nil {
		_, _ = fmt.Fprintln(log, err)
		return 1
	}
	flags := []string{"--config", filepath.Join(dir, "mcp.json"), "--state-dir", filepath.Join(dir, "state")}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, c := range calls {
		const most = 4 // logins of one call, more than it may want
		for range most {
			out, err := exec.CommandContext(ctx, metamcp, append([]string{"call", "suite", c[0], c[1]}, flags...)...).CombinedOutput()
			_, _ = fmt.Fprintf(log, "%s %s: %v\n%s\n", c[0], c[1], err, out)
			if !bytes.Contains(out, []byte("metamcp auth login")) {
				break
			}
			if err := logIn(ctx, metamcp, flags, log); err != nil {
				_, _ = fmt.Fprintln(log, "no login:", err)
				break
			}
		}
	}
	return 0
}

// callsToDrive are the test's own, or those that the suite wants.
func callsToDrive() ([][2]string, error) {
	var calls [][2]string
	if err := json.Unmarshal([]byte(os.Getenv(driverVariable+"_CALLS")), &calls); err != nil || len(calls) > 0 {
		return calls, err
	}
	var wanted struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if err := json.NewDecoder(strings.NewReader(os.Getenv("MCP_CONFORMANCE_CONTEXT"))).Decode(&wanted); err != nil {
		return nil, err
	}
	for _, w := range wanted.ToolCalls {
		calls = append(calls, [2]string{w.Name, string(w.Arguments)})
	}
	return calls, nil
}
