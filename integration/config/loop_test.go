package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/messages"
)

// started is the configuration of a process that the chain led to.
func (w *world) started(c lineage.Chain, files ...string) *Config {
	w.t.Helper()
	src := w.sources(files...)
	src.Environ = c.Into(src.Environ)
	cfg, err := Load(src)
	if err != nil {
		w.t.Fatal(err)
	}
	return cfg
}

func TestCheckLoop(t *testing.T) {
	w := newWorld(t)
	a := w.file("a.json", `{"servers": {"me": {"command": "x"}, "you": {"command": "x"}, "off": {"command": "x", "disabled": true}}}`)
	b := w.file("b.json", `{"servers": {"other": {"command": "x"}}}`)
	over := w.file("over.json", `{"servers": {"me": {"command": "y"}}}`)
	none := lineage.Chain{}
	me := none.Behind(a, "me")
	for _, c := range []struct {
		name           string
		chain          lineage.Chain
		files          []string
		serve, command bool
	}{
		{"no metamcp started it", none, []string{a}, true, true},
		{"its own entry", me, []string{a}, false, true},
		{"among other files", me, []string{b, a}, false, true},
		{"by a detour", me.Behind(b, "other"), []string{a}, false, true},
		{"another file", me, []string{b}, true, true},
		{"an entry of that name in another file", none.Behind(b, "me"), []string{a}, true, true},
		{"an entry that another file overrides", me, []string{a, over}, true, true},
		{"an entry that is turned off", none.Behind(a, "off"), []string{a}, true, true},
		{"an entry that is gone", none.Behind(a, "gone"), []string{a}, true, true},
		{"a command behind a command", me.Behind(a, "you"), []string{a}, false, false},
		{"too many", deep(lineage.MaxDepth), []string{b}, false, false},
		{"many", deep(lineage.MaxDepth - 1), []string{b}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := w.started(c.chain, c.files...)
			for serving, want := range map[bool]bool{true: c.serve, false: c.command} {
				err := cfg.CheckLoop(serving)
				if (err == nil) != want {
					t.Errorf("serving %t: %v", serving, err)
				}
				var e *messages.Error
				if err != nil && (!errors.As(err, &e) || e.Code != messages.CodeConfiguration || e.Hint == "") {
					t.Errorf("serving %t: %#v", serving, err)
				}
			}
		})
	}

	var e *messages.Error
	if err := w.started(me.Behind(b, "other"), a).CheckLoop(true); !errors.As(err, &e) {
		t.Fatal(err)
	}
	contains(t, e.Message, `the entry "me" of `+a+" started this metamcp", `"me" of `, `then "other" of `)
	contains(t, e.Hint, `Remove the entry "me" from `+a, "--config")
}

// deep is a chain of so many entries of files of their own.
func deep(n int) (c lineage.Chain) {
	for i := range n {
		c = c.Behind(fmt.Sprintf("/generated/%d.json", i), "x")
	}
	return c
}

// A command of a shell that is a server may start the other servers, not the shell.
func TestCheckStart(t *testing.T) {
	w := newWorld(t)
	a := w.file("a.json", `{"servers": {"me": {"command": "x"}, "you": {"command": "x"}}}`)
	cfg := w.started(lineage.Chain{}.Behind(a, "me"), a)
	if err := cfg.CheckStart(cfg.Server("you")); err != nil {
		t.Error(err)
	}
	if err := cfg.CheckStart(cfg.Server("me")); err == nil || !strings.Contains(err.Error(), `"me"`) {
		t.Errorf("the entry itself: %v", err)
	}
}

func TestFileOf(t *testing.T) {
	for source, want := range map[string]string{
		"/a/b.json:12": "/a/b.json", `C:\a.json:3`: `C:\a.json`, "/a:1:2": "/a:1", "/a/b.json": "/a/b.json", `C:\a.json`: `C:\a.json`, "": "", "/a:": "/a:",
	} {
		if got := FileOf(&messages.ServerSpec{Source: source}); got != want {
			t.Errorf("%q stands in %q", source, got)
		}
	}
}
