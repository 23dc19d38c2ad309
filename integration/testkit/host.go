package testkit

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/control"
)

// Host is a metamcp to start.
type Host struct {
	// Servers are the entries of mcpServers. Each gets the mark in its
	// environment, so that its processes can be told from all others.
	Servers map[string]map[string]any
	// Settings is the top-level metamcp object; nil: none.
	Settings map[string]any
	// Args follow "--config FILE", which is the default command's.
	Args []string
	Env  []string
	Mark string // "": a new one
	Path string // of the program; "": [Binary]
	// UnreadStderr is that of [Command].
	UnreadStderr bool
}

// StartHost starts metamcp over stdio in a home folder of its own, where its
// configuration is [Process.ConfigFile] and its state [Process.StateDir].
func StartHost(tb testing.TB, h Host) *Process {
	tb.Helper()
	if h.Mark == "" {
		h.Mark = NewMark()
	}
	home := tb.TempDir()
	WriteConfig(tb, configFile(home), h.Mark, h.Servers, h.Settings)
	if h.Path == "" {
		h.Path = Binary(tb)
	}
	return StartCommand(tb, Command{
		Path: h.Path,
		Args: append([]string{"--config", configFile(home)}, h.Args...),
		Env:  append([]string{"HOME=" + home, "USERPROFILE=" + home}, h.Env...),
		Dir:  home,
		Mark: h.Mark, UnreadStderr: h.UnreadStderr,
	})
}

// ConfigFile is the .mcp.json of a process that [StartHost] has started.
func (p *Process) ConfigFile() string { return configFile(p.Dir) }

// StateDir is where such a process keeps its state.
func (p *Process) StateDir() string { return filepath.Join(p.Dir, ".metamcp") }

// AwaitControl waits until the host's control socket can be found. A host answers
// its client before that.
func (p *Process) AwaitControl(tb testing.TB) {
	tb.Helper()
	Eventually(tb, time.Minute, func() error {
		_, err := control.Find(p.StateDir(), "")
		return err
	})
}

func configFile(home string) string { return filepath.Join(home, ".mcp.json") }

// WriteConfig writes a configuration file in one step, as an editor would: a
// host that watches it sees the old or the new one and nothing between.
func WriteConfig(tb testing.TB, path, mark string, servers map[string]map[string]any, settings map[string]any) {
	tb.Helper()
	marked := map[string]any{}
	for name, entry := range servers {
		marked[name] = withMark(entry, mark)
	}
	config := map[string]any{"mcpServers": marked}
	if settings != nil {
		config["metamcp"] = settings
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		tb.Fatalf("encode the configuration: %v", err)
	}
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		tb.Fatal(err)
	}
}

// withMark adds the mark to an entry's environment, without changing the entry.
func withMark(entry map[string]any, mark string) map[string]any {
	env := map[string]any{MarkVariable: mark}
	switch given := entry["env"].(type) {
	case map[string]string:
		for k, v := range given {
			env[k] = v
		}
	case map[string]any:
		maps.Copy(env, given)
	}
	out := maps.Clone(entry)
	if out == nil {
		out = map[string]any{}
	}
	if _, remote := out["url"]; !remote {
		out["env"] = env
	}
	return out
}

// DemoServer returns a configuration entry for the demo server with the given
// flags. It is a program of its own and without the race detector, which looks for its
// races in its own package: hundreds of children start here, and `metamcp demo-server`
// takes ten times as long for that.
func DemoServer(tb testing.TB, flags ...string) map[string]any {
	tb.Helper()
	return map[string]any{"command": demoBinary(tb), "args": append([]string{}, flags...)}
}
