package doctor_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/doctor"
)

func TestConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "mcp.json"), `{"mcpServers": {
  "good": {"command": "x", "comand": 1},
  "unset": {"command": "x", "args": ["${NOT_THERE}"]},
  "off": {"command": "x", "url": "http://x", "disabled": true},
  "remote": {"url": "https://example.com/mcp", "oauth": {"clientId": "x"}}
}, "metamcp": {"pool": {"poolSize": -1}}}`, 0o600)
	results := examine(t, patientOf(t, dir, file), doctor.GroupConfiguration)
	for _, w := range []want{
		{"config.files", "", doctor.OK, file + ", 4 servers (named by --config)", ""},
		{"config.problem", "unset", doctor.Fail, file + ":3:", "${NOT_THERE:-default}"},
		{"config.problem", "", doctor.Fail, file + ":", ""},
		{"config.warning", "good", doctor.Warn, file + ":2:28: comand is not known", "did you mean command?"},
		{"config.warning", "off", doctor.Warn, "both a command and a url", ""},
		{"config.loop", "", doctor.OK, "", ""},
	} {
		expect(t, results, w)
	}
}

func TestConfigurationThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, found string }{
		"broken.json": {"{\n  \"mcpServers\": {\n", ":2:18: the file ends too early"},
		"list.json":   {"[]", "expected an object"},
	} {
		file := write(t, filepath.Join(dir, name), c.text, 0o600)
		results := examine(t, patientOf(t, dir, file), doctor.GroupConfiguration)
		expect(t, results, want{"config.files", "", doctor.Fail, file, ""})
		r := expect(t, results, want{"config.files", "", doctor.Fail, c.found, ""})
		if strings.Contains(r.Found, "CONFIGURATION_ERROR") {
			t.Errorf("%q", r.Found)
		}
		for _, id := range []string{"config.problem", "config.warning", "config.loop"} {
			expect(t, results, want{id, "", doctor.Skipped, "could not be read", ""})
		}
	}
}

func TestWhichFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	load := func(files ...string) *doctor.Patient {
		p := &doctor.Patient{Home: dir, Cwd: dir, Getenv: func(string) string { return "" }}
		p.Config, p.LoadError = config.Load(config.Sources{Files: files, Home: dir, Cwd: filepath.Join(dir, "work"), Environ: []string{}})
		return p
	}
	r := expect(t, examine(t, load(), doctor.GroupConfiguration), want{"config.files", "", doctor.Warn, "no configuration file was found", `{"mcpServers"`})
	if !strings.Contains(r.Found, filepath.Join(dir, ".metamcp", "mcp.json")) {
		t.Errorf("it does not say where it looked: %q", r.Found)
	}
	expect(t, examine(t, load(), doctor.GroupConfiguration), want{"config.warning", "", doctor.OK, "", ""})
	home := write(t, filepath.Join(dir, ".metamcp", "mcp.json"), "{}", 0o600)
	expect(t, examine(t, load(), doctor.GroupConfiguration), want{"config.files", "", doctor.OK, home + ", 0 servers (found by itself", ""})
	two := write(t, filepath.Join(dir, "two.json"), "{}", 0o600)
	r = expect(t, examine(t, load(home, two), doctor.GroupConfiguration), want{"config.files", "", doctor.OK, "a later one overrides", ""})
	if len(r.Details) != 2 || r.Details[0] != "1. "+home || r.Details[1] != "2. "+two {
		t.Errorf("%q", r.Details)
	}
}

func TestOneServerOnly(t *testing.T) {
	p := patient(t, t.TempDir(), object{"a": object{"command": "nothing-a"}, "b": object{"command": "nothing-b"}}, nil)
	p.Servers = []string{"b"}
	results := examine(t, p, doctor.GroupCommands)
	if len(results) != 1 {
		t.Errorf("%+v", results)
	}
	expect(t, results, want{"command.found", "b", doctor.Fail, "nothing-b", ""})
	if p.MayStart("a") || !p.MayStart("b") || p.MayStart("c") {
		t.Error("only b may start")
	}
}

func TestLoop(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "mcp.json")
	other := write(t, filepath.Join(dir, "other.json"), "{}", 0o600)
	bin := write(t, filepath.Join(dir, "bin", "metamcp"), "#!/bin/sh\n", 0o755)
	for _, c := range []struct {
		name  string
		entry object
		want  doctor.Status
		start bool
	}{
		{"the same file", object{"command": "metamcp", "args": []string{"--config", own}}, doctor.Fail, false},
		{"the same file, short", object{"command": bin, "args": []string{"serve", "-c", own}}, doctor.Fail, false},
		{"the same file, one word", object{"command": bin, "args": []string{"--config=" + own}}, doctor.Fail, false},
		{"relative to its folder", object{"command": bin, "cwd": dir, "args": []string{"--config", "mcp.json"}}, doctor.Fail, false},
		{"by the variable", object{"command": bin, "env": object{"METAMCP_CONFIG": own}}, doctor.Fail, false},
		{"another file", object{"command": bin, "args": []string{"--config", other}}, doctor.Warn, true},
		{"by itself, nothing there", object{"command": bin, "cwd": dir}, doctor.Warn, true},
		{"the demo server", object{"command": bin, "args": []string{"demo-server"}}, doctor.OK, true},
		{"the demo server behind a flag", object{"command": bin, "args": []string{"--log-level", "debug", "--config", own, "demo-server"}}, doctor.OK, true},
		{"another program", object{"command": "sh", "args": []string{"--config", own}}, doctor.OK, true},
		{"turned off", object{"command": bin, "args": []string{"--config", own}, "disabled": true}, doctor.OK, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := patient(t, dir, object{"it": c.entry}, nil)
			expect(t, examine(t, p, doctor.GroupConfiguration), want{"config.loop", "", c.want, "", ""})
			if got := p.MayStart("it"); got != c.start && c.name != "turned off" {
				t.Errorf("MayStart is %t", got)
			}
		})
	}
}

// A configuration that is found by itself is the loop that happens: a client's
// .mcp.json with metamcp in it, in the folder in which metamcp is started.
func TestLoopThroughTheClientsFile(t *testing.T) {
	dir := t.TempDir()
	bin := write(t, filepath.Join(dir, "metamcp"), "#!/bin/sh\n", 0o755)
	for _, variable := range []string{"", string(filepath.ListSeparator)} { // neither names a file
		entry := object{"command": bin, "env": object{"METAMCP_CONFIG": variable}}
		write(t, filepath.Join(dir, ".mcp.json"), encode(t, object{"mcpServers": object{"metamcp": entry}}), 0o600)
		p := patientOf(t, dir, filepath.Join(dir, ".mcp.json"))
		p.FilesFrom = ""
		expect(t, examine(t, p, doctor.GroupConfiguration), want{"config.loop", "metamcp", doctor.Fail, "starts metamcp with the configuration in which it stands", "a file of its own"})
	}
}
