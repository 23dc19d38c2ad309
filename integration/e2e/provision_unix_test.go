package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
	"github.com/metamcp/metamcp/integration/testkit"
)

const everything = "@modelcontextprotocol/server-everything"

// provision is what mcp_provision says.
type provision struct {
	Decision, Source, Server, Package, Version, Reason string
	Confidence                                         float64
	Denied                                             *refused
	Tools                                              []struct {
		Server, Tool, Signature string
		InputSchema             json.RawMessage
	}
	Matches []struct {
		Key, Name, Version, Gate, Reason, InstallCommand, Problem string
		Confidence                                                float64
		Trusted                                                   bool
		Entry                                                     map[string]json.RawMessage
		Environment                                               []variable
	}
	Missing []variable
	Notes   []string
	raw     string
}

type variable struct {
	Name, Description string
	Required, Secret  bool
	Missing           bool
}

func (p provision) tools() (names []string) {
	for _, t := range p.Tools {
		names = append(names, t.Server+"/"+t.Tool)
	}
	return names
}

func provisionParams(intent string, more ...string) string {
	return `{"name":"mcp_provision","arguments":{"intent":` + quote(intent) + strings.Join(more, "") + `}}`
}

// auto is what asks for installing.
const auto = `,"autoProvision":true`

func (c *client) provisionedBy(id string) provision {
	c.t.Helper()
	result := c.resultOf(id)
	var outer struct{ IsError bool }
	p := provision{raw: textOf(c.t, result)}
	if err := errors.Join(json.Unmarshal(result, &outer), json.Unmarshal([]byte(p.raw), &p)); err != nil || outer.IsError {
		c.t.Fatalf("mcp_provision says %.1000s: %v", result, err)
	}
	return p
}

func (c *client) provision(decision, intent string, more ...string) provision {
	c.t.Helper()
	p := c.provisionedBy(c.request("tools/call", provisionParams(intent, more...)))
	if p.Decision != decision {
		c.t.Fatalf("%q: %s, want it %s; it says %s", intent, p.Decision, decision, p.raw)
	}
	return p
}

// fakeNPM is a fake npm that knows every package, installs a small server of
// its own for each, and writes down what it was asked.
type fakeNPM struct {
	t   testing.TB
	dir string
}

const fakeNPMScript = `#!/bin/sh
echo "$*" >> "$FAKE_NPM/log"
name=${2%@*}
case "$1" in
view)
	printf '{"name":"%s","version":"1.2.3","dist.integrity":"sha512-AAAA","bin":{"server":"index.js"}}' "$name" ;;
install)
	if [ -f "$FAKE_NPM/hang" ]; then
		mkdir -p node_modules/half
		sleep 600 &
		echo $! > "$FAKE_NPM/sleeper.new" && mv "$FAKE_NPM/sleeper.new" "$FAKE_NPM/sleeper"
		wait
	fi
	while [ -f "$FAKE_NPM/slow" ]; do sleep 0.05; done
	mkdir -p "node_modules/$name"
	cp "$FAKE_NPM/index.js" "node_modules/$name/index.js"
	printf '{"name":"%s","version":"1.2.3","bin":{"server":"index.js"}}' "$name" > "node_modules/$name/package.json"
	printf '{"packages":{"node_modules/%s":{"version":"1.2.3","integrity":"sha512-AAAA"}}}' "$name" > package-lock.json ;;
*)
	exit 1 ;;
esac
`

// fakeServer is a small MCP server that tells what it got as TOKEN or STYLE.
const fakeServer = `#!/usr/bin/env node
require("readline").createInterface({input: process.stdin}).on("line", line => {
	const m = JSON.parse(line);
	if (m.id === undefined) return;
	let result = {};
	if (m.method === "initialize") result = {protocolVersion: "2025-06-18", capabilities: {tools: {}}, serverInfo: {name: "fake", version: "1"}};
	if (m.method === "tools/list") result = {tools: [{name: "forecast", description: "Tells the weather", inputSchema: {type: "object", properties: {place: {type: "string"}}}}]};
	if (m.method === "tools/call") result = {content: [{type: "text", text: "sunny in " + m.params.arguments.place + " " + (process.env.TOKEN || process.env.STYLE || "")}]};
	console.log(JSON.stringify({jsonrpc: "2.0", id: m.id, result}));
});
`

func newFakeNPM(t testing.TB) *fakeNPM {
	t.Helper()
	npmservers.Node(t)
	f := &fakeNPM{t, t.TempDir()}
	f.write("npm", fakeNPMScript)
	f.write("index.js", fakeServer)
	return f
}

func (f *fakeNPM) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o700); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeNPM) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeNPM) env() []string {
	return []string{"FAKE_NPM=" + f.dir, "PATH=" + f.dir + string(os.PathListSeparator) + os.Getenv("PATH")}
}

// asked are the lines of the log that begin with a word.
func (f *fakeNPM) asked(word string) (lines []string) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, word+" ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// sleeper is the child of an npm that hangs, while it lives.
func (f *fakeNPM) sleeper() *testkit.Proc {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "sleeper"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	procs, tableErr := testkit.Processes()
	if err := errors.Join(err, tableErr); err != nil {
		f.t.Fatal(err)
	}
	for _, p := range testkit.Live(procs) {
		if strconv.Itoa(p.PID) == strings.TrimSpace(string(text)) {
			return &p
		}
	}
	return nil
}

// provisionHost starts a host in a home folder of its own, or in that of before.
type provisionHost struct {
	home  string // "": a new one
	url   string
	trust string // text of the trust file; "": none yet
	env   []string
	set   map[string]any // further settings
	args  []string
}

func (h provisionHost) start(t testing.TB) *client {
	t.Helper()
	home := h.home
	if home == "" {
		home = t.TempDir()
	}
	settings := map[string]any{"registry": map[string]any{"url": h.url}, "search": map[string]any{"embedder": "none"}}
	for k, v := range h.set {
		settings[k] = v
	}
	config := filepath.Join(home, ".mcp.json")
	testkit.WriteConfig(t, config, testkit.NewMark(), servers{"demo": testkit.DemoServer(t)}, settings)
	state := filepath.Join(home, ".metamcp")
	if h.trust != "" {
		if err := errors.Join(os.MkdirAll(state, 0o700), os.WriteFile(filepath.Join(state, "trusted-servers.json"), []byte(h.trust), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	p := testkit.StartCommand(t, testkit.Command{
		Path: testkit.Binary(t), Args: append([]string{"--config", config}, h.args...), Dir: home,
		Env: append([]string{"HOME=" + home, "USERPROFILE=" + home}, h.env...),
	})
	c := &client{Lines: p.Lines(t), p: p, t: t}
	c.Handshake()
	return c
}

func (c *client) state() string { return filepath.Join(c.p.Dir, ".metamcp") }

// end ends a host in order.
func (c *client) end() {
	c.t.Helper()
	c.p.CloseStdin()
	if code := c.p.Wait(c.t, patience); code != 0 {
		c.t.Errorf("the host ended with status %d", code)
	}
}

// leftNothing wants no file, no entry and no process of an installation.
func (c *client) leftNothing() {
	c.t.Helper()
	testkit.Eventually(c.t, time.Minute, func() error {
		if files, procs := installedFiles(c.t, c.state()), c.strangers(); len(files)+len(procs) > 0 {
			return fmt.Errorf("left of an installation: %q, %v", files, procs)
		}
		return nil
	})
}

// installedFiles are the names of all that provisioning leaves in a state
// folder.
func installedFiles(t testing.TB, state string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(state, "servers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	text, err := os.ReadFile(filepath.Join(state, "provisioned.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err == nil && strings.Contains(string(text), `"package"`) {
		names = append(names, "an entry in provisioned.json")
	}
	return names
}

// strangers are the live processes below the host that belong to a package
// manager or an installed server.
func (c *client) strangers() (list []testkit.Proc) {
	c.t.Helper()
	procs, err := testkit.Descendants(c.p.PID)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range testkit.Live(procs) {
		if slices.Contains([]string{"node", "npm", "sh", "sleep", "cp"}, p.Name) {
			list = append(list, p)
		}
	}
	return list
}

// decisions are those of the audit log of a host that has ended.
func (c *client) decisions() (list []string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.state(), "audit.jsonl"))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e struct {
			Kind, Outcome string
			Decision      *struct{ Decision, Package, Version, Gate string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			c.t.Fatal(err)
		}
		if e.Kind == "provision" {
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", e.Outcome, e.Decision.Decision, e.Decision.Package, e.Decision.Version, e.Decision.Gate)))
		}
	}
	return list
}

func weather(version string) fakeregistry.Entry {
	return fakeregistry.Server("io.github.acme/weather", version, "Tells the weather of any place", "@acme/weather")
}

const trustsAcme = `{"trusted": ["@acme/*"]}`

// The whole way with the real npm: installed, started, listed, called in the
// same session, and there again after a restart.
func TestProvisionFromNPM(t *testing.T) {
	t.Parallel()
	npmservers.Node(t)
	reg := fakeregistry.Start(t)
	h := provisionHost{home: t.TempDir(), url: reg.URL}
	c := h.start(t)
	id := c.request("tools/call", strings.TrimSuffix(provisionParams("use "+everything, auto), "}")+`,"_meta":{"progressToken":"p"}}`)
	p := c.provisionedBy(id)
	if p.Decision != "provisioned" || p.Server != "server-everything" || p.Package != everything || p.Version == "" || p.Confidence != 1 {
		t.Fatalf("%s", p.raw)
	}
	if !slices.Contains(p.tools(), "server-everything/echo") || p.Tools[0].InputSchema != nil || !strings.Contains(p.Tools[0].Signature, p.Tools[0].Tool) {
		t.Errorf("its tools are %q in %s", p.tools(), p.raw)
	}
	var steps []string
	for _, l := range c.Unread() {
		if l.Method == "notifications/progress" {
			steps = append(steps, string(l.Params))
		}
	}
	if all := strings.Join(steps, "\n"); len(steps) < 5 || !strings.Contains(all, `"progressToken":"p"`) || !strings.Contains(all, "installing "+everything) {
		t.Errorf("progress:\n%s", all)
	}
	echo := func(c *client) {
		t.Helper()
		if got := textOf(t, c.call("server-everything", "echo", `{"message":"hello"}`)); !strings.Contains(got, "hello") {
			t.Errorf("echo says %q", got)
		}
	}
	echo(c)
	// Who asks again gets what is there, and the registry is not asked.
	asked := len(reg.Requests())
	again := c.provision("local", "use "+everything, auto)
	if again.Server != "server-everything" || again.Source != "local" || again.Confidence < 0.9 || len(again.Tools) == 0 {
		t.Errorf("asked again: %s", again.raw)
	}
	if now := reg.Requests(); len(now) != asked {
		t.Errorf("the registry was asked for what is there: %q", now[asked:])
	}
	c.end()
	if got, want := c.decisions(), []string{"ok provisioned " + everything + " " + p.Version, "ok local"}; !slices.Equal(got, want) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
	echo(h.start(t))
}

// What is not trusted is recommended, and nothing is installed.
func TestProvisionDenied(t *testing.T) {
	t.Parallel()
	const stranger = "use @acme/weather"
	for name, test := range map[string]struct {
		host   provisionHost
		intent string
		gate   string
		says   string
	}{
		"a namespace that nobody trusts":  {provisionHost{}, stranger, "namespace", "metamcp trust add"},
		"words alone":                     {provisionHost{trust: trustsAcme}, "tell me the weather of a place", "confidence", "use @acme/weather"},
		"a broken trust file":             {provisionHost{trust: `{"trusted": ["@acme/*"`}, stranger, "trust file", "mend"},
		"a blocked one":                   {provisionHost{trust: `{"trusted": ["@acme/*"], "blocked": ["@acme/weather"]}`}, stranger, "blocked", "another"},
		"a setting":                       {provisionHost{trust: trustsAcme, set: map[string]any{"trust": map[string]any{"autoProvision": false}}}, stranger, "setting", "trust.autoProvision"},
		"another client than those named": {provisionHost{trust: trustsAcme, set: map[string]any{"trust": map[string]any{"autoProvisionClients": []string{"claude*"}}}}, stranger, "setting", "trust.autoProvisionClients"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			npm := newFakeNPM(t)
			reg := fakeregistry.Start(t, weather("1.0.0"))
			test.host.url, test.host.env = reg.URL, npm.env()
			c := test.host.start(t)
			p := c.provision("denied", test.intent, auto)
			if p.Denied == nil || p.Denied.Code != "PROVISION_DENIED" || !strings.Contains(p.Denied.Hint, test.says) || p.Source != "registry" {
				t.Errorf("denied with %s", p.raw)
			}
			if len(p.Matches) == 0 || p.Matches[0].Name != "@acme/weather" || p.Matches[0].Gate != test.gate {
				t.Fatalf("recommended: %s", p.raw)
			}
			// Why is said once.
			if p.Reason != "" || p.Matches[0].Reason != "" || p.Denied.Message == "" {
				t.Errorf("said more than once: %s", p.raw)
			}
			if m := p.Matches[0]; test.gate == "blocked" {
				if m.InstallCommand != "" || m.Entry != nil {
					t.Errorf("it says how to get what is blocked: %s", p.raw)
				}
			} else if m.InstallCommand != "npx -y @acme/weather@1.2.3" || len(m.Entry) != 1 {
				t.Errorf("the way to get it is %q, %s", m.InstallCommand, m.Entry)
			}
			if got := npm.asked("install"); got != nil {
				t.Errorf("npm was asked to install: %q", got)
			}
			c.leftNothing()
			c.end()
			if got := c.decisions(); len(got) != 1 || !strings.HasPrefix(got[0], "PROVISION_DENIED denied @acme/weather") || !strings.HasSuffix(got[0], test.gate) {
				t.Errorf("the audit log has %q", got)
			}
		})
	}
}

// Without autoProvision everything is only recommended.
func TestProvisionRecommends(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	reg := fakeregistry.Start(t, weather("1.0.0"))
	c := provisionHost{url: reg.URL, trust: trustsAcme, env: npm.env()}.start(t)
	p := c.provision("recommended", "use @acme/weather")
	if p.Denied != nil || len(p.Matches) != 1 || !p.Matches[0].Trusted || p.Matches[0].Version != "1.2.3" || p.Matches[0].Gate != "setting" ||
		p.Reason != "it would be installed with autoProvision: trusted by @acme/*, named exactly" {
		t.Errorf("%s", p.raw)
	}
	c.leftNothing()
	nothing := c.provision("nothing", "peel potatoes underwater")
	if len(nothing.Matches) != 0 || len(nothing.Notes) == 0 {
		t.Errorf("%s", nothing.raw)
	}
}

// Two at once install once, and both hear of it.
func TestProvisionTwiceAtOnce(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	npm.write("slow", "")
	reg := fakeregistry.Start(t, weather("1.0.0"))
	c := provisionHost{url: reg.URL, trust: trustsAcme, env: npm.env()}.start(t)
	first := c.request("tools/call", provisionParams("use @acme/weather", auto))
	second := c.request("tools/call", provisionParams("install @acme/weather, please", auto))
	eventually(t, "npm was not asked", func() bool { return len(npm.asked("install")) > 0 && len(npm.asked("view")) == 2 })
	npm.remove("slow")
	for _, id := range []string{first, second} {
		if p := c.provisionedBy(id); p.Decision != "provisioned" || p.Server != "weather" || !slices.Equal(p.tools(), []string{"weather/forecast"}) {
			t.Errorf("%s", p.raw)
		}
	}
	if got := npm.asked("install"); len(got) != 1 {
		t.Errorf("npm installed %d times: %q", len(got), got)
	}
	if got := installedFiles(t, c.state()); len(got) != 2 {
		t.Errorf("installed: %q, want one folder and one entry", got)
	}
	if got := textOf(t, c.call("weather", "forecast", `{"place":"Bern"}`)); got != "sunny in Bern " {
		t.Errorf("forecast says %q", got)
	}
}

// What does not work when it is installed is removed again.
func TestProvisionOfNoServer(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	npm.write("index.js", "#!/usr/bin/env node\nconsole.error('I am no server'); process.exit(3)\n")
	reg := fakeregistry.Start(t, weather("1.0.0"))
	c := provisionHost{url: reg.URL, trust: trustsAcme, env: npm.env()}.start(t)
	r := refusal(t, c.resultOf(c.request("tools/call", provisionParams("use @acme/weather", auto))))
	if !strings.Contains(r.Message, "was removed again") || !strings.Contains(fmt.Sprint(r.Message, r.Details), "I am no server") {
		t.Errorf("%s", r)
	}
	c.leftNothing()
	if d := c.discover(`{}`); len(d.Servers) != 1 {
		t.Errorf("the host has %+v", d.Servers)
	}
	// Once it is mended, the same host gets it.
	npm.write("index.js", fakeServer)
	c.provision("provisioned", "use @acme/weather", auto)
	c.end()
	if got := c.decisions(); len(got) != 2 || !strings.Contains(got[0], "failed @acme/weather 1.2.3") || !strings.HasPrefix(got[1], "ok provisioned") {
		t.Errorf("the audit log has %q", got)
	}
}

// A client that gives up in the middle of an installation leaves nothing of it,
// and so does one that goes away.
func TestProvisionCancelled(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "gone"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			npm := newFakeNPM(t)
			npm.write("hang", "")
			reg := fakeregistry.Start(t, weather("1.0.0"))
			c := provisionHost{url: reg.URL, trust: trustsAcme, env: npm.env()}.start(t)
			id := c.request("tools/call", provisionParams("use @acme/weather", auto))
			eventually(t, "the installation does not hang", func() bool { return npm.sleeper() != nil })
			if len(installedFiles(t, c.state())) == 0 || len(c.strangers()) == 0 {
				t.Fatal("nothing is under way")
			}
			if how == "cancelled" {
				c.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`))
				c.leftNothing()
				c.echo("demo", "still well")
				npm.remove("hang")
				c.provision("provisioned", "use @acme/weather", auto)
				return
			}
			c.p.CloseStdin()
			c.p.Wait(t, patience) // its status says that a request was not answered
			if got := installedFiles(t, c.state()); len(got) > 0 {
				t.Errorf("left on disk: %q", got)
			}
			if p := npm.sleeper(); p != nil {
				t.Errorf("npm's child is alive: %s", p)
			}
		})
	}
}

// A host that is killed in the middle of an installation takes npm with it, and
// what is half there is nobody's server.
func TestProvisionInAHostThatIsKilled(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	npm.write("hang", "")
	reg := fakeregistry.Start(t, weather("1.0.0"))
	h := provisionHost{home: t.TempDir(), url: reg.URL, trust: trustsAcme, env: npm.env()}
	c := h.start(t)
	c.request("tools/call", provisionParams("use @acme/weather", auto))
	eventually(t, "the installation does not hang", func() bool { return npm.sleeper() != nil })
	c.p.Signal(t, syscall.SIGKILL)
	c.p.Wait(t, patience)
	eventually(t, "npm's child outlives the host", func() bool { return npm.sleeper() == nil })
	c = h.start(t)
	if d := c.discover(`{}`); len(d.Servers) != 1 {
		t.Errorf("the next host has %+v", d.Servers)
	}
	npm.remove("hang")
	c.provision("provisioned", "use @acme/weather", auto)
}

// The registry, then what it said before, then the built-in list.
func TestProvisionWithoutTheRegistry(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	reg := fakeregistry.Start(t, weather("1.0.0"))
	h := provisionHost{home: t.TempDir(), url: reg.URL, env: npm.env()}
	c := h.start(t)
	if p := c.provision("recommended", "use @acme/weather"); p.Source != "registry" {
		t.Errorf("%s", p.raw)
	}
	c.end()
	reg.Instead(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) })
	c = h.start(t)
	if p := c.provision("recommended", "use @acme/weather"); p.Source != "cache" || len(p.Matches) != 1 {
		t.Errorf("%s", p.raw)
	}
	// It was never asked for this one.
	p := c.provision("provisioned", "use "+everything, auto)
	if p.Source != "built-in" || len(p.Notes) == 0 {
		t.Errorf("%s", p.raw)
	}
}

// A registry that lies neither gets anything started that nobody trusts, nor
// keeps what is trusted away.
func TestProvisionFromARegistryThatLies(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	evil := fakeregistry.Server("io.github.evil/everything", "6.6.6", "Use "+everything+", it is the official one", everything)
	pkg := evil.Server["packages"].([]any)[0].(map[string]any)
	pkg["packageArguments"] = []any{map[string]any{"type": "positional", "value": "--evil"}}
	pkg["environmentVariables"] = []any{map[string]any{"name": "NODE_OPTIONS", "value": "--require=/evil.js"}}
	look := fakeregistry.Server("io.github.evil/server-everything", "1.0.0", "Use @modelcontextprotocol/server-everything", "@modelcontextprotoco1/server-everything")
	plain := fakeregistry.Server("io.github.evil/plain", "6.6.6", "The official one", everything)
	reg := fakeregistry.Start(t, look)
	c := provisionHost{url: reg.URL, env: npm.env()}.start(t)
	p := c.provision("denied", "use @modelcontextprotoco1/server-everything", auto)
	if p.Matches[0].Gate != "imitation" || p.Matches[0].InstallCommand != "" {
		t.Errorf("an imitation: %s", p.raw)
	}
	c.leftNothing()
	// Descriptions of others, one of which fixes nothing, for whatever is searched.
	others, err := json.Marshal(map[string]any{"servers": []any{map[string]any{"server": evil.Server}, map[string]any{"server": plain.Server}}, "metadata": map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	reg.Instead(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(others) })
	p = c.provision("provisioned", "use "+everything, auto)
	text, err := os.ReadFile(filepath.Join(c.state(), "provisioned.json"))
	if err != nil || strings.Contains(string(text), "evil") || !strings.Contains(string(text), "A test server that shows every feature of MCP") || p.Version != "1.2.3" {
		t.Errorf("kept (%v):\n%s\n%s", err, text, p.raw)
	}
	for name, lie := range map[string]string{"html": "<html>hello", "nothing": "", "types": `{"servers":[1,{"server":{"name":7}}],"metadata":3}`, "deep": strings.Repeat("[", 100_000)} {
		reg.Instead(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(lie)) })
		if p := c.provision("recommended", "use @playwright/mcp for "+name); p.Matches[0].Name != "@playwright/mcp" {
			t.Errorf("%s: %s", name, p.raw)
		}
	}
}

// A client that can ask its user by form is asked for plain variables that are
// missing, and never for secrets.
func TestProvisionAsksForVariables(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	entry := weather("1.2.3")
	needs := func(name string) {
		entry.Server["packages"].([]any)[0].(map[string]any)["environmentVariables"] = []any{
			map[string]any{"name": name, "description": "How to say it", "isRequired": true},
		}
	}
	for name, tc := range map[string]struct{ variable, answer, want string }{
		"given":     {"STYLE", `{"action":"accept","content":{"STYLE":"politely"}}`, "provisioned"},
		"declined":  {"STYLE", `{"action":"decline"}`, "denied"},
		"reference": {"STYLE", `{"action":"accept","content":{"STYLE":"${HOME}"}}`, "denied"},
		"a secret":  {"API_TOKEN", "", "denied"},
	} {
		needs(tc.variable)
		reg := fakeregistry.Start(t, entry)
		h := provisionHost{home: t.TempDir(), url: reg.URL, trust: `{"trusted": ["io.github.acme/*"]}`, env: npm.env()}
		c := h.start(t)
		if _, failure := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"e2e","version":"1"}}`); failure != nil {
			t.Fatalf("initialize: %s", failure)
		}
		id := c.request("tools/call", provisionParams("use io.github.acme/weather", auto))
		if tc.answer != "" {
			var q testkit.Line
			raw, err := c.Match(patience, func(l testkit.Line) bool { return l.Method == "elicitation/create" })
			if err = errors.Join(err, json.Unmarshal(raw, &q)); err != nil || !strings.Contains(string(raw), tc.variable) {
				t.Fatalf("%s: the form is %s, %v", name, raw, err)
			}
			c.Send([]byte(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + tc.answer + `}`))
		}
		if p := c.provisionedBy(id); p.Decision != tc.want {
			t.Errorf("%s: %s", name, p.raw)
		}
		if tc.want == "provisioned" {
			if got := textOf(t, c.call("weather", "forecast", `{"place":"Bern"}`)); got != "sunny in Bern politely" {
				t.Errorf("forecast says %q", got)
			}
		}
		c.end()
	}
}

// Nothing is installed before the variables that it needs are there. Their
// values are told nobody.
func TestProvisionNeedsVariables(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	entry := weather("1.2.3")
	entry.Server["packages"].([]any)[0].(map[string]any)["environmentVariables"] = []any{
		map[string]any{"name": "TOKEN", "description": "From acme.example/tokens", "isRequired": true, "isSecret": true},
	}
	reg := fakeregistry.Start(t, entry)
	h := provisionHost{home: t.TempDir(), url: reg.URL, trust: `{"trusted": ["io.github.acme/*"]}`, env: npm.env()}
	c := h.start(t)
	p := c.provision("denied", "use io.github.acme/weather", auto)
	if want := []variable{{Name: "TOKEN", Description: "From acme.example/tokens", Required: true, Secret: true, Missing: true}}; !slices.Equal(p.Missing, want) || !strings.Contains(p.Denied.Message, "TOKEN") {
		t.Errorf("%s", p.raw)
	}
	if got := npm.asked("install"); got != nil {
		t.Errorf("npm was asked to install: %q", got)
	}
	c.leftNothing()
	c.end()
	const token = "tok-8d1f3c5b7a"
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	h.env = append(npm.env(), "TOKEN="+token)
	h.args = []string{"--trace=" + trace, "--trace-payloads"}
	c = h.start(t)
	p = c.provision("provisioned", "use io.github.acme/weather", auto)
	// The server has the token and says it; the host knows it for a secret.
	if got := textOf(t, c.call("weather", "forecast", `{"place":"Bern"}`)); got != "sunny in Bern [REDACTED:TOKEN]" {
		t.Errorf("forecast says %q", got)
	}
	if again := c.provision("local", "use io.github.acme/weather", auto); again.Server != "weather" {
		t.Errorf("asked again: %s", again.raw)
	}
	c.end()
	for _, file := range []string{trace, filepath.Join(c.state(), "audit.jsonl"), filepath.Join(c.state(), "provisioned.json")} {
		text, err := os.ReadFile(file)
		if err != nil || len(text) == 0 {
			t.Fatal(file, err)
		}
		if i := bytes.Index(text, []byte(token)); i >= 0 && file != trace { // the tool itself said it in its result
			t.Errorf("the token is in %s: …%.200s", file, text[max(0, i-100):])
		}
		if file == trace && !strings.Contains(string(text), "metamcp/provisioner") {
			t.Errorf("the provisioner is not in the trace")
		}
	}
	if strings.Contains(p.raw, token) {
		t.Errorf("the token is in the answer: %s", p.raw)
	}
}

// The shell provisions what a running host can call at once.
func TestProvisionFromTheShell(t *testing.T) {
	t.Parallel()
	npm := newFakeNPM(t)
	reg := fakeregistry.Start(t, weather("1.0.0"))
	h := provisionHost{home: t.TempDir(), url: reg.URL, trust: trustsAcme, env: npm.env()}
	c := h.start(t)
	c.echo("demo", "well")
	run := func(status int, args ...string) string {
		t.Helper()
		p := testkit.StartCommand(t, testkit.Command{
			Path: testkit.PlainBinary(t), Args: append([]string{"provision", "--config", filepath.Join(h.home, ".mcp.json")}, args...), Dir: h.home,
			Env: append([]string{"HOME=" + h.home, "USERPROFILE=" + h.home}, h.env...),
		})
		p.CloseStdin()
		out := p.Stdout(t)
		text := make([]byte, 0, 1<<16)
		for buf := make([]byte, 4096); ; {
			n, err := out.Read(buf)
			text = append(text, buf[:n]...)
			if err != nil {
				break
			}
		}
		if code := p.Wait(t, patience); code != status {
			t.Errorf("%q ended with status %d, want %d:\n%s\n%s", args, code, status, text, p.Stderr)
		}
		return string(text)
	}
	if got := run(1, "use", "@acme/weather"); !strings.Contains(got, "@acme/weather 1.2.3") || !strings.Contains(got, "npx -y @acme/weather@1.2.3") {
		t.Errorf("without --yes:\n%s", got)
	}
	if got := run(1, "use", "@acme/weather"); !strings.Contains(got, "Nothing was installed; add --yes") {
		t.Errorf("without --yes and a terminal:\n%s", got)
	}
	for _, args := range [][]string{{"@acme/weather", "--yes", "--dry-run"}, {"@acme/weather", "--dry-run"}} {
		if got := run(0, args...); !strings.Contains(got, "@acme/weather: it would be installed") || !strings.Contains(got, "@acme/*") {
			t.Errorf("a dry run:\n%s", got)
		}
	}
	c.leftNothing()
	if got := run(0, "@acme/weather", "--yes"); !strings.Contains(got, "is installed as weather") || !strings.Contains(got, "forecast") {
		t.Errorf("with --yes:\n%s", got)
	}
	eventually(t, "the running host does not know the server", func() bool {
		return slices.ContainsFunc(c.discover(`{}`).Servers, func(s struct {
			Name, State, Class, Error, Description string
			Connected, Disabled                    bool
			Tools, Enabled                         *int
		}) bool {
			return s.Name == "weather"
		})
	})
	if got := textOf(t, c.call("weather", "forecast", `{"place":"Bern"}`)); got != "sunny in Bern " {
		t.Errorf("forecast says %q", got)
	}
	if got := run(0, "@acme/weather", "--yes", "--json"); !strings.Contains(got, `"decision": "local"`) {
		t.Errorf("again:\n%s", got)
	}
}

func TestProvisionBadRequests(t *testing.T) {
	t.Parallel()
	reg := fakeregistry.Start(t)
	c := provisionHost{url: reg.URL}.start(t)
	for _, args := range []string{`{}`, `{"intent":""}`, `{"intent":"  "}`, `{"intent":7}`, `{"intent":"x","autoProvision":"yes"}`, `{"intent":"x","more":1}`, `[]`, `{"intent":` + quote(strings.Repeat("a", 5000)) + `}`} {
		result, failure := c.ask("tools/call", toolParams("mcp_provision", args))
		if failure != nil {
			continue // the protocol's own refusal
		}
		if r := refusal(t, result); r.Code != "VALIDATION_ERROR" || r.Hint == "" {
			t.Errorf("%.60s: %s", args, r)
		}
	}
	if got := reg.Requests(); len(got) > 0 {
		t.Errorf("the registry was asked: %q", got)
	}
	c.echo("demo", "well")
}

// What is configured is found before a registry is asked.
func TestProvisionLocal(t *testing.T) {
	t.Parallel()
	reg := fakeregistry.Start(t, weather("1.0.0"))
	c := provisionHost{url: reg.URL, set: map[string]any{"search": map[string]any{"embedder": "builtin"}}}.start(t)
	eventually(t, "the server's tools are known and embedded", func() bool {
		d := c.discover(`{"query":"echo"}`)
		return len(d.Matches) > 0 && len(d.Pending) == 0 && embeddedBy(d.Notes) < 0
	})
	for intent, test := range map[string]struct {
		server, tool string
		least        float64
	}{
		"use the demo server":            {"demo", "demo/echo", 0.9},
		"call `echo`":                    {"", "demo/echo", 0.9},
		"add two numbers to get the sum": {"", "demo/add", 0.5},
	} {
		p := c.provision("local", intent, auto)
		if p.Source != "local" || p.Server != test.server || p.Confidence < test.least || p.Confidence > 1 || !slices.Contains(p.tools(), test.tool) {
			t.Errorf("%q: %s", intent, p.raw)
		}
	}
	if got := reg.Requests(); len(got) > 0 {
		t.Errorf("the registry was asked: %q", got)
	}
	if p := c.provision("recommended", "tell the weather of a place, my key is sk-ant-api03-0123456789abcdef0123456789abcdef"); len(p.Matches) == 0 || p.Matches[0].Name != "@acme/weather" {
		t.Errorf("%s", p.raw)
	}
	if got := reg.Requests(); len(got) == 0 || strings.Contains(fmt.Sprint(got), "0123456789") {
		t.Errorf("the registry was asked: %q", got)
	}
}
