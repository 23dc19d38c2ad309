package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/messages"
)

// TestStopTime: the manager of a system waits for the calls in flight, and then for the
// server that may take longest.
func TestStopTime(t *testing.T) {
	for _, c := range []struct{ drain, grace, want time.Duration }{
		{5 * time.Second, 0, 90 * time.Second},
		{5 * time.Second, 20 * time.Second, 90 * time.Second},
		{5 * time.Minute, 0, 385 * time.Second},
		{5 * time.Second, 10 * time.Minute, 642 * time.Second},
	} {
		cfg := &config.Config{Servers: []*messages.ServerSpec{{StopGrace: c.grace}, {}}}
		cfg.Settings.DrainTimeout = c.drain
		if got := stopTime(cfg); got != c.want {
			t.Errorf("drain %v, stopGraceMs %v: %v, want %v", c.drain, c.grace, got, c.want)
		}
		if p := hostOf(cfg); p.drain+p.end+25*time.Second != c.want {
			t.Errorf("host stop waits for %v and %v", p.drain, p.end)
		}
	}
}

func TestUnits(t *testing.T) {
	words := []string{"/opt/my tools/metamcp", "host", "--config", `/home/a/50% "x" $HOME\y&<z>.json`}
	u, err := makeUnit("linux", "/home/a", "", words, 90*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if want := "/home/a/.config/systemd/user/metamcp.service"; u.path != want {
		t.Errorf("the unit is %s, want %s", u.path, want)
	}
	for _, want := range []string{
		`ExecStart="/opt/my tools/metamcp" "host" "--config" "/home/a/50%% \"x\" $$HOME\\y&<z>.json"` + "\n",
		"Type=notify\n", "WatchdogSec=30\n", "TimeoutStopSec=90\n", "Delegate=memory pids\nEnvironment=METAMCP_DELEGATED=1\n", "Restart=on-failure\n", "WantedBy=default.target\n",
	} {
		if !strings.Contains(u.text, want) {
			t.Errorf("the unit lacks %q:\n%s", want, u.text)
		}
	}
	if verify, err := osexec.LookPath("systemd-analyze"); err == nil {
		path := filepath.Join(t.TempDir(), systemdUnit)
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(u.text, "/opt/my tools/metamcp", "/bin/sh")), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := osexec.CommandContext(t.Context(), verify, "--user", "verify", path)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze: %v\n%s", err, out)
		}
	}

	u, err = makeUnit("darwin", "/Users/a", "", words, 89500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if want := "/Users/a/Library/LaunchAgents/dev.metamcp.host.plist"; u.path != want {
		t.Errorf("the agent is %s, want %s", u.path, want)
	}
	var texts []string
	d := xml.NewDecoder(strings.NewReader(u.text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, u.text)
		}
		if chars, ok := token.(xml.CharData); ok && strings.TrimSpace(string(chars)) != "" {
			texts = append(texts, string(chars))
		}
	}
	all := strings.Join(texts, "|")
	if !strings.Contains(all, "ProgramArguments|"+strings.Join(words, "|")+"|RunAtLoad") {
		t.Errorf("the agent says %s", all)
	}
	if !strings.Contains(all, "ExitTimeOut|90") {
		t.Errorf("the agent says %s", all)
	}
	if _, err := makeUnit("plan9", "/", "", words, 0); err == nil || !strings.Contains(err.Error(), "plan9") {
		t.Errorf("another system: %v", err)
	}
}

// What a host's flags are does not hang on the folder in which a command runs, and
// the next host gets those that its own command line does not have.
func TestFlagsOfTheHostBefore(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	flags := func(args ...string) *cobra.Command {
		root := newRoot(io.Discard)
		cmd, rest, err := root.Find(append([]string{"host", "restart"}, args...))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first := hostFlagWords(flags("--config", "x.json", "--state-dir", "st", "--expose=tools,resources", "--name=n", "--trace=t.jsonl", "--audit-file", "/a/b"))
	for _, want := range []string{"--state-dir=" + filepath.Join(here, "st"), "--expose=tools,resources", "--name=n", "--trace=" + filepath.Join(here, "t.jsonl"), "--audit-file=/a/b"} {
		if !slices.Contains(first, want) {
			t.Errorf("%q lacks %s", first, want)
		}
	}
	if len(first) != 5 {
		t.Errorf("the flags are %q", first)
	}
	for _, word := range []string{"--trace=no", "--audit-file=off"} { // which are no files
		if got := hostFlagWords(flags(word)); !slices.Equal(got, []string{word}) {
			t.Errorf("the flags are %q", got)
		}
	}
	cmd := flags("--name=other")
	kept, err := keepFlags(cmd, &control.HostInfo{Flags: append(first, "--of-another-version=1")})
	if err != nil || slices.Contains(kept, "--name=n") || len(kept) != 4 {
		t.Errorf("kept %q, %v", kept, err)
	}
	got := hostFlagWords(cmd)
	if !slices.Contains(got, "--name=other") || !slices.Contains(got, "--expose=tools,resources") || len(got) != 5 {
		t.Errorf("the next host gets %q", got)
	}
}

// Two hosts have the log open during a restart: neither loses a line of the other,
// and it is turned over once.
func TestHostLogOfTwoHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.log")
	one, err := openHostLog(path)
	if err != nil {
		t.Fatal(err)
	}
	two, err := openHostLog(path)
	if err != nil {
		t.Fatal(err)
	}
	one.limit, two.limit = 8, 8
	say := func(w *hostLogFile, text string) {
		t.Helper()
		w.looked = time.Time{} // it is time to look
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	say(one, "one")
	say(two, "two")
	say(one, "three") // turns it over
	say(two, "four")
	for file, want := range map[string]string{path + ".1": "one\ntwo\n", path: "three\nfour\n"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v", filepath.Base(file), text, err)
		}
	}
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Error(err)
	}
}

// A log that is there already goes on, and nothing is written to a file that is none.
func TestHostLogIsNoFileOfAnotherKind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mcp.json": `{"mcpServers": {"a": {"command": "x"}}}`, "program": "\x7fELF\x02\x01\x00", "notes": "what to do\n", "more.json": "{\n  \"time\": 1\n}\n",
	} {
		path := textFile(t, dir, name, text)
		_, err := openDetachedLogs(path)
		refusedAsForeign(t, path, err)
		holds(t, path, text)
	}
	for name, text := range map[string]string{
		"missing": "", "text": "time=2026-01-02T03:04:05.000Z level=WARN msg=x\n", "json": `{"time":"2026-01-02T03:04:05Z","level":"WARN","msg":"x"}` + "\n",
		"host": "metamcp: 2026-01-02T03:04:05Z host h (pid 1) has ended\n", "cut": "ARN msg=x\nmetamcp: 2026-01-02T03:04:05Z host h (pid 1) has ended\n",
	} {
		path := filepath.Join(dir, name)
		if text != "" {
			textFile(t, dir, name, text)
		}
		logs, err := openDetachedLogs(path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		const line = "metamcp: more\n"
		if _, err := io.WriteString(logs.log, line); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		logs.log.Close(ctx)
		cancel()
		logs.close()
		holds(t, path, text+line)
	}
}

// A disk that stalls holds up neither who logs, which may be an actor, nor the end of the
// host. What was said before it stalled is written once it goes on.
func TestHostLogOnADiskThatStalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k.log")
	logs, err := openDetachedLogs(path)
	if err != nil {
		t.Fatal(err)
	}
	logs.file.mu.Lock() // as a write does that hangs
	said := make(chan error, 1)
	go func() {
		log, err := (&common{stderr: logs.log, logLevel: "warn", logFormat: "text"}).logger()
		if err == nil {
			log.Warn("a server was lost", "server", "s")
		}
		logs.close()
		said <- err
	}()
	select {
	case err := <-said:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a line, or the end, waits for the disk")
	}
	logs.file.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if dropped := logs.log.Close(ctx); dropped != 0 {
		t.Errorf("%d lines were dropped", dropped)
	}
	if err := logs.file.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "a server was lost") {
		t.Errorf("the log has %q, %v", text, err)
	}
}

// The last line of a host stands in its log when the log is closed, but where the disk is
// so busy that this takes longer than a host waits.
func TestHostLogIsWrittenToItsEnd(t *testing.T) {
	const tries = 20
	for try := range tries {
		path := filepath.Join(t.TempDir(), "k.log")
		logs, err := openDetachedLogs(path)
		if err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for i := range 1000 {
			line := "line " + strconv.Itoa(i) + "\n"
			want.WriteString(line)
			if _, err := io.WriteString(logs.log, line); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		logs.close()
		waited := time.Since(began) >= logPatience
		text, err := os.ReadFile(path)
		switch {
		case err == nil && string(text) == want.String():
			return
		case !waited || try == tries-1:
			t.Fatalf("the log has %d bytes, want %d; %v", len(text), want.Len(), err)
		}
	}
}

// A unit that says something else is replaced only where that was asked for, and
// kept.
func TestInstalledUnitIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", systemdUnit)
	put := func(text string, replace bool, want, wrong string) {
		t.Helper()
		how, err := (&unit{path: path, text: text}).install(replace)
		if !strings.Contains(how, want) || (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %q, %v", text, how, err)
		}
	}
	put("a", false, "is written", "")
	put("a", false, "is there already", "")
	put("b", false, "", "--replace")
	put("b", true, path+".bak", "")
	for file, want := range map[string]string{path: "b", path + ".bak": "a"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v", file, text, err)
		}
	}
}

// Variables of systemd that something inherits do not make it a service.
func TestManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/x")
	t.Setenv("INVOCATION_ID", "1")
	t.Setenv("SYSTEMD_EXEC_PID", "1")
	if got := manager(); got != "" {
		t.Errorf("of another process: %s", got)
	}
	t.Setenv("SYSTEMD_EXEC_PID", strconv.Itoa(os.Getpid()))
	if got := manager(); got != "systemd" {
		t.Errorf("of this process: %q", got)
	}
	if got := withoutManager([]string{"A=1", "NOTIFY_SOCKET=/x", "INVOCATION_ID=1"}); !slices.Equal(got, []string{"A=1"}) {
		t.Errorf("the children get %q", got)
	}
}
