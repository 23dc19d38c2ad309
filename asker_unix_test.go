//go:build unix

package metamcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
	"github.com/metamcp/metamcp/integration/secrets"
	"github.com/metamcp/metamcp/integration/testkit"
)

// weatherWithKey is a server that needs a secret and a setting.
func weatherWithKey() fakeregistry.Entry {
	return weatherThatNeeds(
		map[string]any{"name": "WEATHER_KEY", "description": "The <b>key</b> of acme", "isRequired": true, "isSecret": true},
		map[string]any{"name": "UNITS", "isRequired": true, "choices": []string{"celsius", "kelvin"}},
	)
}

func weatherValues(field string) string {
	return map[string]string{"v0": askedFor, "v1": "kelvin"}[field]
}

func provisionOf(intent string) string {
	return `{"name":"mcp_provision","arguments":{"intent":"` + intent + `","autoProvision":true}}`
}

// What a server needs that is to be installed is entered on a page, in all eras and
// over all ways; then it is installed. Secrets are in the store, and the lock file
// refers to them.
func TestProvisionAsksForSecrets(t *testing.T) {
	noKeyring(t)
	fakeNPM(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			e, state := openWithServer(t, weatherWithKey(), `{"trusted": ["io.github.acme/*"]}`, nil)
			// Somebody else's secret of that name stays as it is.
			store := secrets.New(state)
			if _, err := store.Set(t.Context(), "WEATHER_KEY", "of another server", false); err != nil {
				t.Fatal(err)
			}
			page := ""
			u := &user{t: t}
			u.browse = func(address string) {
				var err error
				if page, err = testkit.AnswerPage(context.Background(), address, "", weatherValues); err != nil {
					t.Error(err)
				}
			}
			c := connectClient(t, e, &asked{caps: urlCapability, modern: way.modern, reply: u.reply, url: fronts[way.front](t, e)})
			l := c.rounds(provisionOf("use @acme/weather"))
			u.work.Wait()
			var a metamcp.ProvisionAnswer
			if err := json.Unmarshal([]byte(textIn(t, l)), &a); err != nil || a.Decision != metamcp.DecisionProvisioned || a.Server != "weather" {
				t.Fatalf("%s, %v", l.Result, err)
			}
			for _, want := range []string{"@acme/weather 1.2.3", "WEATHER_KEY", "&lt;b&gt;key&lt;/b&gt;", "UNITS", "<option>kelvin"} {
				if !strings.Contains(page, want) {
					t.Errorf("the page lacks %s: %s", want, page)
				}
			}
			if value, err := store.Get("WEATHER_KEY.weather"); value != askedFor || err != nil {
				t.Errorf("stored is %q, %v", value, err)
			}
			if value, err := store.Get("WEATHER_KEY"); value != "of another server" || err != nil {
				t.Errorf("the other one is %q, %v", value, err)
			}
			lock, err := os.ReadFile(filepath.Join(state, provisioned.FileName))
			if err != nil || !strings.Contains(string(lock), "${secret:WEATHER_KEY.weather}") || !strings.Contains(string(lock), "kelvin") || strings.Contains(string(lock), askedFor) {
				t.Errorf("the lock file has %s, %v", lock, err)
			}
		})
	}
}

// neededSecret is a variable that a server needs.
func neededSecret(name string) any {
	return map[string]any{"name": name, "isRequired": true, "isSecret": true}
}

// provisionedOnPage provisions @acme/weather, whose values a user enters on a page, and
// returns the variables that it gets.
func provisionedOnPage(t *testing.T, e *metamcp.Engine, state string, values func(field string) string) map[string]string {
	t.Helper()
	u := &user{t: t}
	u.browse = func(address string) {
		if _, err := testkit.AnswerPage(context.Background(), address, "", values); err != nil {
			t.Error(err)
		}
	}
	c := connectClient(t, e, &asked{caps: `{"elicitation":{"form":{},"url":{}}}`, reply: u.reply})
	l := c.rounds(provisionOf("use @acme/weather"))
	u.work.Wait()
	var a metamcp.ProvisionAnswer
	if err := json.Unmarshal([]byte(textIn(t, l)), &a); err != nil || a.Decision != metamcp.DecisionProvisioned {
		t.Fatalf("%s, %v", l.Result, err)
	}
	list, err := provisioned.Open(state).List()
	if err != nil || len(list) != 1 {
		t.Fatalf("installed are %+v, %v", list, err)
	}
	return list[0].Entry.Env
}

// A stranger who describes a trusted package chooses no value for it, also where only one
// could be chosen; whoever is trusted himself may say which there are.
func TestProvisionAStrangerChoosesNothing(t *testing.T) {
	fakeNPM(t)
	const evil, mine = "https://evil.example", "https://mine.example"
	base := map[string]any{"name": "API_BASE", "description": "Where it is", "isRequired": true, "choices": []string{evil}}
	level := map[string]any{"name": "LEVEL", "default": evil, "choices": []string{evil}}
	for trusted, own := range map[string]bool{"@acme/*": false, "io.github.acme/*": true} {
		e, state := openWithServer(t, weatherThatNeeds(base, level), `{"trusted": ["`+trusted+`"]}`, nil)
		form := ""
		value := map[bool]string{true: evil, false: mine}[own]
		c := connectClient(t, e, &asked{caps: `{"elicitation":{}}`, reply: func(q rpcLine) string {
			form = string(q.Params)
			return `"result":{"action":"accept","content":{"API_BASE":"` + value + `"}}`
		}})
		l := c.rounds(provisionOf("use @acme/weather"))
		said := textIn(t, l)
		if strings.Contains(form, evil) != own || !strings.Contains(form, "Its description says: Where it is") || !strings.Contains(said, `"provisioned"`) {
			t.Errorf("%s: %s after %s", trusted, said, form)
		}
		list, err := provisioned.Open(state).List()
		if err != nil || len(list) != 1 || list[0].Entry.Env["API_BASE"] != value {
			t.Errorf("%s: installed are %+v, %v", trusted, list, err)
		}
		if own {
			continue
		}
		e, _ = openWithServer(t, weatherThatNeeds(base, level), `{"trusted": ["`+trusted+`"]}`, nil)
		for _, auto := range []bool{false, true} {
			for _, intent := range []string{"use @acme/weather", "tell the weather of any place"} { // the one with a plan, the other without
				if a := ask(t, e, metamcp.ProvisionRequest{Intent: intent, AutoProvision: auto}); strings.Contains(text(t, a), "evil") {
					t.Errorf("%s: %s", trusted, text(t, a))
				}
			}
		}
	}
}

// What a name calls secret is entered on a page, also by a user whose client has forms and
// where the publisher does not say so.
func TestProvisionAsksForSecretsByTheirNames(t *testing.T) {
	noKeyring(t)
	fakeNPM(t)
	for _, name := range []string{"GITHUB_PAT", "PAT", "DB_PWD", "SENTRY_DSN", "CONNECTION_STRING", "SESSION_ID", "X_COOKIE", "PRIVATE_PART", "BEARER", "SIGNATURE", "API_TOKEN"} {
		e, state := openWithServer(t, weatherThatNeeds(map[string]any{"name": name, "isRequired": true}), `{"trusted": ["@acme/*"]}`, nil)
		a := ask(t, e, metamcp.ProvisionRequest{Intent: "use @acme/weather", AutoProvision: true})
		if a.Denied == nil || !strings.Contains(a.Denied.Hint, "--set "+name+"='${secret:"+name+"}'") {
			t.Errorf("%s: %s", name, text(t, a))
		}
		if env := provisionedOnPage(t, e, state, func(string) string { return askedFor }); env[name] != "${secret:"+name+"}" {
			t.Errorf("%s: it gets %q", name, env)
		}
	}
}

// A secret that is entered for a new server is not that which another one waits for
// under the same name.
func TestProvisionLeavesNamesThatOthersAskFor(t *testing.T) {
	noKeyring(t)
	fakeNPM(t)
	other := map[string]any{"other": map[string]any{"command": "true", "env": map[string]string{"KEY": "${secret:TOKEN}"}}}
	e, state := openBeside(t, other, weatherThatNeeds(neededSecret("TOKEN")), `{"trusted": ["@acme/*"]}`, nil)
	env := provisionedOnPage(t, e, state, func(string) string { return askedFor })
	if env["TOKEN"] != "${secret:TOKEN.weather}" {
		t.Errorf("the new one gets %q", env)
	}
	if got := e.Config().MissingSecrets("other"); !slices.Equal(got, []string{"TOKEN"}) {
		t.Errorf("the other one lacks %q", got)
	}
}

// Secrets of one server whose names are alike are kept apart.
func TestProvisionKeepsSecretsApart(t *testing.T) {
	noKeyring(t)
	fakeNPM(t)
	long := strings.Repeat("LONG_", 11)
	variables := []string{"TOKEN_1", "TOKEN_2", long + "A", long + "B"}
	needs := make([]any, len(variables))
	for i, name := range variables {
		needs[i] = neededSecret(name)
	}
	e, state := openWithServer(t, weatherThatNeeds(needs...), `{"trusted": ["@acme/*"]}`, nil)
	env := provisionedOnPage(t, e, state, func(field string) string { return askedFor + field })
	for i, name := range variables {
		reference := env[name]
		stored := strings.TrimSuffix(strings.TrimPrefix(reference, "${secret:"), "}")
		if i < 2 && stored != name {
			t.Errorf("%s is %s", name, reference)
		}
		if value, err := secrets.New(state).Get(stored); err != nil || value != askedFor+"v"+strconv.Itoa(i) {
			t.Errorf("%s is %s, which is %q, %v", name, reference, value, err)
		}
	}
}

// Where the user declines, goes away, or installing fails, nothing stays; what the
// client gets is what one gets that cannot ask.
func TestProvisionWithoutTheSecrets(t *testing.T) {
	noKeyring(t)
	fakeNPM(t)
	for what, u := range map[string]*user{"declined": {t: t, action: "decline"}, "declined there": enter(t, ""), "cannot be asked": nil} {
		t.Run(what, func(t *testing.T) {
			e, state := openWithServer(t, weatherWithKey(), `{"trusted": ["io.github.acme/*"]}`, nil)
			c := &asked{caps: urlCapability}
			if u == nil {
				c.caps = `{"elicitation":{"form":{}}}`
				c.reply = func(q rpcLine) string {
					t.Errorf("asked for %s", q.Params)
					return ""
				}
			} else {
				c.reply = u.reply
			}
			c = connectClient(t, e, c)
			l := c.rounds(provisionOf("use @acme/weather"))
			if u != nil {
				u.work.Wait()
			}
			var a metamcp.ProvisionAnswer
			if err := json.Unmarshal([]byte(textIn(t, l)), &a); err != nil || a.Decision != metamcp.DecisionDenied || len(a.Missing) != 2 || !strings.Contains(a.Denied.Hint, "metamcp secrets set WEATHER_KEY") {
				t.Errorf("%s, %v", l.Result, err)
			}
			if list, err := secrets.New(state).List(); err != nil || len(list) != 0 {
				t.Errorf("stored are %v, %v", list, err)
			}
			if list, err := provisioned.Open(state).List(); err != nil || len(list) != 0 {
				t.Errorf("installed are %+v, %v", list, err)
			}
		})
	}
}

// A page that is over ends the question that sent the user there: the client may have
// shown the address and never answer, or have vanished.
func TestProvisionWaitsForNoAnswerBesideThePage(t *testing.T) {
	noKeyring(t)
	fakeNPM(t)
	for what, values := range map[string]func(string) string{"entered": weatherValues, "declined": nil} {
		t.Run(what, func(t *testing.T) {
			e, _ := openWithServer(t, weatherWithKey(), `{"trusted": ["io.github.acme/*"]}`, nil)
			c := connectInvited(t, e, "", "")
			_, answer := c.begin("tools/call", provisionOf("use @acme/weather"))
			_, page := c.question()
			if _, err := testkit.AnswerPage(t.Context(), page, "", values); err != nil {
				t.Fatal(err)
			}
			want := metamcp.DecisionProvisioned
			if values == nil {
				want = metamcp.DecisionDenied
			}
			var a metamcp.ProvisionAnswer
			if l := c.await(answer); json.Unmarshal([]byte(textIn(t, l)), &a) != nil || a.Decision != want {
				t.Errorf("%s %s", l.Result, l.Error)
			}
			if said := c.notified("notifications/cancelled"); len(said) != 1 {
				t.Errorf("the question is withdrawn with %v", said)
			}
		})
	}
}

// Who does not answer a form as it asks is not sent to a page for the same values.
func TestProvisionAsksInOneWay(t *testing.T) {
	noKeyring(t)
	fakeNPM(t)
	server := weatherThatNeeds(map[string]any{"name": "STYLE", "isRequired": true})
	for _, modern := range []bool{false, true} {
		for _, answer := range []string{`{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"accept","content":{"STYLE":"${HOME}"}}`} {
			e, _ := openWithServer(t, server, `{"trusted": ["io.github.acme/*"]}`, nil)
			c := connectClient(t, e, &asked{caps: `{"elicitation":{"form":{},"url":{}}}`, modern: modern, reply: func(q rpcLine) string {
				if strings.Contains(string(q.Params), `"url"`) {
					t.Errorf("%s: asked once more, for %s", answer, q.Params)
					return `"result":{"action":"decline"}`
				}
				return `"result":` + answer
			}})
			l := c.rounds(provisionOf("use io.github.acme/weather"))
			var a metamcp.ProvisionAnswer
			if err := json.Unmarshal([]byte(textIn(t, l)), &a); err != nil || a.Decision != metamcp.DecisionDenied || len(a.Missing) != 1 {
				t.Errorf("%s: %s, %v", answer, l.Result, err)
			}
			if n := c.questions(); n != 1 {
				t.Errorf("%s: asked %d times", answer, n)
			}
		}
	}
}

// Secrets that were entered for a server that could not be installed are forgotten.
func TestProvisionForgetsSecretsOfWhatFailed(t *testing.T) {
	noKeyring(t)
	fakeNPM(t)
	e, state := openWithServer(t, weatherWithKey(), `{"trusted": ["io.github.acme/*"]}`, nil)
	u := &user{t: t}
	u.browse = func(address string) {
		// From here on the package manager is broken.
		npm := filepath.Join(filepath.SplitList(os.Getenv("PATH"))[0], "npm")
		if err := os.WriteFile(npm, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
			t.Error(err)
		}
		if _, err := testkit.AnswerPage(context.Background(), address, "", weatherValues); err != nil {
			t.Error(err)
		}
	}
	c := connectClient(t, e, &asked{caps: urlCapability, reply: u.reply})
	l := c.rounds(provisionOf("use @acme/weather"))
	u.work.Wait()
	if got := string(l.Result); strings.Contains(got, "provisioned\"") || strings.Contains(got, askedFor) {
		t.Errorf("%s", got)
	}
	if _, err := secrets.New(state).Get("WEATHER_KEY"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// What a user gives values for is what was shown, in that version.
func TestProvisionAsksForOneVersion(t *testing.T) {
	noKeyring(t)
	for what, server := range map[string]fakeregistry.Entry{
		"page": weatherWithKey(),
		"form": weatherThatNeeds(map[string]any{"name": "STYLE", "isRequired": true}),
	} {
		t.Run(what, func(t *testing.T) {
			npm := filepath.Join(fakeNPM(t), "npm")
			e, state := openWithServer(t, server, `{"trusted": ["@acme/*"]}`, nil)
			publish := func() { // a newer one, while the user is asked
				text, err := os.ReadFile(npm)
				if err == nil {
					err = os.WriteFile(npm, []byte(strings.ReplaceAll(string(text), "1.2.3", "1.2.4")), 0o700)
				}
				if err != nil {
					t.Error(err)
				}
			}
			u := &user{t: t}
			u.browse = func(address string) {
				publish()
				if _, err := testkit.AnswerPage(context.Background(), address, "", weatherValues); err != nil {
					t.Error(err)
				}
			}
			c := connectClient(t, e, &asked{caps: allCapabilities, reply: func(q rpcLine) string {
				if what == "page" {
					return u.reply(q)
				}
				if !strings.Contains(string(q.Params), "@acme/weather 1.2.3") {
					t.Errorf("the form does not say what is installed: %s", q.Params)
				}
				publish()
				return `"result":{"action":"accept","content":{"STYLE":"politely"}}`
			}})
			l := c.rounds(provisionOf("use @acme/weather"))
			u.work.Wait()
			var a metamcp.ProvisionAnswer
			if err := json.Unmarshal([]byte(textIn(t, l)), &a); err != nil || a.Decision != metamcp.DecisionDenied ||
				!strings.Contains(a.Denied.Message, "it is version 1.2.4 now, and version 1.2.3 was shown") {
				t.Errorf("%s, %v", l.Result, err)
			}
			if list, err := secrets.New(state).List(); err != nil || len(list) != 0 {
				t.Errorf("stored are %v, %v", list, err)
			}
			if list, err := provisioned.Open(state).List(); err != nil || len(list) != 0 {
				t.Errorf("installed are %+v, %v", list, err)
			}
		})
	}
}
