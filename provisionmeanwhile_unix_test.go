//go:build unix

package metamcp_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
)

// noMore begins why a server is not had that was allowed at first.
const noMore = "it was allowed when it was asked for, and is not any more: "

// underWay is a provision during which something changes.
type underWay struct {
	t          *testing.T
	e          *metamcp.Engine
	dir, state string         // with the configuration, and its stateDir
	settings   map[string]any // of the configuration
	installs   string         // a file that is there once npm has been asked to install
}

// provisionWhile provisions, and calls change while npm is asked about the package
// ("asked") or installs it ("meanwhile"). Returned is also what the lock file has then.
func provisionWhile(t *testing.T, while, trust string, req metamcp.ProvisionRequest, change func(u *underWay)) (*underWay, *metamcp.ProvisionAnswer, []provisioned.Locked) {
	t.Helper()
	npm := fakeNPM(t)
	reg := fakeregistry.Start(t, fakeregistry.Server("io.github.acme/weather", "1.2.3", "Tells the weather of any place", "@acme/weather"))
	dir := t.TempDir()
	u := &underWay{
		t: t, dir: dir, state: filepath.Join(dir, ".metamcp"), installs: filepath.Join(npm, "installs"),
		settings: map[string]any{"registry": map[string]any{"url": reg.URL}, "search": map[string]any{"embedder": "none"}},
	}
	waits, goOn := filepath.Join(npm, "waits"), filepath.Join(npm, "go-on")
	if err := errors.Join(
		os.WriteFile(filepath.Join(npm, "meanwhile"), []byte(": > "+u.installs+"\n"), 0o600), // unless it is what waits
		os.MkdirAll(u.state, 0o700),
		os.WriteFile(filepath.Join(npm, while), []byte(": > "+waits+"; while [ ! -e "+goOn+" ]; do sleep 0.02; done\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	u.trusts(trust)
	u.e = openConfig(t, dir, children(nil, u.settings))
	var a *metamcp.ProvisionAnswer
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a, err = u.e.Provision(t.Context(), req)
	}()
	awaitFile(t, waits)
	change(u)
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err != nil {
		t.Fatal(err)
	}
	kept, err := provisioned.Open(u.state).List()
	if err != nil {
		t.Fatal(err)
	}
	return u, a, kept
}

// trusts writes the trust file.
func (u *underWay) trusts(text string) {
	u.t.Helper()
	if err := os.WriteFile(filepath.Join(u.state, "trusted-servers.json"), []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// leftNothing fails the test where something is left of what was installed.
func (u *underWay) leftNothing(kept []provisioned.Locked) {
	u.t.Helper()
	if len(kept) > 0 {
		u.t.Errorf("kept are %+v", kept)
	}
	if left, err := os.ReadDir(filepath.Join(u.state, "servers")); err == nil && len(left) > 0 {
		u.t.Errorf("left are %v", left)
	}
}

// What the configuration forbids while it is under way is not installed, or not kept: who
// asked gets the answer of one that was forbidden from the start, which says also that it
// was allowed at first. A person's yes counts.
func TestProvisionThatIsForbiddenMeanwhile(t *testing.T) {
	for _, while := range []string{"asked", "meanwhile"} {
		for _, person := range []bool{false, true} {
			t.Run(fmt.Sprint(while, " person ", person), func(t *testing.T) {
				req := metamcp.ProvisionRequest{Intent: "use @acme/weather", AutoProvision: true, Person: person}
				u, a, kept := provisionWhile(t, while, `{"trusted": ["@acme/*"]}`, req, func(u *underWay) {
					u.settings["trust"] = map[string]any{"autoProvision": false}
					if _, err := writeConfig(u.dir, children(nil, u.settings)); err != nil {
						t.Fatal(err)
					}
					if err := u.e.Reload(t.Context()); err != nil {
						t.Fatal(err)
					}
				})
				if person {
					if a.Decision != metamcp.DecisionProvisioned || len(kept) != 1 {
						t.Errorf("%s, kept are %+v", text(t, a), kept)
					}
					return
				}
				first := ask(t, u.e, req) // forbidden from the start
				first.Source = a.Source   // it is from the cache now
				if said := text(t, a); a.Decision != metamcp.DecisionDenied || !strings.Contains(said, noMore) || strings.Replace(said, noMore, "", 1) != text(t, first) {
					t.Errorf("%s\nwant, with why, %s", said, text(t, first))
				}
				u.leftNothing(kept)
				if _, err := os.Stat(u.installs); err == nil {
					t.Error("npm was asked to install it")
				}
			})
		}
	}
}

// What the trust file blocks or does not trust any more while it is under way is not
// installed, or not kept, and the answer says what changed and what to do. A person's yes
// counts where it would count from the start.
func TestProvisionThatTheTrustFileStopsMeanwhile(t *testing.T) {
	const trusted, described = `{"trusted": ["@acme/*"]}`, `{"trusted": ["io.github.acme/*", "@acme/*"]}`
	const blocked, nobody, broken = `{"trusted": ["@acme/*"], "blocked": ["@acme/weather"]}`, `{"trusted": []}`, `{"trusted": ["@acme/*"`
	for _, c := range []struct {
		name, while  string
		person       bool
		before, then string
		gate         string // that closes; "": it is kept
		want, hint   string // in the refusal
		by           string // who allowed what is kept
	}{
		{"blocked before it is installed", "asked", false, trusted, blocked, "blocked", "the trust file blocks it: @acme/weather", "Take another one.", ""},
		{"blocked", "meanwhile", false, trusted, blocked, "blocked", "the trust file blocks it: @acme/weather", "Take another one.", ""},
		{"removed", "meanwhile", false, trusted, nobody, "namespace", "the trust file does not trust npm:@acme/weather", "metamcp trust add", ""},
		{"broken", "meanwhile", false, trusted, broken, "trust file", "the trust file cannot be used", "mend the trust file", ""},
		{"description", "meanwhile", false, described, trusted, "entry", "the trust file does not trust io.github.acme/weather", "Ask again", ""},
		{"by another entry", "meanwhile", false, trusted, described, "", "", "", "io.github.acme/*"},
		{"person: blocked before it is installed", "asked", true, nobody, blocked, "blocked", "the trust file blocks it: @acme/weather", "Take another one.", ""},
		{"person: blocked", "meanwhile", true, nobody, blocked, "blocked", "the trust file blocks it: @acme/weather", "Take another one.", ""},
		{"person: broken", "meanwhile", true, nobody, broken, "trust file", "the trust file cannot be used", "mend the trust file", ""},
		{"person: description", "meanwhile", true, described, nobody, "entry", "the trust file does not trust io.github.acme/weather", "Ask again", ""},
		{"person: removed", "meanwhile", true, trusted, nobody, "", "", "", provisioned.APerson},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := metamcp.ProvisionRequest{Intent: "use @acme/weather", AutoProvision: !c.person, Person: c.person}
			u, a, kept := provisionWhile(t, c.while, c.before, req, func(u *underWay) { u.trusts(c.then) })
			if c.gate == "" {
				if a.Decision != metamcp.DecisionProvisioned || len(kept) != 1 || kept[0].AllowedBy != c.by || a.Reason != kept[0].Reason {
					t.Errorf("%s, kept are %+v", text(t, a), kept)
				}
				return
			}
			u.leftNothing(kept)
			if _, err := os.Stat(u.installs); c.while == "asked" && err == nil {
				t.Error("npm was asked to install it")
			}
			if a.Decision != metamcp.DecisionDenied || a.Denied == nil || !strings.Contains(a.Denied.Message, noMore) ||
				!strings.Contains(a.Denied.Message, c.want) || !strings.Contains(a.Denied.Hint, c.hint) {
				t.Fatal(text(t, a))
			}
			// What is blocked comes without a way to get it.
			if m := a.Matches; len(m) != 1 || m[0].Gate != c.gate || m[0].Trusted || (m[0].Entry == nil) != (c.gate == "blocked") {
				t.Error(text(t, a))
			}
		})
	}
}
