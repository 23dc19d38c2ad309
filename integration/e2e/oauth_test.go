package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/oauth/fakeauth"
	"github.com/metamcp/metamcp/integration/testkit"
)

// authCommand runs metamcp auth beside a host; the browser opens what it prints.
func authCommand(t *testing.T, h *testkit.Process, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Binary(t), append([]string{"auth", "--config", h.ConfigFile(), "--state-dir", h.StateDir()}, args...)...)
	cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS=", "XDG_RUNTIME_DIR=")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text += lines.Text() + "\n"
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http") {
			if err := fakeauth.Visit(address); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // the status is looked at
	return text + said.String(), cmd.ProcessState.ExitCode()
}

// A host that runs is told by its server that a login is needed, says so to the
// model, and takes the login that a person makes in a shell. No token is seen
// anywhere: not in results, errors, logs, traces or the audit log, although the
// server repeats it.
func TestLoginBesideARunningHost(t *testing.T) {
	t.Parallel()
	f := fakeauth.Start(t, func(f *fakeauth.Fake) { f.Need = map[string]string{"write": "write"} })
	h := testkit.StartHost(t, testkit.Host{
		Servers: map[string]map[string]any{"docs": {"url": f.URL()}},
		Args:    []string{"--trace=stderr", "--trace-payloads", "--audit-plain-args", "--log-level", "debug"},
		Env:     []string{"DBUS_SESSION_BUS_ADDRESS=", "XDG_RUNTIME_DIR="},
	})
	l := h.Lines(t)
	l.Handshake()
	var said []byte
	n := 0
	call := func(tool string) string {
		n++
		params, err := json.Marshal(map[string]any{"name": "mcp_call", "arguments": map[string]any{"server": "docs", "tool": tool, "args": map[string]any{}}})
		if err != nil {
			t.Fatal(err)
		}
		result, failure := l.Call(strings.Repeat("1", n), "tools/call", string(params))
		said = append(append(said, result...), failure...)
		return string(result) + string(failure)
	}
	if got := call("read"); !strings.Contains(got, "metamcp auth login docs") || !strings.Contains(got, `auth`) {
		t.Errorf("before the login: %s", got)
	}
	asked := f.Count("401")
	if out, code := authCommand(t, h, "login", "docs", "--no-browser"); code != 0 || !strings.Contains(out, "logged in to docs") {
		t.Fatalf("exit %d: %s", code, out)
	}
	if got := call("read"); !strings.Contains(got, "read was called with Bearer [") {
		t.Errorf("after the login: %s", got)
	}
	if got := call("write"); !strings.Contains(got, `further scopes`) || !strings.Contains(got, "metamcp auth login docs") {
		t.Errorf("what needs more: %s", got)
	}
	if out, code := authCommand(t, h, "login", "docs", "--no-browser"); code != 0 || !strings.Contains(out, "write") {
		t.Fatalf("exit %d: %s", code, out)
	}
	if got := call("write"); !strings.Contains(got, "write was called with") {
		t.Errorf("after the second login: %s", got)
	}
	secrets := f.Tokens()
	if out, code := authCommand(t, h, "status"); code != 0 || !strings.Contains(out, "logged in") || !strings.Contains(out, f.AuthURL()) {
		t.Errorf("exit %d: %s", code, out)
	}
	if out, code := authCommand(t, h, "logout", "docs"); code != 0 || !strings.Contains(out, "taken back") {
		t.Errorf("exit %d: %s", code, out)
	}
	if got := call("read"); !strings.Contains(got, "metamcp auth login docs") {
		t.Errorf("after the logout: %s", got)
	}
	if more := f.Count("401") - asked; more > 6 {
		t.Errorf("%d refused requests: it tries again and again", more)
	}
	h.CloseStdin()
	h.Wait(t, patience)
	said = append(said, h.Stderr.String()...)
	err := filepath.WalkDir(h.StateDir(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, string(filepath.Separator)+"oauth"+string(filepath.Separator)) {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // the test's own folder
		said = append(said, text...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(secrets) < 2 {
		t.Errorf("%q", secrets)
	}
	for _, s := range append(secrets, "refresh-") {
		if i := bytes.Index(said, []byte(s)); i >= 0 {
			t.Errorf("%s was seen: %s", s, said[max(0, i-200):min(len(said), i+200)])
		}
	}
}

// Without a browser on this machine the address to which one elsewhere was sent is
// taken from the standard input; one of another login is not.
func TestLoginByAPastedAddress(t *testing.T) {
	t.Parallel()
	f := fakeauth.Start(t, nil)
	home := t.TempDir()
	file := filepath.Join(home, "mcp.json")
	testkit.WriteConfig(t, file, testkit.NewMark(), map[string]map[string]any{"docs": {"url": f.URL()}}, nil)
	cmd := exec.CommandContext(t.Context(), testkit.PlainBinary(t), "auth", "--config", file, "--state-dir", filepath.Join(home, "state"), "login", "docs", "--no-browser")
	cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS=", "XDG_RUNTIME_DIR=", "HOME="+home)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text += lines.Text() + "\n"
		address := strings.TrimSpace(lines.Text())
		if !strings.HasPrefix(address, "http") {
			continue
		}
		elsewhere := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, err := elsewhere.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if _, err := io.WriteString(in, "http://127.0.0.1:1/callback?code=a&state=b\n"+resp.Header.Get("Location")+"\n"); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(text, "logged in to docs") || !strings.Contains(complaints.String(), "not the address") {
		t.Errorf("%v: %s %s", err, text, complaints.String())
	}
}
