package trust

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/registry"
)

// What is told to be added to the trust file opens the gate that is closed.
func TestTrustEntry(t *testing.T) {
	for _, c := range []struct {
		of   Candidate
		gate Gate
		want string
	}{
		{Candidate{Kind: registry.NPM, Package: "@acme/weather"}, GateNamespace, "@acme/weather"},
		{Candidate{Kind: registry.NPM, Package: "@acme/weather", Server: "io.github.acme/weather"}, GateNamespace, "@acme/weather"},
		{Candidate{Kind: registry.NPM, Package: "@acme/weather", Server: "io.github.acme/weather", Extras: []string{"an argument"}}, GateEntry, "server:io.github.acme/weather"},
		{Candidate{Kind: registry.PyPI, Package: "mcp-server-fetch"}, GateNamespace, "pypi:mcp-server-fetch"},
		{Candidate{Kind: registry.OCI, Package: "docker.io/acme/weather"}, GateNamespace, "oci:docker.io/acme/weather"},
		{Candidate{Kind: Remote, Package: "https://weather.example/mcp"}, GateNamespace, "remote:https://weather.example/mcp"},
		{Candidate{Kind: registry.NPM, Package: "@acme/" + strings.Repeat("w", 200)}, GateNamespace, ""}, // no line for a terminal
		{Candidate{Kind: registry.NPM, Package: "@acme/*"}, GateNamespace, ""},
	} {
		got := c.of.TrustEntry(c.gate)
		if got != c.want {
			t.Errorf("%s: %q, want %q", &c.of, got, c.want)
		}
		if got == "" {
			continue
		}
		e, err := ParseEntry(got)
		if err != nil {
			t.Fatal(err)
		}
		p := &Policy{Trusted: []Entry{e}}
		for _, check := range p.Decide(&c.of, Confidence{}, NotAsked).Checks {
			if check.Gate == c.gate && !check.Passed {
				t.Errorf("%s with %s: %s", &c.of, got, check.Reason)
			}
		}
	}
}
