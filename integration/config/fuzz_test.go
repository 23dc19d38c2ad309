package config

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"", "{", "{}", "[]", "null", `"`, "// x", "/*", "\xef\xbb\xbf{}", strings.Repeat("[", 300), `{"a":` + strings.Repeat(`{"a":`, 300),
		`{"mcpServers": {"a": {"command": "x", "args": ["${A}", "${", "$${", "${A:-b}", "${input:x}"], "env": {"A": "1", "": "2"}, "inheritEnv": ["[", "*"]}}}`,
		`{"mcpServers": {"a": {"url": "https://x/%zz", "type": "sse", "headers": {"a": "b"}, "oauth": {"a": ["${A}", 1]}}, "a": null}, "servers": {"a": 1}}`,
		`{"metamcp": {"pool": {"poolSize": 1e9, "idleTimeoutMs": -0}, "toolRules": [{"pattern": "a"}], "expose": "x", "trace": true, "stateDir": "~"}}`,
		`{"mcpServers": {"a": {"command": "x", "timeoutMs": 1e400, "lifecycle": {"mode": "keep-alive"}, "tags": ["\ud800", "\u0000"]}}}`,
	} {
		f.Add([]byte(seed))
	}
	src := Sources{Home: "/home/x", Cwd: "/work", Environ: []string{"A=1", "PATH=/bin"}}.resolved()
	f.Fuzz(func(t *testing.T, data []byte) {
		files := []content{{path: "/f.json", data: data, regular: true}}
		cfg, err := src.build(begin(), files, nil, known{})
		if (cfg == nil) == (err == nil) {
			t.Fatalf("got %v and %v", cfg, err)
		}
		if err != nil {
			return
		}
		for _, s := range cfg.Servers {
			if s.Name == "" || len(s.Name) > 128 || s.Source == "" || s.Hash == "" || cfg.Server(s.Name) != s {
				t.Fatalf("bad server %+v", s)
			}
			if s.Err == nil && (s.Transport == "" || s.Timeout <= 0 || s.MaxTimeout < s.Timeout || s.MaxInstances < 1 || s.Retry == "") {
				t.Fatalf("incomplete server %+v", s)
			}
		}
		for _, p := range append(cfg.Problems, cfg.Warnings...) {
			if text := p.String(); strings.ContainsAny(text, "\n\x1b\x00") || !utf8.ValidString(text) {
				t.Fatalf("problem %q", text)
			}
		}
		again, err := src.build(begin(), files, nil, known{})
		if err != nil || len(Diff(cfg, again)) != 0 {
			t.Fatalf("the same file differs from itself: %v", err)
		}
	})
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "$", "${", "${A}", "$${A}", "${A:-}", "${env:}", "${:-}", "$$${A}}"} {
		f.Add(seed)
	}
	ex := &expander{lookup: func(name string) (string, bool) { return "v", name == "A" }}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ex.expand(s)
		if err == nil && !strings.Contains(s, "${") && got != s {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
