package config

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func TestOne(t *testing.T) {
	sources := Sources{Files: []string{"/nowhere/else.json"}, Home: t.TempDir(), Cwd: t.TempDir(), Environ: []string{"KEY=secret"}}
	spec, err := One(sources, &Config{}, "a", map[string]any{"command": "node", "args": []string{"x"}, "env": map[string]string{"API_KEY": "${KEY}"}})
	if err != nil || spec.Err != nil {
		t.Fatal(err, spec)
	}
	if spec.Name != "a" || spec.Command != "node" || spec.Filled["KEY"] != "secret" {
		t.Errorf("%+v", spec)
	}
	broken, err := One(sources, &Config{}, "a", map[string]any{"args": 1})
	if err != nil || broken.Err == nil {
		t.Errorf("a broken entry: %+v, %v", broken, err)
	}
	var e *messages.Error
	if _, err := One(sources, &Config{}, "", map[string]any{"command": "x"}); !errors.As(err, &e) || e.Code != messages.CodeConfiguration {
		t.Errorf("a server without a name: %v", err)
	}
}

// TestOneFollowsTheSettingsInForce: where the state folder is, and which flags go
// together, the file says, which is not read for one entry.
func TestOneFollowsTheSettingsInForce(t *testing.T) {
	w := newWorld(t, "METAMCP_EXPOSE_ONLY=1")
	store(t, filepath.Join(w.cwd, "state"), "TOKEN", "hush-hush")
	src := w.sources(w.file("c.json", `{"metamcp": {"stateDir": "state", "expose": ["tools"]}}`))
	cfg, err := Load(src)
	must(t, err)
	spec, err := One(src, cfg, "a", map[string]any{"command": "x", "args": []string{"${secret:TOKEN}"}})
	must(t, err)
	if spec.Err != nil || spec.Args[0] != "hush-hush" {
		t.Errorf("%+v", spec)
	}
}
