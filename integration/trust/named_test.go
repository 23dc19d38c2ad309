package trust

import (
	"slices"
	"testing"

	"github.com/metamcp/metamcp/integration/registry"
)

func TestNamedPackages(t *testing.T) {
	for intent, want := range map[string][]string{
		"use @modelcontextprotocol/server-everything":               {"@modelcontextprotocol/server-everything"},
		"use `@playwright/mcp@1.2.3`, please":                       {"@playwright/mcp"},
		"install pypi:weather and mcp-server-git.":                  {"weather", "mcp-server-git"},
		"io.github.acme/weather":                                    {"io.github.acme/weather"},
		"anything but not @evil/server-files":                       nil,
		"use @a/b instead of @c/d-server":                           {"@a/b"},
		"read a file":                                               nil,
		"a well-known low-level thing":                              nil,
		"look at https://example.com/@a/b and x@y.com/z":            nil,
		"mail me@example.com":                                       nil,
		"use npm:server-x and npm:server-x":                         {"server-x"},
		"@modelcontextprotocol/server-everything@latest, then tell": {"@modelcontextprotocol/server-everything"},
	} {
		var got []string
		for _, n := range NamedPackages(intent) {
			got = append(got, n.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", intent, got, want)
		}
	}
}

// What is written behind a name is its version, and is never lost.
func TestNamedVersions(t *testing.T) {
	for intent, want := range map[string]NamedPackage{
		"use @a/b@9.9.9":               {registry.NPM, false, "@a/b", "9.9.9"},
		"use @a/b@9.9.9.":              {registry.NPM, false, "@a/b", "9.9.9"},
		"use `@a/b@1.0.0-rc.1+x`, ok":  {registry.NPM, false, "@a/b", "1.0.0-rc.1+x"},
		"@a/b@latest":                  {registry.NPM, false, "@a/b", "latest"},
		"@a/b@^1.2":                    {registry.NPM, false, "@a/b", "^1.2"},
		"@a/b@>=2":                     {registry.NPM, false, "@a/b", ">=2"},
		"@a/b@1.x":                     {registry.NPM, false, "@a/b", "1.x"},
		"@a/b@*":                       {registry.NPM, false, "@a/b", "*"},
		"@acme/weather-mcp==1.2.3":     {registry.NPM, false, "@acme/weather-mcp", "1.2.3"},
		"mcp-server-git==2026.1.1":     {registry.PyPI, false, "mcp-server-git", "2026.1.1"},
		"pypi:weather==1.0":            {registry.PyPI, true, "weather", "1.0"},
		"pypi:mcp-server-git>=1.0":     {registry.PyPI, true, "mcp-server-git", ">=1.0"},
		"io.github.acme/weather@1.2.3": {ServerName, false, "io.github.acme/weather", "1.2.3"},
		"use @a/b, please":             {registry.NPM, false, "@a/b", ""},
	} {
		if got := NamedPackages(intent); len(got) != 1 || got[0] != want {
			t.Errorf("%q names %+v, want %+v", intent, got, want)
		}
	}
}

func TestNamedLocally(t *testing.T) {
	for _, c := range []struct {
		intent, name string
		want         bool
	}{
		{"read the file with read_file", "read_file", true},
		{"use the memory server", "memory", true},
		{"the server memory has it", "memory", true},
		{"ask the server called memory", "memory", true},
		{"a tool named echo", "echo", true},
		{"in `memory`", "memory", true},
		{"keep it in memory", "memory", false},
		{"my memory serves me well", "memory", false},
		{"do not use the memory server", "memory", false},
		{"take getTinyImage", "getTinyImage", true},
		{"xread_file", "read_file", false},
		{"read_files", "read_file", false},
		{"anything", "", false},
	} {
		if got := NamedLocally(c.intent, c.name) != ""; got != c.want {
			t.Errorf("%q in %q: %v, want %v", c.name, c.intent, got, c.want)
		}
	}
}

func TestNamedIsWhatMeasureSees(t *testing.T) {
	for _, c := range []struct{ intent, name string }{
		{"use @a/b", "@a/b"}, {"weather", "weather"}, {"`weather`", "weather"}, {"not mcp-server-git", "mcp-server-git"}, {"mcp-server-git!", "mcp-server-git"},
	} {
		measured := Measure(c.intent, "", &Candidate{Kind: registry.NPM, Package: c.name}, "").Exact != ""
		if got := Named(c.intent, registry.NPM, c.name) != ""; got != measured {
			t.Errorf("%q in %q: %v, but Measure says %v", c.name, c.intent, got, measured)
		}
	}
}
