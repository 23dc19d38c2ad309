package oauth

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/oauth/fakeauth"
	"github.com/metamcp/metamcp/messages"
)

const (
	oldSecret = "old-s3cret-old"
	newSecret = "new-s3cret-new"
)

// overheard is what an authorization server, and a server, were sent.
type overheard struct {
	mu   sync.Mutex
	sent []string
}

func (o *overheard) posted(r *http.Request) {
	_ = r.ParseForm() // what is no form has nothing of ours either
	texts := []string{r.Form.Encode(), r.Header.Get("Authorization")}
	if id, secret, ok := r.BasicAuth(); ok {
		texts = append(texts, id, secret)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, texts...)
}

// all is what was sent.
func (o *overheard) all() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sent)
}

// has says whether something that was sent holds text.
func (o *overheard) has(text string) bool {
	return slices.ContainsFunc(o.all(), func(s string) bool { return strings.Contains(s, text) })
}

// moved is a login at an authorization server under which the server is no more, and
// what that one and the server are sent from then on.
type moved struct {
	before    *fakeauth.Fake // the authorization server of the login
	now       *fakeauth.Fake // the server, and its authorization server now
	state     string
	login     login
	old, here *overheard
}

// moveAway logs in at an authorization server with a first entry and puts the server
// under another one.
func moveAway(t *testing.T, lifetime time.Duration, first func(issuer string) *messages.OAuth) *moved {
	t.Helper()
	m := &moved{state: t.TempDir(), old: &overheard{}, here: &overheard{}}
	m.before = fakeauth.Start(t, func(f *fakeauth.Fake) { f.Lifetime = lifetime })
	m.before.Know("machine", oldSecret)
	m.now = fakeauth.Start(t, func(f *fakeauth.Fake) {
		f.Resource = func(meta map[string]any) { meta["authorization_servers"] = []string{m.before.AuthURL()} }
	})
	m.now.Know("machine", newSecret)
	m.now.Know("other-machine", newSecret)
	r := rigOf(t, m.now, first(m.before.AuthURL()), m.state)
	r.logIn()
	m.login = *r.stored()
	m.before.Change(func(f *fakeauth.Fake) {
		f.Auth = func(_ http.ResponseWriter, r *http.Request) bool { m.old.posted(r); return false }
	})
	m.now.Change(func(f *fakeauth.Fake) {
		f.Resource = nil
		f.MCP = func(_ http.ResponseWriter, r *http.Request) bool {
			m.here.mu.Lock()
			defer m.here.mu.Unlock()
			m.here.sent = append(m.here.sent, r.Header.Get("Authorization"))
			return false
		}
	})
	return m
}

// stored is the login that the shelf has; nil: none.
func (r *rig) stored() *login {
	r.t.Helper()
	v, err := r.shelf.read()
	must(r.t, err)
	return v.Login
}

// asHuman are the entries of a person's login, asMachine those of a client that acts
// for itself.
func asHuman(id, secret string) func(issuer string) *messages.OAuth {
	return func(issuer string) *messages.OAuth {
		return &messages.OAuth{ClientID: id, ClientSecret: secret, Issuer: issuer}
	}
}

func asMachine(id, secret string) func(issuer string) *messages.OAuth {
	return func(issuer string) *messages.OAuth {
		return &messages.OAuth{ClientID: id, ClientSecret: secret, Issuer: issuer, ClientCredentials: true}
	}
}

func unnamed(entry func(issuer string) *messages.OAuth) func(issuer string) *messages.OAuth {
	return func(string) *messages.OAuth { return entry("") }
}

func registered(string) *messages.OAuth { return nil }

// Once its entry names another authorization server, or another client, a login is
// none of the server any more: the authorization server that gave it sees nothing of
// the new entry, and the server none of its tokens.
func TestLoginOfAnotherEntry(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second func(issuer string) *messages.OAuth
	}{
		"a login, then a client for itself":     {registered, asMachine("machine", newSecret)},
		"clients for themselves":                {asMachine("machine", oldSecret), asMachine("machine", newSecret)},
		"the same client elsewhere":             {asHuman("machine", oldSecret), asHuman("machine", newSecret)},
		"another client":                        {asHuman("machine", oldSecret), unnamed(asHuman("other-machine", newSecret))},
		"another client for itself":             {asMachine("machine", oldSecret), unnamed(asMachine("other-machine", newSecret))},
		"a login, then a client of no issuer":   {registered, unnamed(asMachine("machine", newSecret))},
		"a login, then another issuer for one":  {registered, func(issuer string) *messages.OAuth { return &messages.OAuth{Issuer: issuer} }},
		"a client for itself, then for someone": {asMachine("machine", oldSecret), asHuman("machine", newSecret)},
	} {
		for _, lifetime := range []time.Duration{time.Second, time.Hour} { // it has run out, or is good still
			t.Run(name+", "+lifetime.String(), func(t *testing.T) {
				m := moveAway(t, lifetime, tt.first)
				r := rigOf(t, m.now, tt.second(m.now.AuthURL()), m.state)
				if s, err := r.Status(); err != nil || s.State != None || s.Issuer != "" || r.WantsLogin() || r.LoggedIn() != r.itself() {
					t.Errorf("%+v, %v; wants a login: %v", s, err, r.WantsLogin())
				}
				if !r.itself() {
					r.refuses("read", "wants a login", "metamcp auth login docs")
					if s, err := r.Status(); err != nil || s.State != Wanted {
						t.Errorf("%+v, %v", s, err)
					}
					r.logIn()
				}
				r.works()
				if s, err := r.Status(); err != nil || s.State != LoggedIn || s.Issuer != m.now.AuthURL() {
					t.Errorf("%+v, %v", s, err)
				}
				if sent := m.old.all(); len(sent) != 0 {
					t.Errorf("the authorization server from before was sent %q", sent)
				}
				if m.here.has(m.login.Access) {
					t.Error("the server was sent a token of the authorization server from before")
				}
			})
		}
	}
}

// An authorization server chooses the ids of those that register themselves: one that
// is that of a client of the user's elsewhere brings it no secret.
func TestRegisteredClientWithTheIDOfAConfiguredOne(t *testing.T) {
	m := moveAway(t, time.Second, registered)
	r := rigOf(t, m.now, asHuman(m.login.Client.ID, newSecret)(""), m.state)
	r.refuses("read", "wants a login")
	if _, _, err := r.Logout(t.Context()); err != nil || m.before.Count("revoke") != 2 || m.old.has(newSecret) {
		t.Errorf("%v; %d revoked with %q", err, m.before.Count("revoke"), m.old.all())
	}
}

// A logout gives back a login of another entry, too, by the client to which it was
// given.
func TestLogoutOfAnotherEntry(t *testing.T) {
	for name, second := range map[string]func(issuer string) *messages.OAuth{
		"elsewhere":      asHuman("machine", newSecret),
		"for itself":     asMachine("machine", newSecret),
		"another client": asHuman("other-machine", newSecret),
	} {
		t.Run(name, func(t *testing.T) {
			m := moveAway(t, time.Hour, asHuman("machine", oldSecret))
			r := rigOf(t, m.now, second(m.now.AuthURL()), m.state)
			had, told, err := r.Logout(t.Context())
			if !had || !told || err != nil || m.before.Count("revoke") != 2 || len(m.before.Tokens()) != 0 {
				t.Errorf("%v %v %v, %d revoked", had, told, err, m.before.Count("revoke"))
			}
			if !m.old.has(oldSecret) || !m.old.has(url.QueryEscape(m.login.Refresh)) || m.old.has(newSecret) || m.old.has("other-machine") {
				t.Errorf("the authorization server from before was sent %q", m.old.all())
			}
			if had, _, err := r.Logout(t.Context()); had || err != nil {
				t.Errorf("a second time: %v, %v", had, err)
			}
		})
	}
}

// A login stays where it is until there is another one: an entry may change back. Its
// secrets stay secrets meanwhile.
func TestEntryChangesBack(t *testing.T) {
	m := moveAway(t, time.Hour, asHuman("machine", oldSecret))
	second := rigOf(t, m.now, asHuman("machine", newSecret)(m.now.AuthURL()), m.state)
	second.refuses("read", "wants a login")
	// What is stored after a login that failed is what there was.
	m.now.Change(func(f *fakeauth.Fake) {
		f.Answer = func(q url.Values) { q.Del("code"); q.Set("error", "access_denied") }
	})
	_, err := second.browse()
	says(t, err, "access_denied")
	for _, secret := range []string{oldSecret, m.login.Access, m.login.Refresh} {
		if !slices.Contains(second.learned(), secret) {
			t.Errorf("%s is not among %q", secret, second.learned())
		}
	}
	first := rigOf(t, m.now, asHuman("machine", oldSecret)(m.before.AuthURL()), m.state)
	if token, err := first.Token(t.Context()); token != m.login.Access || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	// The next login takes its place.
	m.now.Change(func(f *fakeauth.Fake) { f.Answer = nil })
	second.logIn()
	if token, err := first.Token(t.Context()); token != "" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	if l := second.stored(); l == nil || l.Issuer != m.now.AuthURL() {
		t.Errorf("%+v is stored", l)
	}
}

// A secret that the user has changed is used where the client belongs, as before.
func TestSecretThatChanges(t *testing.T) {
	for name, entry := range map[string]func(id, secret string) func(issuer string) *messages.OAuth{"for somebody": asHuman, "for itself": asMachine} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, issuer named: %v", name, named), func(t *testing.T) {
				f := fakeauth.Start(t, func(f *fakeauth.Fake) { f.Lifetime = time.Second })
				issuer, state := "", t.TempDir()
				if named {
					issuer = f.AuthURL()
				}
				f.Know("machine", oldSecret)
				rigOf(t, f, entry("machine", oldSecret)(issuer), state).logIn()
				f.Know("machine", newSecret)
				f.Change(func(f *fakeauth.Fake) { f.Lifetime = time.Hour })
				r := rigOf(t, f, entry("machine", newSecret)(issuer), state)
				r.works()
				if n := f.Count("token refresh_token") + f.Count("token client_credentials"); n != 1 && !r.itself() || n != 2 && r.itself() {
					t.Errorf("renewed %d times", n)
				}
				if had, told, err := r.Logout(t.Context()); !had || !told || err != nil {
					t.Errorf("%v %v %v", had, told, err)
				}
			})
		}
	}
}

// A stored login may have the client of the entry and be at an authorization server to
// which that client does not belong: an earlier version put the two together.
func TestStoredLoginWhereTheClientDoesNotBelong(t *testing.T) {
	m := moveAway(t, time.Second, asMachine("machine", oldSecret))
	entry := asMachine("other-machine", newSecret)("")
	first := rigOf(t, m.now, entry, m.state)
	v, err := first.shelf.read()
	must(t, err)
	v.Login.Client = identity{ID: entry.ClientID, Secret: entry.ClientSecret}
	must(t, first.shelf.write(t.Context(), v))
	first.works()
	if sent := m.old.all(); len(sent) != 0 {
		t.Errorf("the authorization server from before was sent %q", sent)
	}
}

// A client belongs to the authorization server where it was logged in, also when the
// entry names that no more, and when it had another client meanwhile.
func TestConfiguredClientStaysWhereItBelongs(t *testing.T) {
	for name, entry := range map[string]func(id, secret string) func(issuer string) *messages.OAuth{"for somebody": asHuman, "for itself": asMachine} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, issuer named: %v", name, named), func(t *testing.T) {
				first := entry("machine", oldSecret)
				if !named {
					first = unnamed(first)
				}
				m := moveAway(t, time.Hour, first)
				rigOf(t, m.now, entry("other-machine", newSecret)(""), m.state).logIn()
				r := rigOf(t, m.now, entry("machine", oldSecret)(""), m.state)
				_, err := r.browse()
				says(t, err, "was used with the authorization server "+m.before.AuthURL(), m.now.AuthURL())
				// Who names the issuer decides, from then on.
				rigOf(t, m.now, entry("machine", newSecret)(m.now.AuthURL()), m.state).logIn()
				r = rigOf(t, m.now, entry("machine", newSecret)(""), m.state)
				r.works()
				r.logIn()
			})
		}
	}
}

// Also where the authorization server stays, a login is that of its client alone.
func TestAnotherClientAtTheSameAuthorizationServer(t *testing.T) {
	f := fakeauth.Start(t, nil)
	f.Know("machine", oldSecret)
	f.Know("other-machine", newSecret)
	state := t.TempDir()
	rigOf(t, f, asMachine("machine", oldSecret)(f.AuthURL()), state).logIn()
	r := rigOf(t, f, asMachine("other-machine", newSecret)(f.AuthURL()), state)
	if token, err := r.Token(t.Context()); token != "" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	r.works()
	if s, err := r.Status(); err != nil || s.Client != "other-machine" {
		t.Errorf("%+v, %v", s, err)
	}
}
