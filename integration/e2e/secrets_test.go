package e2e_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// What an entry says or shows is a secret does not come back out, neither
// in an error nor in a result nor on stderr nor in what is kept on disk, although the server
// prints it.
func TestSecretsAreScrubbed(t *testing.T) {
	t.Parallel()
	const key, token = "correct-horse-battery-staple-77", "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345"
	const told, filled, password, argument = "sk-verysecret-123456", "what-a-variable-held", "p4ssw0rd99", "behind-a-flag-1"
	env := map[string]string{
		"API_KEY": key, "GITHUB_TOKEN": token, "TOK": told, "VALUE": "${METAMCP_TEST_FILLED}", "DATABASE_URL": "postgres://u:" + password + "@h/db",
	}
	crash := testkit.DemoServer(t, "--tag", "--api-key="+argument, "--exit-at-start", "1", "--exit-text",
		"fatal: login with key "+strings.Join([]string{key, token, told, filled, password, argument}, " and ")+" failed")
	crash["env"] = env
	dies := testkit.DemoServer(t)
	dies["env"] = env
	dies["retry"] = "never"
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	p := testkit.StartHost(t, testkit.Host{
		Servers: servers{"crash": crash, "dies": dies}, Env: []string{"METAMCP_TEST_FILLED=" + filled},
		// Everything that could be seen of a host is on.
		Args: []string{"--log-level", "debug", "--trace=" + trace, "--trace-payloads", "--audit-plain-args"},
	})
	c := &client{Lines: p.Lines(t), p: p, t: t}
	// A client may send a secret in place of a name, too.
	if _, failure := c.Call(`"hello"`, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`+token+`","version":"`+key+`"}}`); failure != nil {
		t.Fatalf("initialize was refused: %s", failure)
	}
	c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	check := func(what string, text []byte) {
		t.Helper()
		for _, secret := range []string{key, token, token[:12], told, filled, password, argument} {
			if i := bytes.Index(text, []byte(secret)); i >= 0 {
				t.Errorf("%s holds a secret: …%s…", what, text[max(0, i-100):min(len(text), i+len(secret)+100)])
			}
		}
	}
	answer := c.call("crash", "echo", `{"text":"x"}`)
	if !strings.Contains(refusal(t, answer).String(), "login with key") {
		t.Errorf("the rest of what the server said is missing: %s", answer)
	}
	check("the error", answer)
	for range 6 { // until the circuit is open
		check("a later error", c.call("crash", "echo", `{"text":"x"}`))
	}
	c.call("dies", "stderr", `{"lines":1,"text":"my key is `+key+`, my token `+token+`, my others `+filled+` `+password+` `+told+`"}`)
	check("the error of a lost call", c.call("dies", "crash", `{}`))
	check("mcp_discover", c.resultOf(c.request("tools/call", toolParams("mcp_discover", `{}`))))
	check("a query", c.resultOf(c.request("tools/call", toolParams("mcp_discover", `{"query":"echo"}`))))
	c.call("dies", "echo", `{"text":"the key is `+key+` and the password `+password+`"}`)
	straddling := strings.Repeat("x", 100) + " " + token // where a name is cut
	for _, name := range []string{key, token, straddling, strings.Repeat(token+" ", 200)} {
		c.call(name, "echo", `{}`)
		c.call("dies", name, `{}`)
		c.call("dies", "echo", `{"text":"x"}`)
		c.resultOf(c.script(`await servers[` + strconv.Quote(name) + `].x()`))
		c.resultOf(c.script(`await servers.dies[` + strconv.Quote(name) + `]()`))
	}
	c.resultOf(c.request("tools/call", toolParams("mcp_provision", `{"intent":"`+token+`"}`)))
	c.p.AwaitControl(t)
	for _, command := range []string{"status", "ps"} {
		shown, err := exec.CommandContext(t.Context(), testkit.PlainBinary(t), command, "--json", "--config", p.ConfigFile(), "--state-dir", p.StateDir()).Output()
		if err != nil || !bytes.Contains(shown, []byte("dies")) {
			t.Errorf("metamcp %s: %v, %s", command, err, shown)
		}
		check("metamcp "+command, shown)
	}
	for name, marker := range map[string]string{"API_KEY": "API_KEY", "GITHUB_TOKEN": "GITHUB_TOKEN", "TOK": "TOK", "DATABASE_URL": "DATABASE_URL"} {
		answer := c.call("dies", "env", `{"name":"`+name+`"}`)
		check("a result", answer)
		if got := textOf(t, answer); !strings.Contains(got, "[REDACTED:"+marker+"]") {
			t.Errorf("the result with %s: %s", name, got)
		}
	}
	// What only may be a secret is needed by whoever works with a result.
	if got := textOf(t, c.call("dies", "env", `{"name":"VALUE"}`)); !strings.Contains(got, filled) {
		t.Errorf("the result with VALUE: %s", got)
	}
	c.p.CloseStdin()
	c.p.Wait(t, patience)
	check("stderr", []byte(c.p.Stderr.String()))
	traced, err := os.ReadFile(trace)
	if err != nil || !bytes.Contains(traced, []byte(`"payload":{"text":"the key is `)) {
		t.Errorf("the trace has no payloads: %v", err)
	}
	check("the trace", traced)
	recorded, err := os.ReadFile(filepath.Join(p.StateDir(), "audit.jsonl"))
	if err != nil || !bytes.Contains(recorded, []byte("the key is ")) {
		t.Errorf("the audit log has no plain arguments: %v", err)
	}
	for what, text := range map[string][]byte{"trace": traced, "audit log": recorded} {
		if bytes.Count(text, []byte(`"server":"[REDACTED:`)) < 2 || bytes.Count(text, []byte(`"tool":"[REDACTED:`)) < 2 {
			t.Errorf("the %s does not tell of calls of what there is not", what)
		}
	}
	err = filepath.WalkDir(c.p.StateDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path) //nolint:gosec // Nobody else writes into the folder of a test.
		check(filepath.Base(path), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
