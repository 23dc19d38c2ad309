//go:build unix

package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/testkit"
)

// toolsIn is what is said of a demo server that was started.
var toolsIn = strconv.Itoa(testkit.DemoTools) + " tools in"

// run is one run of the real program, in a home of its own.
type run struct {
	out, said string
	status    int
}

func command(t *testing.T, home string, words ...string) run {
	t.Helper()
	return metamcp(t, home, append([]string{"doctor"}, words...)...)
}

// metamcp runs any command.
func metamcp(t *testing.T, home string, words ...string) run {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, testkit.Binary(t), words...)
	cmd.Dir = home
	mark := testkit.NewMark()
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "TMPDIR=" + os.TempDir(), testkit.MarkVariable + "=" + mark}
	t.Cleanup(func() { testkit.KillMarked(t, mark) })
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return run{out.String(), said.String(), cmd.ProcessState.ExitCode()}
}

// report is what --json prints.
func (r run) report(t *testing.T) (rep struct {
	Version string
	Summary doctor.Summary
	Results []doctor.Result
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), &rep); err != nil {
		t.Fatalf("%v in %q; it said %q", err, r.out, r.said)
	}
	return rep
}

func demo(t *testing.T, flags ...string) object {
	t.Helper()
	return object{"command": testkit.PlainBinary(t), "args": append([]string{"demo-server"}, flags...), "env": object{"API_KEY": secret}}
}

func configured(t *testing.T, servers, settings object) (home string) {
	t.Helper()
	home = t.TempDir()
	write(t, filepath.Join(home, ".metamcp", "mcp.json"), configText(t, servers, settings), 0o600)
	return home
}

func TestCommandWhereAllIsWell(t *testing.T) {
	home := configured(t, object{"good": demo(t)}, nil)
	r := command(t, home)
	if r.status != 0 || r.said != "" {
		t.Fatalf("status %d, said %q\n%s", r.status, r.said, r.out)
	}
	for _, part := range []string{"CONFIGURATION\n", "COMMANDS\n", "SERVERS\n", "STATE\n", "HOSTS\n", "CLIENTS\n", "EMBEDDER\n", "server.start good", toolsIn, "0 failed", "all is well: "} {
		if !strings.Contains(r.out, part) {
			t.Errorf("lacks %q:\n%s", part, r.out)
		}
	}
	if strings.Contains(r.out, "\x1b") || strings.Contains(r.out, secret) {
		t.Errorf("colours without a terminal, or a secret:\n%s", r.out)
	}
	if left, err := os.ReadDir(filepath.Join(home, ".metamcp")); err != nil || len(left) != 1 {
		t.Errorf("it left %v in the state folder, %v", left, err)
	}
}

func TestCommandWithServersThatFail(t *testing.T) {
	home := configured(t, object{
		"good": demo(t), "dead": object{"command": "no-such-command"}, "off": object{"command": "no-such-command", "disabled": true},
		"crash":  demo(t, "--exit-at-start", "3", "--exit-text", "no luck with "+secret),
		"silent": demo(t, "--silent", "--stderr-lines", "3"),
		"self":   object{"command": testkit.Binary(t), "args": []string{}},
	}, nil)
	r := command(t, home, "--json", "--timeout", "12s")
	rep := r.report(t)
	if r.status != 1 || rep.Version == "" || rep.Summary.Fail < 4 {
		t.Errorf("status %d, %+v", r.status, rep.Summary)
	}
	expect(t, rep.Results, want{"server.start", "good", doctor.OK, toolsIn, ""})
	expect(t, rep.Results, want{"command.found", "dead", doctor.Fail, "no-such-command", "Install"})
	expect(t, rep.Results, want{"server.start", "dead", doctor.Fail, "[offline]", ""})
	crash := expect(t, rep.Results, want{"server.start", "crash", doctor.Fail, "[stdio-exit]", ""})
	if text := strings.Join(crash.Details, "\n"); !strings.Contains(text, "no luck with [REDACTED:API_KEY]") {
		t.Errorf("the end of stderr: %q", text)
	}
	silent := expect(t, rep.Results, want{"server.start", "silent", doctor.Fail, "within 12s, which this trial gave it", "--timeout"})
	if text := strings.Join(silent.Details, "\n"); !strings.Contains(text, "line 3 of 3 at start") {
		t.Errorf("the end of stderr: %q", text)
	}
	expect(t, rep.Results, want{"config.loop", "self", doctor.Fail, "", "Remove"})
	for _, r := range rep.Results {
		if r.Subject == "off" || r.Subject == "self" && r.ID == "server.start" {
			t.Errorf("not to be looked at: %+v", r)
		}
	}
	if strings.Contains(r.out, secret) {
		t.Error("it shows a secret")
	}

	// One alone, and none.
	rep = command(t, home, "--json", "--server", "good").report(t)
	expect(t, rep.Results, want{"server.start", "good", doctor.OK, "", ""})
	if r := command(t, home, "--server", "good"); r.status != 0 || strings.Contains(r.out, "server.start crash") {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
	rep = command(t, home, "--json", "--server", "off", "--server", "self").report(t)
	expect(t, rep.Results, want{"server.start", "off", doctor.Skipped, "turned off at ", ""})
	expect(t, rep.Results, want{"server.start", "self", doctor.Skipped, "config.loop", ""})
	rep = command(t, home, "--json", "--no-start").report(t)
	expect(t, rep.Results, want{"server.start", "", doctor.Skipped, "--no-start", ""})
}

// An entry that was left out for its name is there to be mended.
func TestCommandOfAnEntryThatWasLeftOut(t *testing.T) {
	home := configured(t, object{"good": demo(t), "odd\tname": demo(t)}, nil)
	r := command(t, home, "--json", "--server", "odd\tname")
	rep := r.report(t)
	expect(t, rep.Results, want{"server.start", "odd\tname", doctor.Skipped, "its entry is broken", ""})
	expect(t, rep.Results, want{"config.problem", "", doctor.Fail, "control characters", "left out"})
	if r.status != 1 {
		t.Errorf("status %d, said %q", r.status, r.said)
	}
}

func TestCommandWithoutAConfiguration(t *testing.T) {
	r := command(t, t.TempDir())
	if r.status != 0 || !strings.Contains(r.out, "no configuration file was found") || !strings.Contains(r.out, "with warnings") {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
	home := t.TempDir()
	broken := write(t, filepath.Join(home, "broken.json"), "{", 0o600)
	r = command(t, home, "-c", broken, "--json")
	expect(t, r.report(t).Results, want{"config.files", "", doctor.Fail, broken + ":1:", ""})
	expect(t, r.report(t).Results, want{"server.start", "", doctor.Skipped, "could not be read", ""})
	if r.status != 1 {
		t.Errorf("status %d", r.status)
	}
	if r := command(t, home, "-c", broken, "--json", "--pool-size", "-3"); r.status != 1 && r.status != 2 {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
}

func TestCommandLine(t *testing.T) {
	home := configured(t, object{"good": demo(t)}, nil)
	for _, words := range [][]string{{"--server", "other"}, {"--timeout", "soon"}, {"--nothing"}, {"word"}} {
		if r := command(t, home, words...); r.status != 2 || r.out != "" || r.said == "" {
			t.Errorf("%q: status %d, %q, said %q", words, r.status, r.out, r.said)
		}
	}
	if r := command(t, home, "--server", "other"); !strings.Contains(r.said, "it has: good") {
		t.Errorf("said %q", r.said)
	}
}

func TestCommandMends(t *testing.T) {
	home := configured(t, object{}, nil)
	state := filepath.Join(home, ".metamcp")
	if err := os.Chmod(state, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(state, "logs", "a.log"), "x", 0o600)
	if r := command(t, home); r.status != 0 || !strings.Contains(r.out, "chmod 700 ") {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
	r := command(t, home, "--fix")
	if r.status != 0 || !strings.Contains(r.out, "done  state.modes") || !strings.Contains(r.out, "1 mended") {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A real host holds the index store and answers; doctor does not disturb it.
func TestCommandBesideAHost(t *testing.T) {
	h := testkit.StartHost(t, testkit.Host{Servers: map[string]map[string]any{"good": testkit.DemoServer(t)}})
	h.AwaitControl(t)
	r := command(t, h.Dir, "--json", "-c", h.ConfigFile())
	rep := r.report(t)
	expect(t, rep.Results, want{"server.start", "good", doctor.OK, toolsIn, ""})
	running := expect(t, rep.Results, want{"hosts.running", "", doctor.OK, "up ", ""})
	if running.Subject == "" || r.status != 0 {
		t.Errorf("status %d, %+v", r.status, running)
	}
	select {
	case <-h.Exited():
		t.Error("the host has ended")
	default:
	}
}
