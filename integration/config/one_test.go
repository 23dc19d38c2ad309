package config

import (
	"errors"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func TestOne(t *testing.T) {
	sources := Sources{Files: []string{"/nowhere/else.json"}, Home: t.TempDir(), Cwd: t.TempDir(), Environ: []string{"KEY=secret"}}
	spec, err := One(sources, "a", map[string]any{"command": "node", "args": []string{"x"}, "env": map[string]string{"API_KEY": "${KEY}"}})
	if err != nil || spec.Err != nil {
		t.Fatal(err, spec)
	}
	if spec.Name != "a" || spec.Command != "node" || spec.Filled["KEY"] != "secret" {
		t.Errorf("%+v", spec)
	}
	broken, err := One(sources, "a", map[string]any{"args": 1})
	if err != nil || broken.Err == nil {
		t.Errorf("a broken entry: %+v, %v", broken, err)
	}
	var e *messages.Error
	if _, err := One(sources, "", map[string]any{"command": "x"}); !errors.As(err, &e) || e.Code != messages.CodeConfiguration {
		t.Errorf("a server without a name: %v", err)
	}
}
