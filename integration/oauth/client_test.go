package oauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/metamcp/metamcp/integration/oauth/fakeauth"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// childVariable makes this test binary a process that asks for tokens: it holds
// the state folder and the URL of the server.
const childVariable = "METAMCP_TEST_OAUTH_CHILD"

const patience = time.Minute

func TestMain(m *testing.M) {
	// Tokens of tests belong into no keyring.
	_ = os.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	_ = os.Setenv("XDG_RUNTIME_DIR", "")
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	code := m.Run()
	if code == 0 {
		http.DefaultClient.CloseIdleConnections()
		if err := testkit.Leaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// rig is a client of a fake.
type rig struct {
	*Client
	t     *testing.T
	f     *fakeauth.Fake
	state string
}

func (r *rig) learned() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.known)
}

func newRig(t *testing.T, setUp func(*fakeauth.Fake), o *messages.OAuth) *rig {
	t.Helper()
	return rigOf(t, fakeauth.Start(t, setUp), o, t.TempDir())
}

func rigOf(t *testing.T, f *fakeauth.Fake, o *messages.OAuth, state string) *rig {
	t.Helper()
	m := New(Options{StateDir: state, Learned: func(string, []string) {}})
	t.Cleanup(m.Close)
	c, err := m.Client(&messages.ServerSpec{Name: "docs", Transport: messages.TransportHTTP, URL: f.URL(), OAuth: o})
	must(t, err)
	return &rig{c, t, f, state}
}

// other is the same server to another host with the same state folder.
func (r *rig) other() *rig {
	r.t.Helper()
	return rigOf(r.t, r.f, r.spec.OAuth, r.state)
}

// browse logs in; the error of the browser is not looked at where the login's is.
func (r *rig) browse() (*Status, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	var visit sync.WaitGroup
	defer visit.Wait()
	return r.Login(ctx, Person{Visit: func(address string) {
		visit.Go(func() {
			if err := fakeauth.Visit(address); err != nil {
				r.t.Log("the browser saw", err)
			}
		})
	}})
}

func (r *rig) logIn() *Status {
	r.t.Helper()
	s, err := r.browse()
	must(r.t, err)
	return s
}

// ask makes one request as a connection does, with all that follows from a
// refusal, and returns the status of the last answer and what was said of it.
func (r *rig) ask(method, tool string) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for range 4 {
		token, err := r.Token(ctx)
		if err != nil {
			return 0, err
		}
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"name":%q}}`, method, tool)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.f.URL(), strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		_ = resp.Body.Close()
		if resp.StatusCode < http.StatusBadRequest {
			r.Taken(token)
			return resp.StatusCode, nil
		}
		again, err := r.Refused(ctx, token, resp.StatusCode, resp.Header)
		if err != nil || !again {
			return resp.StatusCode, err
		}
	}
	return 0, errors.New("it is asked for ever")
}

func (r *rig) works() {
	r.t.Helper()
	if status, err := r.ask("tools/call", "read"); status != http.StatusOK || err != nil {
		r.t.Fatalf("status %d, %v", status, err)
	}
}

// refuses fails the test unless a request is refused for want of a login, with
// these words.
func (r *rig) refuses(tool string, words ...string) *Error {
	r.t.Helper()
	_, err := r.ask("tools/call", tool)
	return says(r.t, err, words...)
}

// says fails the test unless err is one of ours that has these words, in its
// message or in its advice.
func says(t *testing.T, err error, words ...string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v and not an error of this package", err)
	}
	for _, w := range words {
		if !strings.Contains(e.Error()+" "+e.Advice, w) {
			t.Fatalf("%q, %q: want %q", e.Error(), e.Advice, w)
		}
	}
	return e
}

func TestLogin(t *testing.T) {
	r := newRig(t, nil, nil)
	e := r.refuses("read", "wants a login", "metamcp auth login docs")
	if e.Forbidden || e.Cause != nil {
		t.Errorf("%+v", e)
	}
	if s, err := r.Status(); err != nil || s.State != Wanted || strings.Join(s.Wants, " ") != "basic" {
		t.Errorf("%+v, %v", s, err)
	}
	s := r.logIn()
	if s.State != LoggedIn || s.Issuer != r.f.AuthURL() || strings.Join(s.Scopes, " ") != "basic offline_access" || !s.Renewed || s.Wants != nil {
		t.Errorf("%+v", s)
	}
	r.works()
	// The second login takes the registration of the first.
	r.logIn()
	r.works()
	if n := r.f.Count("register"); n != 1 {
		t.Errorf("registered %d times", n)
	}
	// What is on disk nobody else may read.
	must(t, filepath.WalkDir(filepath.Join(r.state, "oauth"), func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		must(t, err)
		if info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return nil
	}))
}

// A host that runs takes a login that another process made, and a logout.
func TestAnotherProcessLogsIn(t *testing.T) {
	r := newRig(t, nil, nil)
	r.refuses("read", "wants a login")
	other := r.other()
	other.logIn()
	r.works()
	had, told, err := other.Logout(t.Context())
	if !had || !told || err != nil || r.f.Count("revoke") != 2 {
		t.Errorf("%v %v %v, %d revoked", had, told, err, r.f.Count("revoke"))
	}
	r.refuses("read", "wants a login")
	if had, _, err := other.Logout(t.Context()); had || err != nil {
		t.Errorf("a second time: %v, %v", had, err)
	}
}

// Somebody may log in between the server's refusal and its being taken: the request is
// sent again, and the login is not taken for one that the server refused.
func TestLoginDuringARefusal(t *testing.T) {
	r := newRig(t, nil, nil)
	other := r.other()
	var begun atomic.Bool
	r.f.Change(func(f *fakeauth.Fake) {
		f.MCP = func(w http.ResponseWriter, req *http.Request) bool {
			switch {
			case req.Method == http.MethodPost && req.Header.Get("Authorization") == "":
				w.Header().Set("WWW-Authenticate", "Bearer") // where it has a login is to be found out
				w.WriteHeader(http.StatusUnauthorized)
				return true
			case req.Method == http.MethodGet && begun.CompareAndSwap(false, true):
				other.logIn()
			}
			return false
		}
	})
	r.works()
	if s, err := r.Status(); !begun.Load() || err != nil || s.State != LoggedIn || r.WantsLogin() {
		t.Errorf("begun: %v; %+v, %v", begun.Load(), s, err)
	}
}

// Servers that are gone have no client.
func TestClientsGoWithTheirServers(t *testing.T) {
	m := New(Options{})
	defer m.Close()
	spec := &messages.ServerSpec{Name: "stays", Transport: messages.TransportHTTP, URL: "https://example.com/mcp"}
	first, err := m.Client(spec)
	must(t, err)
	gone := *spec
	gone.Name = "gone"
	_, err = m.Client(&gone)
	must(t, err)
	m.KeepOnly(func(server string) bool { return server == "stays" })
	if len(m.clients) != 1 {
		t.Errorf("there are %d clients, want that of the server that stays", len(m.clients))
	}
	again, err := m.Client(spec)
	must(t, err)
	if again != first {
		t.Error("the server that stays got another client")
	}
}

// The secrets are told before a token is handed out.
func TestSecretsAreLearnedFirst(t *testing.T) {
	r := newRig(t, nil, nil)
	r.logIn()
	var mu sync.Mutex
	told := map[string]bool{}
	m := New(Options{StateDir: r.state, Learned: func(server string, secrets []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range secrets {
			told[server+" "+s] = true
		}
	}})
	defer m.Close()
	c, err := m.Client(r.spec)
	must(t, err)
	for i := range 2 {
		token, err := c.Token(t.Context())
		must(t, err)
		mu.Lock()
		if !told["docs "+token] || len(told)%2 != 0 {
			t.Errorf("%s is not among %v, or no refresh token is", token, told)
		}
		mu.Unlock()
		if i == 1 {
			break
		}
		r.f.Expire()
		_, err = c.Refused(t.Context(), token, http.StatusUnauthorized, http.Header{})
		must(t, err)
	}
}

// However often tokens are renewed, all that is used stays known, and few others do.
func TestUsedSecretsStayLearned(t *testing.T) {
	r := newRig(t, nil, nil)
	token := func(n int) string { return fmt.Sprintf("access-%d", n) }
	for n := range 100 {
		r.mu.Lock()
		r.learn(&saved{
			Clients: map[string]identity{"https://issuer.example": {Secret: "registered"}},
			Login:   &login{Client: identity{Secret: "configured"}, Refresh: fmt.Sprintf("refresh-%d", n), Access: token(n)},
		})
		r.mu.Unlock()
		known := r.learned()
		for _, secret := range []string{"registered", "configured", fmt.Sprintf("refresh-%d", n), token(n), token(max(n-1, 0))} {
			if !slices.Contains(known, secret) {
				t.Fatalf("%s is not among %q", secret, known)
			}
		}
		if most := 7; len(known) > most {
			t.Fatalf("%d secrets are known, want at most %d", len(known), most)
		}
	}
}

// Whoever finds a token that has run out renews it, and everybody else waits:
// the authorization server takes a refresh token that comes twice for stolen.
func TestOneRenewsForAll(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Second }, nil) // within the skew: it is never fresh
	r.logIn()
	r.f.Change(func(f *fakeauth.Fake) { f.Lifetime = time.Hour })
	hosts := []*rig{r, r.other(), r.other()}
	var asking sync.WaitGroup
	for i := range 60 {
		asking.Go(func() {
			if status, err := hosts[i%len(hosts)].ask("tools/call", "read"); status != http.StatusOK || err != nil {
				t.Errorf("%d, %v", status, err)
			}
		})
	}
	asking.Wait()
	if n := r.f.Count("token refresh_token"); n != 1 || r.f.Count("reuse") != 0 {
		t.Errorf("renewed %d times, reused %d times", n, r.f.Count("reuse"))
	}
}

// The same between processes.
func TestProcessesRenewOneAfterTheOther(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Second }, nil)
	r.logIn()
	const rounds = 3
	for round := range rounds {
		if round == rounds-1 {
			r.f.Change(func(f *fakeauth.Fake) { f.Lifetime = time.Hour })
		}
		var running sync.WaitGroup
		for range 2 {
			running.Go(func() {
				cmd := exec.CommandContext(t.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), childVariable+"="+r.state, childVariable+"_URL="+r.f.URL())
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
		running.Wait()
	}
	if r.f.Count("reuse") != 0 || r.f.Count("token refresh_token") == 0 {
		t.Errorf("renewed %d times, reused %d times", r.f.Count("token refresh_token"), r.f.Count("reuse"))
	}
	r.works()
}

// child asks for tokens many times at once.
func child() int {
	m := New(Options{StateDir: os.Getenv(childVariable)})
	defer m.Close()
	c, err := m.Client(&messages.ServerSpec{Name: "docs", Transport: messages.TransportHTTP, URL: os.Getenv(childVariable + "_URL")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var asking sync.WaitGroup
	failed := make(chan error, 20)
	for range cap(failed) {
		asking.Go(func() {
			if token, err := c.Token(context.Background()); err != nil || token == "" {
				failed <- fmt.Errorf("%q, %w", token, err)
			}
		})
	}
	asking.Wait()
	close(failed)
	for err := range failed {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A refusal makes one renewal, and another one no second.
func TestRefusedTokens(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Hour }, nil)
	r.logIn()
	r.f.Expire()
	r.works()
	if n := r.f.Count("token refresh_token"); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	// From now on it refuses whatever it is given.
	r.f.Change(func(f *fakeauth.Fake) {
		f.MCP = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
	})
	other := r.other() // that has not been given a new one
	for range 5 {
		other.refuses("read", "does not take its token", "metamcp auth login docs")
	}
	if n := r.f.Count("token refresh_token"); n != 2 {
		t.Errorf("renewed %d times", n)
	}
}

// A server that forgets its tokens again and again is given a new one each time, as
// long as it took the one before.
func TestForgottenTokens(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Hour }, nil)
	r.logIn()
	const times = 4
	for range times {
		r.f.Expire()
		r.works()
	}
	if n := r.f.Count("token refresh_token"); n != times {
		t.Errorf("renewed %d times", n)
	}
	// Another host has renewed it in the meantime, and this one hears of that.
	other := r.other()
	r.f.Expire()
	other.works()
	r.works()
	if n := r.f.Count("token refresh_token"); n != times+1 || r.f.Count("reuse") != 0 {
		t.Errorf("renewed %d times, reused %d times", n, r.f.Count("reuse"))
	}
}

func TestRefreshTokenThatIsDead(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Second }, nil)
	r.logIn()
	r.f.Expire("refresh")
	r.refuses("read", "not valid any more (invalid_grant)", "metamcp auth login docs")
	for range 3 {
		r.refuses("read", "metamcp auth login docs")
	}
	if n := r.f.Count("token refresh_token"); n != 1 {
		t.Errorf("it was tried %d times", n)
	}
	if s, err := r.Status(); err != nil || s.State != Expired {
		t.Errorf("%+v, %v", s, err)
	}
	r.f.Change(func(f *fakeauth.Fake) { f.Lifetime = time.Hour })
	r.logIn()
	r.works()
}

// The same where the refusal has the status of a server in trouble: who names what is
// wrong with the login has judged it.
func TestDeadLoginWithTheStatusOfTrouble(t *testing.T) {
	for _, code := range []string{"invalid_grant", "invalid_client", "unauthorized_client"} {
		r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Hour }, nil)
		r.logIn()
		r.f.Expire()
		r.f.Change(func(f *fakeauth.Fake) {
			f.Auth = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/token" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = fmt.Fprintf(w, `{"error":%q}`, code)
				return true
			}
		})
		refused := r.refuses("read", "not valid any more ("+code+")", "metamcp auth login docs")
		if refused.Cause != nil {
			t.Errorf("%+v", refused)
		}
		if s, err := r.Status(); err != nil || s.State != Expired {
			t.Errorf("%s: %+v, %v", code, s, err)
		}
	}
}

// An authorization server that cannot answer at the moment costs no login, however it
// says so.
func TestAuthorizationServerIsDown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status     int
		body, says string
		breaksOff  bool
	}{
		"503":                     {http.StatusServiceUnavailable, "", "HTTP 503", false},
		"503 with a code":         {http.StatusServiceUnavailable, `{"error":"temporarily_unavailable"}`, "temporarily_unavailable: HTTP 503", false},
		"500 with a code":         {http.StatusInternalServerError, `{"error":"server_error","error_description":"no database"}`, "server_error, no database: HTTP 500", false},
		"429 with a code":         {http.StatusTooManyRequests, `{"error":"slow_down"}`, "slow_down: HTTP 429", false},
		"408":                     {http.StatusRequestTimeout, "", "HTTP 408", false},
		"400 with a code":         {http.StatusBadRequest, `{"error":"temporarily_unavailable"}`, "temporarily_unavailable: HTTP 400", false},
		"a token that breaks off": {http.StatusOK, `{"access_token":"`, "broke off its answer", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Second }, nil)
			r.logIn()
			r.f.Change(func(f *fakeauth.Fake) {
				f.Lifetime = time.Hour
				f.Auth = func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != "/token" {
						return false
					}
					w.Header().Set("Content-Type", "application/json")
					if tt.breaksOff {
						w.Header().Set("Content-Length", "1000")
					}
					w.WriteHeader(tt.status)
					_, _ = w.Write([]byte(tt.body))
					if tt.breaksOff {
						_ = http.NewResponseController(w).Flush()
						panic(http.ErrAbortHandler)
					}
					return true
				}
			})
			// The old token is of use until its end.
			for {
				if _, err := r.ask("tools/call", "read"); err != nil {
					if e := says(t, err, tt.says); e.Cause == nil || e.login {
						t.Errorf("%+v", e)
					}
					break
				}
			}
			r.f.Change(func(f *fakeauth.Fake) { f.Auth = nil })
			r.works()
		})
	}
}

// The same where a client is to be registered: nobody has to do that by hand.
func TestRegistrationThatIsNotToBeHadAtTheMoment(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) {
		f.Auth = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/register" {
				return false
			}
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
	}, nil)
	_, err := r.browse()
	if e := says(t, err, "HTTP 429"); e.Cause == nil || e.Advice != "" {
		t.Errorf("%+v", e)
	}
}

// Some that never register anybody say it with the status of a server in trouble: their
// words, and the way out, are told beside it.
func TestRegistrationThatEndsInTrouble(t *testing.T) {
	for status, byHand := range map[int]bool{http.StatusInternalServerError: true, http.StatusNotImplemented: true, http.StatusServiceUnavailable: false} {
		r := newRig(t, func(f *fakeauth.Fake) {
			f.Auth = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/register" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				_, _ = w.Write([]byte(`{"error":"server_error","error_description":"ask the desk for a client"}`))
				return true
			}
		}, nil)
		_, err := r.browse()
		e := says(t, err, fmt.Sprintf("now, server_error ask the desk for a client: HTTP %d", status))
		if e.Cause == nil || strings.Contains(e.Advice, "Register a client there by hand") != byHand {
			t.Errorf("%d: %+v", status, e)
		}
	}
}

func TestStepUp(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Need = map[string]string{"write": "write", "admin": "admin"} }, nil)
	r.logIn()
	if e := r.refuses("write", `further scopes for this: "write"`, "metamcp auth login docs"); !e.Forbidden {
		t.Errorf("%+v", e)
	}
	r.works()
	s, err := r.Status()
	must(t, err)
	if s.State != LoggedIn || strings.Join(s.Wants, " ") != "write" {
		t.Errorf("%+v", s)
	}
	if s := r.logIn(); strings.Join(s.Scopes, " ") != "basic offline_access write" || s.Wants != nil {
		t.Errorf("%+v", s)
	}
	if status, err := r.ask("tools/call", "write"); status != http.StatusOK {
		t.Errorf("%d, %v", status, err)
	}
	// The same host, asked for the same once more, notes it again: the login took
	// the note.
	_, _, err = r.other().Logout(t.Context())
	must(t, err)
	r.other().logIn()
	r.refuses("write", "further scopes")
	if s := r.other().logIn(); !slices.Contains(s.Scopes, "write") {
		t.Errorf("%+v", s)
	}
	// Scopes that were asked for and are refused all the same: no login helps.
	r.f.Change(func(f *fakeauth.Fake) { f.Need["read"] = "basic2" })
	r.refuses("read", "basic2", "metamcp auth login")
	r.logIn()
	r.f.Change(func(f *fakeauth.Fake) {
		f.MCP = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="basic2"`)
			w.WriteHeader(http.StatusForbidden)
			return true
		}
	})
	if e := r.refuses("read", "asked for at the login already"); strings.Contains(e.Advice, "metamcp auth login") || !e.Forbidden {
		t.Errorf("%+v", e)
	}
}

// The server is put under another authorization server: nothing of the old one
// is used there.
func TestAuthorizationServerChanges(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Hour }, nil)
	r.logIn()
	next := fakeauth.Start(t, nil)
	r.f.Expire()
	r.f.Change(func(f *fakeauth.Fake) {
		f.Resource = func(meta map[string]any) { meta["authorization_servers"] = []string{next.AuthURL()} }
	})
	r.refuses("read", "under another authorization server now, "+next.AuthURL(), "metamcp auth login docs")
	if r.f.Count("token refresh_token") != 0 || next.Count("token refresh_token") != 0 {
		t.Error("a refresh token was used")
	}
	if s := r.logIn(); s.Issuer != next.AuthURL() || next.Count("register") != 1 || r.f.Count("register") != 1 {
		t.Errorf("%+v, registered %d and %d times", s, r.f.Count("register"), next.Count("register"))
	}
	// And back: the first registration is still known.
	r.f.Change(func(f *fakeauth.Fake) { f.Resource = nil })
	r.logIn()
	if r.f.Count("register") != 1 {
		t.Errorf("registered %d times", r.f.Count("register"))
	}
}

// A client that was registered by hand belongs to one authorization server.
func TestConfiguredClient(t *testing.T) {
	r := newRig(t, nil, &messages.OAuth{ClientID: "by-hand", ClientSecret: "s3cret/+ %"})
	r.f.Know("by-hand", "s3cret/+ %")
	r.logIn()
	r.works()
	if r.f.Count("register") != 0 {
		t.Error("it was registered")
	}
	next := fakeauth.Start(t, nil)
	next.Know("by-hand", "s3cret/+ %")
	r.f.Change(func(f *fakeauth.Fake) {
		f.Resource = func(meta map[string]any) { meta["authorization_servers"] = []string{next.AuthURL()} }
	})
	_, err := r.browse()
	says(t, err, "was used with the authorization server "+r.f.AuthURL(), next.AuthURL())
	r.works() // the old login is still there
	// Who names the issuer decides.
	named := rigOf(t, r.f, &messages.OAuth{ClientID: "by-hand", ClientSecret: "s3cret/+ %", Issuer: r.f.AuthURL()}, t.TempDir())
	_, err = named.browse()
	says(t, err, "oauth.issuer", "do not use it")
	if next.Count("authorize") != 0 {
		t.Error("it was sent there")
	}
}

func TestClientForItself(t *testing.T) {
	for _, methods := range [][]string{{"client_secret_basic"}, {"client_secret_post"}, nil} {
		o := &messages.OAuth{ClientID: "machine", ClientSecret: "s3cret-s3cret", ClientCredentials: true}
		r := newRig(t, func(f *fakeauth.Fake) {
			f.Need = map[string]string{"write": "write"}
			f.Issuer = func(meta map[string]any) { meta["token_endpoint_auth_methods_supported"] = methods }
		}, o)
		r.f.Know("machine", o.ClientSecret)
		r.works()
		r.works()
		if n := r.f.Count("token client_credentials"); n != 1 {
			t.Errorf("%v: %d tokens", methods, n)
		}
		// It may ask for more by itself.
		if status, err := r.ask("tools/call", "write"); status != http.StatusOK || err != nil {
			t.Errorf("%d, %v", status, err)
		}
		r.f.Expire()
		r.works()
		if s, err := r.Status(); err != nil || !s.Renewed || s.Client != "machine" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	r := newRig(t, nil, &messages.OAuth{ClientID: "machine", ClientSecret: "wrong-s3cret", ClientCredentials: true})
	r.f.Know("machine", "s3cret-s3cret")
	if e := r.refuses("read", "invalid_client"); strings.Contains(e.Error()+e.Advice, "wrong-s3cret") || strings.Contains(e.Advice, "auth login") || !strings.Contains(e.Advice, "clientSecret") {
		t.Errorf("%+v", e)
	}
}

func TestSignedAssertion(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	r := newRig(t, nil, &messages.OAuth{ClientID: "machine", PrivateKey: text, ClientCredentials: true})
	r.f.Know("machine", "")
	var claims jwt.RegisteredClaims
	r.f.Change(func(f *fakeauth.Fake) {
		f.Auth = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path != "/token" {
				return false
			}
			_, err := jwt.ParseWithClaims(q.FormValue("client_assertion"), &claims, func(*jwt.Token) (any, error) { return &key.PublicKey, nil }, jwt.WithAudience(r.f.AuthURL()), jwt.WithExpirationRequired())
			if err != nil || q.FormValue("client_assertion_type") != assertionType || q.FormValue("client_secret") != "" {
				http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
				return true
			}
			return false
		}
	})
	r.works()
	if claims.Issuer != "machine" || claims.Subject != "machine" || claims.ID == "" {
		t.Errorf("%+v", claims)
	}
	for _, bad := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"} {
		_, _, err := signer(bad)
		says(t, err, "privateKey", "PEM")
	}
}

func TestMetadataDocument(t *testing.T) {
	const document = "https://me.example/client.json"
	var asked url.Values
	r := newRig(t, func(f *fakeauth.Fake) {
		f.Issuer = func(meta map[string]any) { meta["client_id_metadata_document_supported"] = true }
		f.Auth = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/authorize" {
				asked = r.URL.Query()
			}
			return false
		}
	}, &messages.OAuth{MetadataURL: document, RedirectPort: freePort(t)})
	r.f.Know(document, "")
	r.logIn()
	r.works()
	if asked.Get("client_id") != document || r.f.Count("register") != 0 ||
		asked.Get("redirect_uri") != fmt.Sprintf("http://127.0.0.1:%d/callback", r.spec.OAuth.RedirectPort) || asked.Get("resource") != r.f.URL() {
		t.Errorf("%v, registered %d times", asked, r.f.Count("register"))
	}
}

// Damaged files are said, and a logout cures them.
func TestDamagedStore(t *testing.T) {
	r := newRig(t, nil, nil)
	r.logIn()
	must(t, os.WriteFile(filepath.Join(r.shelf.dir, "secrets.json"), []byte(`{"secrets": {"access": "s3cret`), 0o600))
	other := r.other()
	if e := other.refuses("read", "cannot be read"); strings.Contains(e.Error(), "s3cret") {
		t.Error(e)
	}
	if _, _, err := other.Logout(t.Context()); err != nil {
		t.Error(err)
	}
	other.logIn()
	other.works()
}

// A server of another address under the same name gets nothing of this one.
func TestTokensBelongToAnAddress(t *testing.T) {
	r := newRig(t, nil, nil)
	r.logIn()
	elsewhere := rigOf(t, fakeauth.Start(t, nil), nil, r.state)
	if token, err := elsewhere.Token(t.Context()); token != "" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
}

func TestNothingIsStoredWithoutAStateFolder(t *testing.T) {
	r := rigOf(t, fakeauth.Start(t, nil), nil, "")
	r.logIn()
	r.works()
}

// A token that was renewed while the disk was full, say, is used, and stored as soon
// as that is possible: the authorization server takes no older one any more.
func TestRenewedTokenThatCannotBeStored(t *testing.T) {
	for name, later := range map[string]func(r *rig){
		"with the next token": func(r *rig) {
			r.mu.Lock()
			r.tried = time.Now().Add(-saveAgain)
			r.mu.Unlock()
			r.works()
			r.m.work.Wait()
		},
		"at the end": func(r *rig) { r.m.Close() },
		"when its server is there no more": func(r *rig) {
			r.m.KeepOnly(func(string) bool { return false })
			r.m.work.Wait()
		},
		"when its entry is another": func(r *rig) {
			other := *r.spec
			other.OAuth = &messages.OAuth{RedirectPort: 1234}
			_, err := r.m.Client(&other)
			must(r.t, err)
			r.m.work.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Second }, nil)
			r.logIn()
			r.f.Change(func(f *fakeauth.Fake) { f.Lifetime = time.Hour })
			storable := r.unstorable()
			r.works()
			r.works()
			storable()
			later(r)
			r.other().works()
			if n := r.f.Count("token refresh_token"); n != 1 || r.f.Count("reuse") != 0 {
				t.Errorf("renewed %d times, reused %d times", n, r.f.Count("reuse"))
			}
		})
	}
}

// unstorable makes it impossible to store tokens until undo is called.
func (r *rig) unstorable() (undo func()) {
	r.t.Helper()
	lock := r.shelf.box.Path() + ".lock"
	must(r.t, errors.Join(os.RemoveAll(lock), os.Mkdir(lock, 0o700)))
	return func() { must(r.t, os.Remove(lock)) }
}

// What was not stored does not come back after somebody has logged out.
func TestUnstoredTokenEndsWithTheLogin(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Second }, nil)
	r.logIn()
	r.f.Change(func(f *fakeauth.Fake) { f.Lifetime = time.Hour })
	storable := r.unstorable()
	r.works()
	storable()
	if _, _, err := r.other().Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.m.Close()
	if s, err := r.other().Status(); err != nil || s.State != None {
		t.Errorf("%+v, %v", s, err)
	}
}

// A call that is given up does not end the renewal for the others.
func TestRenewalOutlivesItsCall(t *testing.T) {
	r := newRig(t, func(f *fakeauth.Fake) { f.Lifetime = time.Second }, nil)
	r.logIn()
	asked, goOn := make(chan struct{}), make(chan struct{})
	r.f.Change(func(f *fakeauth.Fake) {
		f.Lifetime = time.Hour
		f.Auth = func(_ http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path == "/token" {
				close(asked)
				<-goOn
			}
			return false
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := r.Token(ctx)
		gone <- err
	}()
	<-asked
	cancel()
	<-gone // an error, or the old token that is good for a moment
	close(goOn)
	r.works()
	if n := r.f.Count("token refresh_token"); n != 1 {
		t.Errorf("renewed %d times", n)
	}
}

func TestStatusHoldsNoSecret(t *testing.T) {
	r := newRig(t, nil, nil)
	s := r.logIn()
	text, err := json.Marshal(s)
	must(t, err)
	for _, secret := range r.learned() {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is in %s", secret, text)
		}
	}
	if len(r.learned()) < 2 {
		t.Errorf("%q", r.learned())
	}
}
