package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// Every call is in the audit log, whatever became of it, with who made it and
// without its arguments; and the log shows that it was changed.
func TestCallsAreOnRecord(t *testing.T) {
	t.Parallel()
	p := testkit.StartHost(t, testkit.Host{Servers: servers{"demo": testkit.DemoServer(t)}})
	c := &client{Lines: p.Lines(t), p: p, t: t}
	c.Handshake()
	const argument = "nobody-shall-read-this"
	c.call("demo", "echo", `{"text":"`+argument+`"}`)
	c.call("demo", "fail", `{"message":"no"}`)
	c.answer(c.start("demo", "refuse", `{"code":-32000,"message":"no"}`))
	c.call("demo", "echo", `{"wrong":1}`)
	c.call("demo", "nothing", `{}`)
	c.call("nobody", "echo", `{}`)
	c.p.CloseStdin()
	c.p.Wait(t, patience)

	audit := func(args ...string) ([]byte, error) {
		args = append([]string{"audit"}, append(args, "--json", "--config", p.ConfigFile(), "--state-dir", p.StateDir())...)
		return exec.CommandContext(t.Context(), testkit.PlainBinary(t), args...).Output()
	}
	listed, err := audit("list")
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		Kind, Server, Tool, Outcome, ArgsHash string
		Client                                struct{ Name string }
	}
	var outcomes []string
	for lines := bufio.NewScanner(bytes.NewReader(listed)); lines.Scan(); {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if e.Kind != "call" {
			continue
		}
		outcomes = append(outcomes, e.Server+"/"+e.Tool+" "+e.Outcome)
		if e.Client.Name == "" || e.ArgsHash == "" {
			t.Errorf("who called, or with what, is missing: %s", lines.Bytes())
		}
	}
	want := []string{
		"demo/echo ok", "demo/fail tool-error", "demo/refuse rpc-error", "demo/echo VALIDATION_ERROR", "demo/nothing TOOL_NOT_FOUND", "nobody/echo SERVER_NOT_FOUND",
	}
	if got := strings.Join(outcomes, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("on record is\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if said, err := audit("verify"); err != nil {
		t.Errorf("the log is not whole: %v, %s", err, said)
	}
	file := filepath.Join(p.StateDir(), "audit.jsonl")
	log, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(log, []byte(argument)) {
		t.Error("the log holds an argument")
	}
	if err := os.WriteFile(file, bytes.Replace(log, []byte("rpc-error"), []byte("ok"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := audit("verify"); err == nil || !bytes.Contains(said, []byte("changed")) {
		t.Errorf("a changed log is whole: %s", said)
	}
}
