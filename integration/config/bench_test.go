package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func benchmarkLoad(b *testing.B, servers int) {
	var text strings.Builder
	text.WriteString(`{"mcpServers": {`)
	for i := range servers {
		fmt.Fprintf(&text, "\n"+`  "server-%d": {"command": "npx", "args": ["-y", "@scope/server-%d", "--root", "${HOME}/x"], "env": {"TOKEN": "${TOKEN}", "LEVEL": "info"}, "timeoutMs": 30000},`, i, i)
	}
	text.WriteString("\n}, \"metamcp\": {\"pool\": {\"poolSize\": 50}}}")
	path := filepath.Join(b.TempDir(), "c.json")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	environ := []string{"HOME=/home/x", "TOKEN=t", "PATH=/bin:/usr/bin", "LANG=C", "USER=x", "SHELL=/bin/sh", "TERM=x"}
	for i := range 40 {
		environ = append(environ, fmt.Sprintf("OTHER_%d=x", i))
	}
	src := Sources{Files: []string{path}, Home: "/home/x", Cwd: "/", Environ: environ}
	b.ReportAllocs()
	for b.Loop() {
		cfg, err := Load(src)
		if err != nil || len(cfg.Servers) != servers || len(cfg.Problems) > 0 {
			b.Fatal(err, len(cfg.Servers))
		}
	}
}

func BenchmarkLoad5(b *testing.B)     { benchmarkLoad(b, 5) }
func BenchmarkLoad10000(b *testing.B) { benchmarkLoad(b, 10_000) }

func BenchmarkDiff10000(b *testing.B) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, `"s%d": {"command": "x"},`, i)
	}
	src := Sources{Home: "/home/x", Cwd: "/", Environ: []string{"PATH=/bin"}}.resolved()
	cfg, err := src.build(begin(), []content{{path: "/f", data: []byte(`{"mcpServers": {` + text.String() + `}}`), regular: true}}, nil, known{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Diff(cfg, cfg)
	}
}
