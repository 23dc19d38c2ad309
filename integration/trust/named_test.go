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
		if got := NamedPackages(intent); !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", intent, got, want)
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
