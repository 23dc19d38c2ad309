package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/web"
)

func TestTheTokenBecomesACookie(t *testing.T) {
	s := serve(t, web.Options{Host: newFakeHost()})
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	token := u.Query().Get("token")
	if u.Hostname() != "127.0.0.1" || len(token) < 22 { // 22 × 6 bits are 132
		t.Errorf("the link is %s", s.URL())
	}
	c := visit(t, s)
	if !c.cookie.HttpOnly || c.cookie.SameSite != http.SameSiteStrictMode || c.cookie.Path != "/" || c.cookie.MaxAge != 0 || !c.cookie.Expires.IsZero() {
		t.Errorf("the cookie is %s", c.cookie)
	}
	if strings.Contains(c.cookie.Value, token) || !strings.Contains(c.cookie.Name, u.Port()) {
		t.Errorf("the cookie is %s: it must not hold the token, and must not be that of another port", c.cookie)
	}
	answer := c.send(c.request("/?token=" + token))
	if at := answer.Header.Get("Location"); at != "/" {
		t.Errorf("the link leads to %q", at)
	}
	other := visit(t, serve(t, web.Options{Host: newFakeHost()}))
	r := c.request("/")
	r.Header.Set("Cookie", c.cookie.Name+"="+other.cookie.Value)
	if answer := c.send(r); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the secret of another host is answered with %s", answer.Status)
	}
}

func TestWhoMayLook(t *testing.T) {
	s := serve(t, web.Options{Host: newFakeHost()})
	c := visit(t, s)
	self := origin(t, s)
	port := self[strings.LastIndexByte(self, ':'):]
	tests := []struct {
		name   string
		path   string // "": /
		change func(*http.Request)
		want   int
	}{
		{"the page itself", "", func(*http.Request) {}, 200},
		{"by name", "", func(r *http.Request) { r.Host = "localhost" + port }, 200},
		{"by name, in capitals", "", func(r *http.Request) { r.Host = "LOCALHOST" + port }, 200},
		{"over IPv6", "", func(r *http.Request) { r.Host = "[::1]" + port }, 200},
		{"a name that points here", "", func(r *http.Request) { r.Host = "evil.example" + port }, 403},
		{"a name that begins like ours", "", func(r *http.Request) { r.Host = "127.0.0.1.evil.example" + port }, 403},
		{"another port", "", func(r *http.Request) { r.Host = "127.0.0.1:1" }, 403},
		{"no port", "", func(r *http.Request) { r.Host = "127.0.0.1" }, 403},
		{"our origin", "/api/search?q=x", func(r *http.Request) { r.Header.Set("Origin", self) }, 200},
		{"another origin", "/api/search?q=x", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403},
		{"another port's origin", "/api/search?q=x", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, 403},
		{"a null origin", "/api/search?q=x", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"from our page", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
		{"from the address bar", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "none") }, 200},
		{"from another site", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"from another port", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		{"the link from another site", s.URL()[len(self):], func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"POST", "", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		{"HEAD", "", func(r *http.Request) { r.Method = http.MethodHead }, 405},
		{"OPTIONS", "", func(r *http.Request) { r.Method = http.MethodOptions }, 405},
		{"no cookie", "", func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		{"no cookie, a file", "/main.js", func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		{"no cookie, the stream", "/api/events", func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		{"no cookie, nothing", "/nothing", func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		{"a wrong cookie", "", func(r *http.Request) { r.Header.Set("Cookie", c.cookie.Name+"=x") }, 401},
		{"a wrong token", "/?token=x", func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		{"an empty token", "/?token=", func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		{"the token elsewhere", "/api/search?q=x&" + s.URL()[strings.IndexByte(s.URL(), '?')+1:], func(r *http.Request) { r.Header.Del("Cookie") }, 401},
		{"a wrong cookie beside ours", "", func(r *http.Request) {
			r.Header.Set("Cookie", c.cookie.Name+"=x; "+c.cookie.Name+"="+c.cookie.Value)
		}, 200},
		{"nothing", "/nothing", func(*http.Request) {}, 404},
		{"a way out", "/..%2fserver.go", func(*http.Request) {}, 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.path
			if path == "" {
				path = "/"
			}
			r := c.request(path)
			tt.change(r)
			answer := c.send(r)
			if answer.StatusCode != tt.want {
				t.Errorf("answered with %s, want %d", answer.Status, tt.want)
			}
			if allow := answer.Header.Get("Allow"); (allow == "GET") != (tt.want == http.StatusMethodNotAllowed) {
				t.Errorf("Allow is %q", allow)
			}
			bound(t, answer)
		})
	}
}

// bound checks the headers of every answer.
func bound(t *testing.T, answer *http.Response) {
	t.Helper()
	policy := answer.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s: %s", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
		t.Errorf("the policy lets too much in: %s", policy)
	}
	for name, want := range map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
	} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestWhoHasNoTokenIsToldWhatToDo(t *testing.T) {
	s := serve(t, web.Options{Host: newFakeHost()})
	c := visit(t, s)
	r := c.request("/")
	r.Header.Del("Cookie")
	r.Header.Set("Accept", "text/html,*/*")
	answer, body := c.read(r)
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain") || !strings.Contains(body, "Open the link") {
		t.Errorf("answered with %s: %s", answer.Header.Get("Content-Type"), body)
	}
}

func TestFilesHaveTheirTypes(t *testing.T) {
	c := visit(t, serve(t, web.Options{Host: newFakeHost()}))
	for path, want := range map[string]string{
		"/": "text/html; charset=utf-8", "/page.css": "text/css; charset=utf-8", "/main.js": "text/javascript; charset=utf-8",
		"/icon.svg": "image/svg+xml; charset=utf-8",
	} {
		if got := c.send(c.request(path)).Header.Get("Content-Type"); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		":7777": "127.0.0.1:7777", "127.0.0.1:7777": "127.0.0.1:7777", "localhost:0": "127.0.0.1:0", "LocalHost:1": "127.0.0.1:1",
		"127.9.9.9:80": "127.9.9.9:80", "[::1]:7777": "[::1]:7777", "[::ffff:127.0.0.1]:1": "127.0.0.1:1",
		"0.0.0.0:7777": "", "[::]:7777": "", "192.168.1.2:7777": "", "example.org:7777": "", "localhost.example.org:1": "",
		"7777": "", "": "", ":": "", ":x": "", ":70000": "", ":-1": "", "[::1%lo]:1": "", "[fe80::1]:1": "",
	} {
		got, err := web.CheckAddr(addr)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q is %q (%v), want %q", addr, got, err, want)
		}
	}
	_, err := web.Serve(web.Options{Addr: "0.0.0.0:7777", Host: newFakeHost()})
	if err == nil || !strings.Contains(err.Error(), "no loopback address") || !strings.Contains(err.Error(), "ssh -L") {
		t.Errorf("the error is %v", err)
	}
}

func TestAPortThatIsTaken(t *testing.T) {
	s := serve(t, web.Options{Host: newFakeHost()})
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	_, err = web.Serve(web.Options{Addr: u.Host, Host: newFakeHost()})
	if err == nil || !strings.Contains(err.Error(), u.Host+" is taken") || !strings.Contains(err.Error(), "--web=:0") {
		t.Errorf("the error is %v", err)
	}
	if status, _ := visit(t, s).get("/"); status != http.StatusOK {
		t.Errorf("the first host answers with %d", status)
	}
}
