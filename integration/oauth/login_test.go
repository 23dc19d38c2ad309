package oauth

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/oauth/fakeauth"
	"github.com/metamcp/metamcp/messages"
)

func freePort(t *testing.T) int {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	must(t, l.Close())
	return port
}

// What comes back from the browser is judged before it is used.
func TestAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(url.Values)
		issuer func(map[string]any)
		says   string
	}{
		"another issuer":         {answer: func(q url.Values) { q.Set("iss", "https://evil.example"); q.Set("error", "told-by-evil") }, says: "another authorization server"},
		"an issuer with a slash": {answer: func(q url.Values) { q.Set("iss", q.Get("iss")+"/") }, says: "another authorization server"},
		"no issuer":              {answer: func(q url.Values) { q.Del("iss") }, says: "does not say that it is of"},
		"an empty issuer":        {answer: func(q url.Values) { q.Set("iss", "") }, says: "another authorization server"},
		"issuer nobody promised": {answer: func(q url.Values) { q.Set("iss", "https://evil.example") }, issuer: func(m map[string]any) { delete(m, "authorization_response_iss_parameter_supported") }, says: "another authorization server"},
		"refused": {answer: func(q url.Values) {
			q.Del("code")
			q.Set("error", "access_denied")
			q.Set("error_description", "no\nway")
		}, says: "access_denied no way"},
		"no code":                 {answer: func(q url.Values) { q.Del("code") }, says: "holds no code"},
		"a code of somebody else": {answer: func(q url.Values) { q.Set("code", "stolen-code-of-x") }, says: "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(f *fakeauth.Fake) { f.Answer, f.Issuer = tt.answer, tt.issuer }, nil)
			_, err := r.browse()
			e := says(t, err, tt.says)
			if strings.Contains(e.Error(), "told-by-evil") || strings.Contains(e.Error(), "stolen-code-of-x") {
				t.Error(e)
			}
			if sent := r.f.Count("token authorization_code"); sent != 0 && name != "a code of somebody else" {
				t.Error("the code was sent on")
			}
		})
	}
}

// What comes to the port and is not the answer changes nothing.
func TestStrayAnswers(t *testing.T) {
	r := newRig(t, nil, nil)
	visited := make(chan error, 4)
	status, err := r.Login(t.Context(), Person{Visit: func(address string) {
		u, err := url.Parse(address)
		must(t, err)
		redirect := u.Query().Get("redirect_uri")
		go func() {
			visited <- fakeauth.Visit(redirect + "?code=x&state=guessed")
			visited <- fakeauth.Visit(redirect)
			visited <- fakeauth.Visit(strings.TrimSuffix(redirect, "callback"))
			visited <- fakeauth.Visit(address)
		}()
	}})
	must(t, err)
	for i := range 4 {
		if err := <-visited; (err == nil) != (i == 3) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if status.State != LoggedIn {
		t.Errorf("%+v", status)
	}
}

// A person whose browser is elsewhere pastes the address.
func TestPastedAnswer(t *testing.T) {
	r := newRig(t, nil, nil)
	lines, complaints := make(chan string), make(chan string, 1)
	_, err := r.Login(t.Context(), Person{Pasted: lines, Complain: func(why string) { complaints <- why }, Visit: func(address string) {
		go func() {
			lines <- "what is this"
			client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			defer client.CloseIdleConnections()
			resp, err := client.Get(address)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
			lines <- "  " + resp.Header.Get("Location") + "\r"
		}()
	}})
	must(t, err)
	if why := <-complaints; !strings.Contains(why, "http://127.0.0.1") {
		t.Errorf("%q", why)
	}
	r.works()
}

func TestLoginThatNobodyAnswers(t *testing.T) {
	r := newRig(t, nil, nil)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := r.Login(ctx, Person{Visit: func(string) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.refuses("read", "wants a login")
	r.logIn() // with the registration of the first, which was kept
	if n := r.f.Count("register"); n != 1 {
		t.Errorf("registered %d times", n)
	}
}

func TestServersThatCannotBeLoggedInTo(t *testing.T) {
	for name, tt := range map[string]struct {
		issuer func(map[string]any)
		says   []string
	}{
		"no PKCE":          {func(m map[string]any) { delete(m, "code_challenge_methods_supported") }, []string{"PKCE"}},
		"plain PKCE":       {func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} }, []string{"PKCE"}},
		"no registration":  {func(m map[string]any) { delete(m, "registration_endpoint") }, []string{"registers no clients", "clientId", "http://127.0.0.1:8912/callback", `"redirectPort": 8912`}},
		"no authorization": {func(m map[string]any) { delete(m, "authorization_endpoint") }, []string{"no authorization endpoint"}},
		"no token":         {func(m map[string]any) { delete(m, "token_endpoint") }, []string{"no token endpoint"}},
		"a token endpoint without TLS": {
			func(m map[string]any) { m["token_endpoint"] = "http://203.0.113.7/token" }, []string{"token endpoint", "not https"},
		},
		"a script":                {func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }, []string{"authorization endpoint", "no http or https"}},
		"the address of a cloud":  {func(m map[string]any) { m["registration_endpoint"] = "https://169.254.169.254/latest" }, []string{"registration endpoint", "169.254.169.254"}},
		"a private address":       {func(m map[string]any) { m["token_endpoint"] = "https://10.0.0.1/token" }, []string{"token endpoint", "private network"}},
		"another one's metadata":  {func(m map[string]any) { m["issuer"] = "https://honest.example" }, []string{"not those of the authorization server", "https://honest.example"}},
		"a user in an address":    {func(m map[string]any) { m["token_endpoint"] = "https://a:s3cret@x.example/token" }, []string{"user or a password"}},
		"registration that fails": {func(m map[string]any) { m["registration_endpoint"] = m["token_endpoint"] }, []string{"does not register this client", "by hand"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(f *fakeauth.Fake) { f.Issuer = tt.issuer }, nil)
			_, err := r.browse()
			if e := says(t, err, tt.says...); strings.Contains(e.Error(), "s3cret") {
				t.Error(e)
			}
			if r.f.Count("authorize") != 0 {
				t.Error("somebody was sent there")
			}
		})
	}
}

// Token endpoints that lie are seen through, and learn nothing more.
func TestTokenEndpointsThatLie(t *testing.T) {
	elsewhere := 0
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>hi"))
		}, "something that is no token"},
		"nothing":  {func(http.ResponseWriter, *http.Request) {}, "something that is no token"},
		"no token": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"token_type":"bearer"}`)) }, "something that is no token"},
		"another type": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"access_token":"abcdefgh","token_type":"DPoP"}`))
		}, "of the type DPoP"},
		"a header in it": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("{\"access_token\":\"a\\r\\nX-Evil: 1\",\"token_type\":\"bearer\"}"))
		}, "can be none"},
		"a huge one": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"token_type":"bearer","access_token":"` + strings.Repeat("a", maxToken+1) + `"}`))
		}, "can be none"},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(strings.Repeat(" ", 64<<10))); err != nil {
					return
				}
			}
		}, "something that is no token"},
		"an echo": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_request","error_description":"I was sent ` + r.FormValue("code") + ` and ` + r.FormValue("code_verifier") + `"}`)) //nolint:gosec // no browser reads it
		}, "invalid_request, I was sent [secret] and [secret]"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("again") {
				elsewhere++
			}
			http.Redirect(w, r, "/token?again", http.StatusTemporaryRedirect)
		}, "redirects"},
		"an error page": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "s3cret things", http.StatusForbidden) }, "HTTP 403"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(f *fakeauth.Fake) {
				f.Auth = func(w http.ResponseWriter, q *http.Request) bool {
					if q.URL.Path == "/token" {
						w.Header().Set("Content-Type", "application/json")
						tt.answer(w, q)
						return true
					}
					return false
				}
			}, nil)
			_, err := r.browse()
			if e := says(t, err, tt.says); strings.Contains(e.Error(), "s3cret") || strings.Contains(e.Error(), "code-") {
				t.Error(e)
			}
			if s, err := r.Status(); err != nil || s.State != None {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	if elsewhere != 0 {
		t.Error("the code was sent on")
	}
}

// One that never answers holds nobody up for ever.
func TestSlowServers(t *testing.T) {
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/register", "/token"} {
		t.Run(path, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			asked := make(chan struct{}, 1)
			r := newRig(t, func(f *fakeauth.Fake) {
				f.Auth = func(_ http.ResponseWriter, q *http.Request) bool {
					if q.URL.Path != path {
						return false
					}
					_, _ = io.Copy(io.Discard, q.Body) // or the end of the connection is not seen
					asked <- struct{}{}
					<-q.Context().Done()
					return true
				}
			}, nil)
			go func() {
				<-asked
				cancel()
			}()
			_, err := r.Login(ctx, Person{Visit: func(address string) { go func() { _ = fakeauth.Visit(address) }() }})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if r.web.client.Timeout <= 0 || r.web.client.Timeout > requestTime {
				t.Errorf("without somebody who gives up it takes %v", r.web.client.Timeout)
			}
		})
	}
}

// A registration that the authorization server has forgotten is made anew.
func TestForgottenRegistration(t *testing.T) {
	r := newRig(t, nil, nil)
	r.logIn()
	r.f.Change(func(f *fakeauth.Fake) {
		f.Auth = func(w http.ResponseWriter, q *http.Request) bool {
			if q.URL.Path != "/token" {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
			return true
		}
	})
	_, err := r.browse()
	says(t, err, "invalid_client")
	r.f.Change(func(f *fakeauth.Fake) { f.Auth = nil })
	r.logIn()
	if n := r.f.Count("register"); n != 2 {
		t.Errorf("registered %d times", n)
	}
}

func TestPortThatIsTaken(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = taken.Close() }()
	r := newRig(t, nil, &messages.OAuth{RedirectPort: taken.Addr().(*net.TCPAddr).Port})
	_, err = r.browse()
	says(t, err, "oauth.redirectPort")
}
