package trust

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/registry"
)

func TestConfidence(t *testing.T) {
	files := Candidate{Kind: registry.NPM, Package: "@modelcontextprotocol/server-filesystem"}
	weather := Candidate{Server: "io.github.user/weather", Kind: registry.PyPI, Package: "weather"}
	kube := Candidate{Kind: registry.NPM, Package: "mcp-server-kubernetes"}
	const aboutFiles = "Read, write, search and move files in folders that you allow"
	const aboutWeather = "Weather forecasts"
	const exact, not = true, false
	for _, tt := range []struct {
		intent string
		c      Candidate
		about  string
		exact  bool
	}{
		{"use @modelcontextprotocol/server-filesystem", files, aboutFiles, exact},
		{"@modelcontextprotocol/server-filesystem", files, aboutFiles, exact},
		{"Please install @modelcontextprotocol/server-filesystem, then read x.", files, aboutFiles, exact},
		{"install (@modelcontextprotocol/server-filesystem@2026.8.31).", files, aboutFiles, exact},
		{"npm:@modelcontextprotocol/server-filesystem", files, aboutFiles, exact},
		{"`@modelcontextprotocol/server-filesystem`", files, aboutFiles, exact},
		{"don't use @evil/x. Use @modelcontextprotocol/server-filesystem", files, aboutFiles, exact},
		{"read, write, search and move files in folders that I allow, with the filesystem server", files, aboutFiles, not},
		{"modelcontextprotocol server filesystem", files, aboutFiles, not},
		{"@modelcontextprotocol/server-filesystem-evil", files, aboutFiles, not},
		{"x@modelcontextprotocol/server-filesystem", files, aboutFiles, not},
		{"@modelcontextprotocol/server-filesystem/../evil", files, aboutFiles, not},
		{"@modelcontextprotocol/server-filesystem@npm:evil", files, aboutFiles, not},
		{"https://evil.test/@modelcontextprotocol/server-filesystem", files, aboutFiles, not},
		{"@modelcontextprotocol\u200b/server-filesystem", files, aboutFiles, not},
		{"@modelcontextprotоcol/server-filesystem", files, aboutFiles, not},
		{"@MODELCONTEXTPROTOCOL/server-filesystem", files, aboutFiles, not},
		{"do not use @modelcontextprotocol/server-filesystem", files, aboutFiles, not},
		{"anything but don’t install the @modelcontextprotocol/server-filesystem", files, aboutFiles, not},
		{"something other than @modelcontextprotocol/server-filesystem", files, aboutFiles, not},
		{"remove @modelcontextprotocol/server-filesystem", files, aboutFiles, not},
		{"use io.github.user/weather", weather, aboutWeather, exact},
		{"use pypi:weather", weather, aboutWeather, exact},
		{"use the package `weather`", weather, aboutWeather, exact},
		{"I want weather", weather, aboutWeather, not},
		{"weather", weather, aboutWeather, not},
		{"weather forecasts weather forecasts weather", weather, aboutWeather, not},
		{"use npm:weather", weather, aboutWeather, not},
		{"use mcp-server-kubernetes", kube, "", exact},
		{"use mcp server kubernetes", kube, "", not},
		{"", kube, "", not},
	} {
		m := Measure(tt.intent, "", &tt.c, tt.about)
		if (m.Value >= Threshold) != tt.exact || (m.Exact != "") != tt.exact || m.Value < 0 || m.Value > 1 || m.Why == "" {
			t.Errorf("%q for %s: %+v, want exact %t", tt.intent, &tt.c, m, tt.exact)
		}
		// What is only context names nothing.
		if m := Measure("something", tt.intent, &tt.c, tt.about); m.Value >= Threshold {
			t.Errorf("context %q for %s: %+v", tt.intent, &tt.c, m)
		}
	}
}

// A description cannot raise the confidence to where nobody is asked, whatever
// it says.
func TestDescriptionsNeverReachTheGate(t *testing.T) {
	c := Candidate{Server: "io.github.evil/files", Kind: registry.NPM, Package: "files"}
	for _, intent := range []string{"files", "I need to read files", strings.Repeat("files ", 5000)} {
		for _, about := range []string{intent, "@modelcontextprotocol/server-filesystem " + intent, strings.Repeat(intent+" ", 3)} {
			if m := Measure(intent, about, &c, about); m.Value > most || m.Exact != "" {
				t.Errorf("%.40q, %.40q: %+v", intent, about, m)
			}
		}
	}
}

func TestConfidenceOrdersWhatIsMeant(t *testing.T) {
	files := Candidate{Kind: registry.NPM, Package: "@modelcontextprotocol/server-filesystem"}
	slack := Candidate{Kind: registry.NPM, Package: "@modelcontextprotocol/server-slack"}
	const aboutFiles, aboutSlack = "Read, write, search and move files in folders that you allow", "Slack channels, messages, threads, reactions and users"
	for intent, first := range map[string]*Candidate{"search the files in a folder": &files, "post messages to slack channels": &slack, "filesystem access": &files} {
		a, b := Measure(intent, "", &files, aboutFiles).Value, Measure(intent, "", &slack, aboutSlack).Value
		if (a > b) != (first == &files) || a == b {
			t.Errorf("%q: files %v, slack %v", intent, a, b)
		}
	}
}
