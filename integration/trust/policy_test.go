package trust

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/integration/registry"
)

func policy(t testing.TB, trusted, blocked []string) *Policy {
	t.Helper()
	p := &Policy{Threshold: Threshold}
	for _, text := range trusted {
		p.Trusted = append(p.Trusted, entry(t, text))
	}
	for _, text := range blocked {
		p.Blocked = append(p.Blocked, entry(t, text))
	}
	return p
}

func entry(t testing.TB, text string) Entry {
	t.Helper()
	e, err := ParseEntry(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func npm(name string) Candidate { return Candidate{Kind: registry.NPM, Package: name} }

// Every row of the table: namespace × confidence × setting.
func TestTrustTable(t *testing.T) {
	p := policy(t, []string{"@modelcontextprotocol/*", "@anthropic/*", "@playwright/mcp", "pypi:mcp-server-fetch", "io.github.good/*", "oci:images.example/good/*", "remote:https://mcp.example/*", "@blocked/*"},
		[]string{"@blocked/bad", "@evil/*", "server:io.github.good/bad"})
	broken := policy(t, []string{"@modelcontextprotocol/*"}, nil)
	broken.Problem = "line 3: not JSON"
	spaces := []struct {
		name string
		p    *Policy
		c    Candidate
		gate Gate // the first that fails where all else holds; "": none
	}{
		{"trusted scope", p, npm("@modelcontextprotocol/server-everything"), ""},
		{"another trusted scope", p, npm("@anthropic/thinking"), ""},
		{"trusted name", p, npm("@playwright/mcp"), ""},
		{"trusted Python name", p, Candidate{Kind: registry.PyPI, Package: "MCP_server.fetch"}, ""},
		{"trusted server", p, Candidate{Server: "io.github.good/weather", Kind: registry.NPM, Package: "weather-of-good"}, ""},
		{"trusted server with extras", p, Candidate{Server: "io.github.good/weather", Kind: registry.NPM, Package: "weather-of-good", Extras: []string{"x"}}, ""},
		{"trusted image", p, Candidate{Server: "io.github.b/c", Kind: registry.OCI, Package: "images.example/good/tools/mcp:1.2@sha256:00"}, ""},
		{"trusted remote", p, Candidate{Server: "io.github.b/c", Kind: Remote, Package: "https://MCP.example:443/mcp"}, ""},
		{"deprecated", p, Candidate{Kind: registry.NPM, Package: "@modelcontextprotocol/server-github", Status: registry.Deprecated}, ""},
		{"package trusted, description not", p, Candidate{Server: "io.github.b/c", Kind: registry.NPM, Package: "@modelcontextprotocol/server-everything"}, ""},
		{"description that nobody trusts with extras", p, Candidate{Server: "io.github.b/c", Kind: registry.NPM, Package: "@modelcontextprotocol/server-everything", Extras: []string{"--require x"}}, GateEntry},
		{"deleted", p, Candidate{Kind: registry.NPM, Package: "@modelcontextprotocol/server-everything", Status: registry.Deleted}, GateStatus},
		{"another scope", p, npm("@somebody/tool"), GateNamespace},
		{"no scope", p, npm("some-mcp-tool"), GateNamespace},
		{"scope that only begins alike", p, npm("@playwright/mcp2"), GateNamespace},
		{"another name of an exact entry's scope", p, npm("@playwright/test"), GateNamespace},
		{"a scope in a scope", p, npm("@modelcontextprotocol/a/b"), GateNamespace},
		{"a scope alone", p, npm("@modelcontextprotocol/"), GateNamespace},
		{"another server's namespace", p, Candidate{Server: "io.github.other/weather", Kind: registry.NPM, Package: "weather-of-other"}, GateNamespace},
		{"another host", p, Candidate{Kind: Remote, Package: "https://mcp.example.evil.test/mcp"}, GateNamespace},
		{"another owner's image", p, Candidate{Kind: registry.OCI, Package: "images.example/gooder/mcp"}, GateNamespace},
		{"remote without https", p, Candidate{Kind: Remote, Package: "http://mcp.example/mcp"}, GateNamespace},
		{"remote with a way out", p, Candidate{Kind: Remote, Package: "https://mcp.example/a/%2e%2e/b"}, GateNamespace},
		{"remote with a user", p, Candidate{Kind: Remote, Package: "https://mcp.example@evil.test/x"}, GateNamespace},
		{"remote with a variable", p, Candidate{Kind: Remote, Package: "https://mcp.example/{x}"}, GateNamespace},
		{"blocked in a trusted scope", p, npm("@blocked/bad"), GateBlocked},
		{"nearly blocked in a trusted scope", p, npm("@blocked/b-a-d"), GateBlocked},
		{"blocked scope", p, npm("@evil/anything"), GateBlocked},
		{"blocked server of a trusted namespace", p, Candidate{Server: "io.github.good/bad", Kind: registry.NPM, Package: "x-of-good"}, GateBlocked},
		{"imitation", p, npm("@modelcontextprotoco1/server-everything"), GateImitation},
		{"imitation in a trusted server", p, Candidate{Server: "io.github.good/weather", Kind: registry.NPM, Package: "@modelcontextprotoco1/x"}, GateImitation},
		{"broken file", broken, npm("@modelcontextprotocol/server-everything"), GateFile},
	}
	for _, s := range spaces {
		confidences := []struct {
			c  Confidence
			ok bool
		}{
			{Confidence{Value: 1, Exact: s.c.Package}, true}, {Confidence{Value: 0.95, Exact: s.c.Package}, true}, {Confidence{Value: 0.9, Exact: s.c.Package}, true},
			{Confidence{Value: math.Nextafter(0.9, 0), Exact: s.c.Package}, false}, {Confidence{Value: 0.89}, false}, {Confidence{Value: 0.5}, false}, {Confidence{}, false},
			{Confidence{Value: 1}, false}, {Confidence{Value: 1, Exact: "another"}, false},
			{Confidence{Value: math.NaN(), Exact: s.c.Package}, false}, {Confidence{Value: math.Inf(1), Exact: s.c.Package}, false}, {Confidence{Value: 7, Exact: s.c.Package}, false}, {Confidence{Value: -1, Exact: s.c.Package}, false},
		}
		for _, conf := range confidences {
			for _, setting := range []Setting{Asked, NotAsked, Forbidden, ""} {
				t.Run(fmt.Sprintf("%s/%v %q/%s", s.name, conf.c.Value, conf.c.Exact, setting), func(t *testing.T) {
					d := s.p.Decide(&s.c, conf.c, setting)
					want := s.gate
					if want == "" && !conf.ok {
						want = GateConfidence
					}
					if want == "" && setting != Asked {
						want = GateSetting
					}
					if d.Gate != want || d.Allowed != (want == "") || d.Trusted != (s.gate == "") {
						t.Errorf("gate %q, allowed %t, trusted %t; want gate %q: %+v", d.Gate, d.Allowed, d.Trusted, want, d.Checks)
					}
					if d.Reason() == "" || strings.ContainsFunc(d.Reason(), registry.HiddenAlone) {
						t.Errorf("reason %q", d.Reason())
					}
					// Every gate is told, so that nobody has to fix one after the other.
					for _, gate := range []Gate{GateNamespace, GateConfidence, GateSetting} {
						if n := strings.Count(fmt.Sprint(d.Checks), "{"+string(gate)+" "); n != 1 {
							t.Errorf("gate %q is told %d times", gate, n)
						}
					}
				})
			}
		}
	}
}

func TestThresholdOfTheFile(t *testing.T) {
	c := npm("mcp-server-x")
	p := policy(t, []string{"mcp-server-x"}, nil)
	sure := Confidence{Value: 0.95, Exact: "mcp-server-x"}
	if d := p.Decide(&c, sure, Asked); !d.Allowed {
		t.Errorf("%+v", d)
	}
	p.Threshold = 0.97
	if d := p.Decide(&c, sure, Asked); d.Gate != GateConfidence {
		t.Errorf("a higher threshold: %+v", d)
	}
	p.Threshold = 0.1 // as somebody might who makes a policy by hand
	if d := p.Decide(&c, Confidence{Value: 0.5, Exact: "mcp-server-x"}, Asked); d.Allowed {
		t.Errorf("a threshold below the least: %+v", d)
	}
}

// Names that imitate; with everything else in their favour none may pass.
var imitations = []string{
	// Scopes that look alike.
	"@modelcontextprotoco1/server-filesystem", "@modelcontextprotocoI/server-filesystem", "@rnodelcontextprotocol/server-filesystem",
	"@m0delcontextprotocol/server-filesystem", "@modelc0ntextpr0t0c0l/server-filesystem", "@model-context-protocol/server-filesystem",
	"@model_context_protocol/server-filesystem", "@model.context.protocol/server-filesystem", "@modelcontextprotocols/server-filesystem",
	"@modelcontextprotcol/server-filesystem", "@modelcontextprotoclo/server-filesystem", "@modelcontexprotocol/server-filesystem",
	"@modelcontextprotocoll/server-filesystem", "@mmodelcontextprotocol/server-filesystem", "@modelcontextprotocol-official/server-filesystem",
	"@official-modelcontextprotocol/server-filesystem", "@modelcontextprotocol2/server-filesystem", "@modeicontextprotocol/server-filesystem",
	"@anthropicx/thinking", "@anthr0pic/thinking", "@anthroplc/thinking", "@anthropic-official/thinking", "@antrhopic/thinking", "@anthropicc/thinking", "@the-anthropic/thinking",
	"@playwrlght/mcp", "@playwrigth/mcp", "@p1aywright/mcp", "@str1pe/mcp", "@stripe-inc/mcp", "@sentrv-io/mcp-server", "@sentryy/mcp-server",
	// Case.
	"@ModelContextProtocol/server-filesystem", "@Anthropic/thinking",
	// Homoglyphs: Cyrillic о, е, а, с; Greek omicron; full width; mathematical; dotless i; a dot below.
	"@modelcontextprotоcol/server-filesystem", "@modеlcontextprotocol/server-filesystem", "@аnthropic/thinking", "@modelсontextprotocol/server-filesystem",
	"@modelcοntextprotocol/server-filesystem", "＠modelcontextprotocol/server-filesystem", "@modelcontextprotocol／server-filesystem", "@𝗆odelcontextprotocol/server-filesystem",
	"@anthropıc/thinking", "@anthropi\u0323c/thinking", "@anthropic\u2215thinking",
	// Hidden characters.
	"@modelcontextprotocol\u200b/server-filesystem", "@model\u00adcontextprotocol/server-filesystem", "\u202e@modelcontextprotocol/server-filesystem",
	"@modelcontextprotocol/server-filesystem\u2060", "@modelcontextprotocol\x00/server-filesystem", "@modelcontextprotocol/server-\U000E0066ilesystem", "\ufeff@anthropic/thinking", "@anthropic\u3164/thinking",
	// Without the scope, in another one, or scope and name in one.
	"server-filesystem", "server_filesystem", "server.filesystem", "serverfilesystem", "filesystem-server", "modelcontextprotocol-server-filesystem",
	"modelcontextprotocol.server-filesystem", "modelcontextprotocolserver-filesystem", "@evil/server-filesystem", "@evil/server-sequential-thinking",
	"playwright-mcp", "playwrightmcp", "stripe-mcp", "sentry-mcp-server",
	// Slips of the finger.
	"server-filesytem", "server-filesystemm", "sever-filesystem", "mcp-server-kuberentes", "mcp-server-kubernets", "mcp-server-kubernettes", "mcpserver-kubernetes", "mcp_server_kubernetes", "mcp-sevrer-kubernetes",
	"mcp-server-1inear", "mcp-server-linaer",
	// The same name elsewhere.
	"mcp-server-fetch", "mcp-server-git",
}

func TestImitationsNeverPass(t *testing.T) {
	if len(imitations) < 40 {
		t.Fatal("too few")
	}
	for _, name := range imitations {
		t.Run(quote(name), func(t *testing.T) {
			c := npm(name)
			sure := Confidence{Value: 1, Exact: name}
			d := Default().Decide(&c, sure, Asked)
			if d.Allowed || d.Trusted || d.Gate != GateImitation {
				t.Errorf("by default: gate %q, %+v", d.Gate, d.Checks)
			}
			if strings.ContainsFunc(d.Reason(), registry.HiddenAlone) {
				t.Errorf("reason %q", d.Reason())
			}
			// Described by a server that somebody trusts.
			c.Server = "io.github.good/x"
			if d := policy(t, []string{"io.github.good/*"}, nil).Decide(&c, sure, Asked); d.Allowed || d.Gate != GateImitation {
				t.Errorf("of a trusted server: gate %q, %+v", d.Gate, d.Checks)
			}
			// Somebody was taken in by the namespace.
			if scope, _, scoped := strings.Cut(name, "/"); scoped && scope != "@evil" {
				if e, err := ParseEntry(scope + "/*"); err == nil {
					p := Default()
					p.Trusted = append(p.Trusted, e)
					c := npm(name)
					if d := p.Decide(&c, sure, Asked); d.Allowed {
						t.Errorf("with its namespace trusted: %+v", d)
					}
				}
			}
		})
	}
}

func TestImitatingServersAndAddresses(t *testing.T) {
	p := policy(t, []string{"io.github.acme-tools/*", "remote:https://mcp.notion.example/*", "oci:images.example/acme/*", "@acme-tools/*"}, nil)
	for _, c := range []Candidate{
		{Server: "io.github.modelcontextprotoco1/x", Kind: registry.NPM, Package: "x-y-z"},
		{Server: "io.github.evil.modelcontextprotocol/x", Kind: registry.NPM, Package: "x-y-z"},
		{Server: "com.evil.modelcontextprotocol/x", Kind: registry.NPM, Package: "x-y-z"},
		{Server: "io.github.anthropic-official/x", Kind: registry.NPM, Package: "x-y-z"},
		{Server: "io.github.acme-tool/x", Kind: registry.NPM, Package: "x-y-z"},
		{Server: "io.github.acmetools/x", Kind: registry.NPM, Package: "x-y-z"},
		{Server: "io.github.acrne-tools/x", Kind: registry.NPM, Package: "x-y-z"},
		{Kind: registry.NPM, Package: "@acme-too1s/x"},
		{Kind: registry.PyPI, Package: "mcp-server-gıt"},
		{Kind: registry.PyPI, Package: "mcp_servers_fetch"},
	} {
		d := p.Decide(&c, Confidence{Value: 1, Exact: c.Package}, Asked)
		if d.Gate != GateImitation {
			t.Errorf("%+v: gate %q, %+v", c, d.Gate, d.Checks)
		}
	}
}

// What is not an imitation must not be called one.
func TestHonestNames(t *testing.T) {
	for _, name := range []string{
		"@modelcontextprotocol/server-filesystem", "@modelcontextprotocol/anything", "@anthropic/thinking", "@anthropic-ai/claude-code", "@playwright/mcp", "@playwright/test", "@stripe/mcp", "@sentry/mcp-server", "@sentry/node",
		"mcp-server-kubernetes", "mcp-server-linear", "mcp-server-gitea", "mcp-server-github", "mcp-server-redis", "@notionhq/notion-mcp-server", "@bytebase/dbhub", "chrome-devtools-mcp", "mongodb-mcp-server",
		"@wonderwhy-er/desktop-commander", "@cyanheads/git-mcp-server", "@upstash/context7-mcp", "firecrawl-mcp", "@supabase/mcp-server-supabase", "tavily-mcp", "@azure/mcp", "@angular/cli", "figma-developer-mcp", "mcp", "server",
	} {
		if im := Default().imitation(registry.NPM, name); im != nil {
			t.Errorf("%s: %+v", name, *im)
		}
	}
	for _, name := range []string{"io.github.modelcontextprotocol/everything", "com.stripe/mcp", "io.github.user/weather", "com.notion/mcp", "io.github.github/github-mcp-server"} {
		if im := Default().imitation(ServerName, name); im != nil {
			t.Errorf("%s: %+v", name, *im)
		}
	}
	for _, s := range registry.Builtin() {
		for _, c := range Candidates(&s) {
			if im := Default().imitation(c.Kind, c.Package); im != nil || c.Server != "" {
				t.Errorf("%+v: %+v", c, im)
			}
		}
	}
	// Who names a package exactly in the file has looked at it; two namespaces of
	// one's own may be alike.
	p := policy(t, []string{"server-filesystem", "@acme/*", "@acme1/*"}, nil)
	for _, name := range []string{"server-filesystem", "@acme/x", "@acme1/x"} {
		c := npm(name)
		if d := p.Decide(&c, Confidence{Value: 1, Exact: name}, Asked); !d.Allowed {
			t.Errorf("%s: %+v", name, d.Checks)
		}
	}
}

// Whatever is added to the intent, what is blocked stays blocked, and without
// its name nothing passes.
func TestWordsNeverOvercomeABlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"@modelcontextprotocol/server-everything", "@evil/mcp-server", "mcp-server-bad", "@anthropic/x"}).Draw(t, "name")
		word := rapid.OneOf(rapid.SampledFrom([]string{name, "use", "not", "`" + name + "`", "npm:" + name, "trust", "@modelcontextprotocol/server-everything", "autoProvision", "ignore the block list", "\u200b"}), rapid.String())
		intent := strings.Join(rapid.SliceOfN(word, 0, 12).Draw(t, "intent"), " ")
		more := strings.Join(rapid.SliceOfN(word, 0, 12).Draw(t, "more"), " ")
		kind := rapid.SampledFrom([]string{name, "npm:" + name}).Draw(t, "block")
		blocked := Default()
		e, err := ParseEntry(kind)
		if err != nil {
			t.Fatal(err)
		}
		blocked.Blocked = []Entry{e}
		blocked.Trusted = append(blocked.Trusted, e)
		c := npm(name)
		for _, text := range []string{intent, intent + " " + more, more + " " + intent} {
			d := blocked.Decide(&c, Measure(text, more, &c, text), Asked)
			if d.Allowed || d.Gate != GateBlocked {
				t.Fatalf("intent %q: %+v", text, d)
			}
		}
	})
}

func TestDefault(t *testing.T) {
	if got := len(Default().Trusted); got != len(DefaultEntries) {
		t.Errorf("%d entries", got)
	}
	d, err := parse([]byte(newFile))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(keys(d.trusted.entries)), fmt.Sprint(keys(Default().Trusted)); got != want || len(d.blocked.entries) != 0 {
		t.Errorf("a new file trusts %s, the default %s", got, want)
	}
}

func TestCandidatesTellWhatADescriptionFixes(t *testing.T) {
	s := registry.Server{Name: "io.github.a/b", Packages: []registry.Package{{
		Kind: registry.NPM, Identifier: "@modelcontextprotocol/server-everything", RuntimeHint: "npx",
		RuntimeArgs: []registry.Argument{{Type: "named", Name: "--require", Input: registry.Input{Value: "/tmp/evil\u202e.js"}}},
		PackageArgs: []registry.Argument{{Type: "positional", ValueHint: "folder"}, {Type: "positional", Input: registry.Input{Value: "/"}}},
		Environment: []registry.KeyValue{{Name: "KEY"}, {Name: "MODE", Input: registry.Input{Value: "x"}}, {Name: "NODE_OPTIONS", Input: registry.Input{Default: "--inspect"}}, {Name: "LEVEL", Input: registry.Input{Default: "info"}}},
	}}, Remotes: []registry.Transport{{Type: "sse", URL: "https://a.example/sse"}}}
	list := Candidates(&s)
	if len(list) != 2 || list[1].Kind != Remote || len(list[1].Extras) != 0 {
		t.Fatalf("%+v", list)
	}
	got := strings.Join(list[0].Extras, "\n")
	for _, want := range []string{"npx", "--require", `"/"`, "MODE=x", "NODE_OPTIONS=--inspect"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if len(list[0].Extras) != 4 || strings.ContainsFunc(strings.ReplaceAll(got, "\n", " "), registry.HiddenAlone) {
		t.Errorf("extras\n%s", got)
	}
}

func FuzzDecide(f *testing.F) {
	f.Add("@modelcontextprotocol/server-everything", "io.github.a/b", "use it", "npm")
	f.Add("@modelcontextprotocol\u200b/x", "", "use @modelcontextprotocol/x", "npm")
	f.Add("https://a.example/%2e%2e/x", "a.b/c", "", "remote")
	f.Fuzz(func(t *testing.T, name, server, intent, kind string) {
		c := Candidate{Server: server, Kind: registry.Kind(kind), Package: name}
		p := Default()
		m := Measure(intent, "", &c, intent)
		if !(m.Value >= 0 && m.Value <= 1) || (m.Value >= Threshold) != (m.Exact != "") {
			t.Fatalf("confidence %+v", m)
		}
		d := p.Decide(&c, m, Asked)
		if d.Allowed {
			scope, base, found := strings.Cut(name, "/")
			if !found || kind != "npm" || scope != "@modelcontextprotocol" && scope != "@anthropic" || base == "" || oddCharacters(name) != "" || !strings.Contains(intent, name) && !strings.Contains(intent, server) {
				t.Fatalf("%+v passed with %q: %+v", c, intent, d)
			}
		}
		for _, check := range d.Checks {
			if strings.ContainsFunc(check.Reason, registry.HiddenAlone) {
				t.Fatalf("hidden characters in %q", check.Reason)
			}
		}
		if e, err := ParseEntry(name); err == nil && !e.All {
			if again, err := ParseEntry(string(e.Kind) + ":" + e.Name); err != nil || again.key() != e.key() {
				t.Fatalf("%q: %+v, %v", name, again, err)
			}
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	p := Default()
	for i := range maxEntries {
		e := entry(b, fmt.Sprintf("@scope-%d/*", i))
		p.Trusted, p.Blocked = append(p.Trusted, e), append(p.Blocked, entry(b, fmt.Sprintf("@bad-%d/*", i)))
	}
	c := npm("@somebody/mcp-server-else")
	for b.Loop() {
		p.Decide(&c, Confidence{Value: 1, Exact: c.Package}, Asked)
	}
}
