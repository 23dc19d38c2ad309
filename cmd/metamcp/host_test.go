package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnits(t *testing.T) {
	words := []string{"/opt/my tools/metamcp", "host", "--config", `/home/a/50% "x" $HOME\y&<z>.json`}
	u, err := makeUnit("linux", "/home/a", "", words)
	if err != nil {
		t.Fatal(err)
	}
	if want := "/home/a/.config/systemd/user/metamcp.service"; u.path != want {
		t.Errorf("the unit is %s, want %s", u.path, want)
	}
	for _, want := range []string{
		`ExecStart="/opt/my tools/metamcp" "host" "--config" "/home/a/50%% \"x\" $$HOME\\y&<z>.json"` + "\n",
		"Type=notify\n", "WatchdogSec=30\n", "Restart=on-failure\n", "WantedBy=default.target\n",
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

	u, err = makeUnit("darwin", "/Users/a", "", words)
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
	if _, err := makeUnit("plan9", "/", "", words); err == nil || !strings.Contains(err.Error(), "plan9") {
		t.Errorf("another system: %v", err)
	}
}
