package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/metamcp/metamcp/integration/oauth/fakeauth"
	"github.com/metamcp/metamcp/messages"
)

func parsed(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	return u
}

func TestChallenges(t *testing.T) {
	for _, tt := range []struct {
		headers []string
		want    string // metadata|scopes|error
		bearer  bool
		other   string
	}{
		{headers: nil, want: "||"},
		{headers: []string{`Bearer`}, want: "||", bearer: true},
		{headers: []string{`Bearer resource_metadata="https://x/m", scope="a b", error="invalid_token"`}, want: "https://x/m|a b|invalid_token", bearer: true},
		{headers: []string{`bearer Scope=a,resource_metadata=https://x/m?a=b`}, want: "https://x/m?a=b|a|", bearer: true},
		{headers: []string{`Basic realm="a, Bearer scope=\"no\"", Bearer scope="yes"`}, want: "|yes|", bearer: true, other: "Basic"},
		{headers: []string{`Negotiate YWJj+/==, Bearer scope="a"`}, want: "|a|", bearer: true, other: "Negotiate"},
		{headers: []string{`Basic realm="x"`, `Bearer error="insufficient_scope" , scope = "a"`}, want: "|a|insufficient_scope", bearer: true, other: "Basic"},
		{headers: []string{`DPoP algs="ES256"`}, want: "||", other: "DPoP"},
		{headers: []string{`Bearer scope="never ends`}, want: "||", bearer: true},
		{headers: []string{`"`, `,,,`, `=`, `Bearer ===`, `Bearer =x, scope=y`}, want: "|y|", bearer: true},
		{headers: []string{`Bearer scope="a a "  , scope="b"`}, want: "|a|", bearer: true},
		{headers: []string{`Bearer scope="` + strings.Repeat("a", maxScope+1) + `", resource_metadata="https://` + strings.Repeat("a", maxURL) + `"`}, want: "||", bearer: true},
	} {
		c := readChallenge(http.Header{"Www-Authenticate": tt.headers})
		if got := c.Metadata + "|" + strings.Join(c.Scopes, " ") + "|" + c.code; got != tt.want || c.bearer != tt.bearer || c.other != tt.other {
			t.Errorf("%.100q: %q, %v, %q", tt.headers, got, c.bearer, c.other)
		}
	}
}

func FuzzChallenge(f *testing.F) {
	for _, s := range []string{`Bearer a=b, c="d\"e" f`, `Negotiate YWJj==`, `Bearer ,=,"`, "Basic \x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := readChallenge(http.Header{"Www-Authenticate": {s}})
		if len(strings.Join(c.Scopes, " ")) > maxScope || len(c.Metadata) > maxURL {
			t.Errorf("%+v", c)
		}
	})
}

func TestResourcesThatCoverAServer(t *testing.T) {
	for _, tt := range []struct {
		resource, server string
		want             bool
	}{
		{"https://x.example/mcp", "https://x.example/mcp", true},
		{"https://x.example", "https://x.example/mcp", true},
		{"https://x.example/", "https://x.example", true},
		{"HTTPS://X.example:443/mcp/", "https://x.example/mcp", true},
		{"https://x.example/mcp", "https://x.example/mcp/v1?key=1", true},
		{"https://x.example/mcp", "https://x.example/mcp2", false},
		{"https://x.example/mcp/v1", "https://x.example/mcp", false},
		{"https://x.example:8443/mcp", "https://x.example/mcp", false},
		{"http://x.example/mcp", "https://x.example/mcp", false},
		{"https://x.example.evil.example/mcp", "https://x.example/mcp", false},
		{"https://x.example/mcp#a", "https://x.example/mcp", false},
		{"https://x.example/mcp?tenant=2", "https://x.example/mcp?tenant=1", false},
		{"", "https://x.example/mcp", false},
		{"https://%zz", "https://x.example/mcp", false},
	} {
		if got := covers(tt.resource, parsed(t, tt.server)); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.resource, tt.server, got)
		}
	}
	if got := canonical(parsed(t, "HTTPS://X.Example/Mcp/?key=s3cret")); got != "https://x.example/Mcp" {
		t.Error(got)
	}
}

// Metadata are looked for where they may be, in order, and nowhere else.
func TestWhereMetadataAre(t *testing.T) {
	const resource, rfc8414, openID = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	for name, tt := range map[string]struct {
		header       string // path of the metadata in the refusal
		at           string // path of the resource's metadata; "": it has none
		issuer       string // path of the issuer
		meta         string // path of its metadata; "": it has none
		asked        []string
		wantResource string // path
		assumed      bool
	}{
		"in the refusal": {header: "/my/meta.json", at: "/my/meta.json", meta: rfc8414, asked: []string{"/my/meta.json", rfc8414}, wantResource: "/a/mcp"},
		"by the path":    {at: resource + "/a/mcp", meta: openID, asked: []string{resource + "/a/mcp", rfc8414, openID}, wantResource: "/a/mcp"},
		"at the root":    {at: resource, meta: rfc8414, asked: []string{resource + "/a/mcp", resource, rfc8414}, wantResource: "/a/mcp"},
		"a tenant":       {at: resource, issuer: "/t/1", meta: rfc8414 + "/t/1", asked: []string{resource + "/a/mcp", resource, rfc8414 + "/t/1"}, wantResource: "/a/mcp"},
		"a tenant's OpenID": {
			at: resource, issuer: "/t/1", meta: "/t/1" + openID,
			asked: []string{resource + "/a/mcp", resource, rfc8414 + "/t/1", openID + "/t/1", "/t/1" + openID}, wantResource: "/a/mcp",
		},
		"of 2025-03-26": {meta: rfc8414, asked: []string{resource + "/a/mcp", resource, rfc8414}, wantResource: "/a/mcp"},
		"nowhere":       {asked: []string{resource + "/a/mcp", resource, rfc8414, openID}, wantResource: "/a/mcp", assumed: true},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			var s *httptest.Server
			s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.URL.Path)
				switch r.URL.Path {
				case tt.at:
					_, _ = w.Write([]byte(`{"resource":"` + s.URL + `/a/mcp","authorization_servers":["` + s.URL + tt.issuer + `"]}`))
				case tt.meta:
					_, _ = w.Write([]byte(`{"issuer":"` + s.URL + tt.issuer + `","token_endpoint":"` + s.URL + `/t"}`))
				default: // as many web sites do
					w.Header().Set("Content-Type", "text/html")
					_, _ = w.Write([]byte("<html>all is well"))
				}
			}))
			defer s.Close()
			var c challenge
			if tt.header != "" {
				c.Metadata = s.URL + tt.header
			}
			u := parsed(t, s.URL+"/a/mcp")
			p, err := newWeb(u).discover(t.Context(), u, nil, c, true, "")
			must(t, err)
			if !slices.Equal(asked, tt.asked) {
				t.Errorf("asked %q", asked)
			}
			if p.resource != s.URL+tt.wantResource || p.issuer.Issuer != s.URL+tt.issuer || p.issuer.assumed != tt.assumed {
				t.Errorf("%+v", p)
			}
		})
	}
}

// A file of metadata may begin with a byte order mark.
func TestMetadataWithAByteOrderMark(t *testing.T) {
	for body, want := range map[string]bool{
		"\xef\xbb\xbf{\"resource\":\"https://x.example/mcp\"}\n": true,
		"\xef\xbb\xbf\xef\xbb\xbf{}":                             false,
		"\xef\xbb\xbf":                                           false,
	} {
		var m struct{ Resource string }
		err := decode(&http.Response{Body: io.NopCloser(strings.NewReader(body))}, &m)
		if (err == nil) != want || want && m.Resource != "https://x.example/mcp" {
			t.Errorf("%q: %+v, %v", body, m, err)
		}
	}
}

// Metadata that cannot be read at the moment may be there: nothing is guessed in their
// place.
func TestMetadataThatCannotBeReadAtTheMoment(t *testing.T) {
	for _, status := range []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		u := parsed(t, s.URL+"/mcp")
		_, err := newWeb(u).discover(t.Context(), u, nil, challenge{}, true, "")
		if e := says(t, err, fmt.Sprintf("HTTP %d", status)); e.Cause == nil {
			t.Errorf("%+v", e)
		}
	}
}

// What a server says of itself is not believed where it cannot be.
func TestMetadataThatLie(t *testing.T) {
	write := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"another resource":  {write(`{"resource":"https://evil.example/mcp","authorization_servers":["https://evil.example"]}`), "of another server, https://evil.example/mcp"},
		"no resource":       {write(`{"authorization_servers":["https://evil.example"]}`), "of another server"},
		"nobody":            {write(`{"resource":"SELF"}`), "no authorization server"},
		"a cloud's address": {write(`{"resource":"SELF","authorization_servers":["https://169.254.169.254"]}`), "169.254.169.254"},
		"a private address": {write(`{"resource":"SELF","authorization_servers":["https://192.168.0.1"]}`), "192.168.0.1"},
		"without TLS":       {write(`{"resource":"SELF","authorization_servers":["http://203.0.113.7"]}`), "not https"},
		"no address":        {write(`{"resource":"SELF","authorization_servers":["ftp://x"]}`), "no http or https"},
		"no JSON":           {write(`{"resource":`), "there is none"},
		"a list":            {write(`[]`), "there is none"},
		"too much":          {write(`{"resource":"` + strings.Repeat("a", maxBody) + `"}`), "there is none"},
		"an error":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "HTTP 502"},
		"a cloud by detour": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		}, "169.254.169.254"},
		"a cloud over https": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://169.254.169.254/", http.StatusFound)
		}, "169.254.169.254"},
		"a file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, "no http or https"},
		"round and round": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/meta", http.StatusFound) }, "redirects more than"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *httptest.Server
			s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				tt.answer(selfWriter{w, s.URL + "/mcp"}, r)
			}))
			defer s.Close()
			u := parsed(t, s.URL+"/mcp")
			_, err := newWeb(u).discover(t.Context(), u, nil, challenge{Metadata: s.URL + "/meta"}, true, "")
			says(t, err, tt.says)
		})
	}
}

// selfWriter writes an address for the word SELF.
type selfWriter struct {
	http.ResponseWriter
	self string
}

func (w selfWriter) Write(b []byte) (int, error) {
	_, err := w.ResponseWriter.Write([]byte(strings.Replace(string(b), "SELF", w.self, 1)))
	return len(b), err
}

// Nobody is led to this machine, or to the network behind it, by a server that
// is elsewhere: what a name stands for is looked at when it is dialled.
func TestAddressesThatAreRefused(t *testing.T) {
	hits := 0
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer s.Close()
	byName := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	var into map[string]any
	for _, server := range []string{"https://203.0.113.7/mcp", "https://10.1.2.3/mcp"} {
		w := newWeb(parsed(t, server))
		for _, address := range []string{s.URL, byName} {
			err := w.document(t.Context(), address, &into)
			says(t, unreachable("it", err), "an address of this machine")
		}
	}
	if hits != 0 {
		t.Errorf("%d requests came through", hits)
	}
	// What is where the server itself is can be reached.
	must(t, newWeb(parsed(t, "http://localhost:1/mcp")).check(parsed(t, byName)))
	for server, allowed := range map[string]string{
		"https://10.1.2.3/mcp": "192.168.1.1 8.8.8.8", "http://[::1]/mcp": "127.0.0.1 ::1 8.8.8.8", "https://203.0.113.7/mcp": "8.8.8.8", "https://169.254.169.254/mcp": "8.8.8.8",
		"https://100.64.1.1/mcp": "100.64.1.1 8.8.8.8", "https://100.100.100.200/mcp": "8.8.8.8", "https://[fd00::1]/mcp": "192.168.1.1 8.8.8.8",
	} {
		w := newWeb(parsed(t, server))
		var got []string
		for _, a := range []string{"127.0.0.1", "::1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "8.8.8.8", "224.0.0.1", "fe80::1", "100.64.1.1", "100.64.1.2", "100.100.100.200", "fd00:ec2::254"} {
			if w.guard.Refuse(netip.MustParseAddr(a)) == nil {
				got = append(got, a)
			}
		}
		want := strings.Fields(allowed)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
	}
}

// A name that could not be looked up is looked up again, and one that was found not
// for every request. Of a network that is neither public nor private the server's own
// address is allowed alone, and a name is never this machine.
func TestWhereOwnServersAre(t *testing.T) {
	for stands, allowed := range map[string]string{
		"10.1.2.3": "10.1.2.3 10.1.2.4 8.8.8.8 fd7a::1 fd7a::2", "100.64.1.1": "100.64.1.1 8.8.8.8", "127.0.0.1": "8.8.8.8", "169.254.169.254": "8.8.8.8", "10.1.2.3 8.8.8.8": "8.8.8.8", "100.64.1.1 8.8.8.8": "8.8.8.8",
		"100.64.1.1 fd7a::1": "100.64.1.1 8.8.8.8 fd7a::1",
	} {
		asked := 0
		w := newWeb(parsed(t, "https://home.example/mcp"))
		w.resolve = func(context.Context, string, string) (addrs []netip.Addr, _ error) {
			if asked++; asked == 1 {
				return nil, errors.New("no answer")
			}
			for _, a := range strings.Fields(stands) {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			return addrs, nil
		}
		if w.guard.Refuse(netip.MustParseAddr("10.1.2.3")) == nil {
			t.Errorf("%s: an address is allowed that nobody knows", stands)
		}
		var got []string
		for _, a := range []string{"10.1.2.3", "10.1.2.4", "100.64.1.1", "100.64.1.2", "127.0.0.1", "169.254.169.254", "8.8.8.8", "fd7a::1", "fd7a::2"} {
			if w.guard.Refuse(netip.MustParseAddr(a)) == nil {
				got = append(got, a)
			}
		}
		if strings.Join(got, " ") != allowed || asked != 2 {
			t.Errorf("%s: %q, want %q; looked up %d times", stands, got, allowed, asked)
		}
	}
}

// One that is listed and does not work does not keep from the next.
func TestSeveralAuthorizationServers(t *testing.T) {
	other := fakeauth.Start(t, nil)
	r := newRig(t, nil, nil)
	r.f.Change(func(f *fakeauth.Fake) {
		f.Resource = func(meta map[string]any) {
			meta["authorization_servers"] = []string{"http://127.0.0.1:1", other.AuthURL(), f.AuthURL()}
		}
	})
	if s := r.logIn(); s.Issuer != other.AuthURL() {
		t.Errorf("%+v", s)
	}
	// One that is known already is preferred, and the user's own before all.
	r.f.Change(func(f *fakeauth.Fake) {
		f.Resource = func(meta map[string]any) {
			meta["authorization_servers"] = []string{f.AuthURL(), other.AuthURL()}
		}
	})
	if s := r.logIn(); s.Issuer != other.AuthURL() {
		t.Errorf("%+v", s)
	}
	named := rigOf(t, r.f, &messages.OAuth{Issuer: r.f.AuthURL()}, t.TempDir())
	if s := named.logIn(); s.Issuer != r.f.AuthURL() {
		t.Errorf("%+v", s)
	}
}

// A server that asks for nothing is not guessed at.
func TestServerThatAsksForNothing(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	m := New(Options{StateDir: t.TempDir()})
	defer m.Close()
	c, err := m.Client(&messages.ServerSpec{Name: "x", URL: s.URL})
	must(t, err)
	_, err = c.Login(t.Context(), Person{Visit: func(string) { t.Error("somebody was sent somewhere") }})
	says(t, err, "answers without a login")
}

// Refusals that are not of OAuth stay what they are.
func TestOtherRefusals(t *testing.T) {
	r := newRig(t, nil, nil)
	for header, status := range map[string]int{`Basic realm="x"`: http.StatusUnauthorized, `Bearer error="invalid_token"`: http.StatusForbidden, ``: http.StatusForbidden} {
		h := http.Header{}
		if header != "" {
			h.Set("WWW-Authenticate", header)
		}
		if again, err := r.Refused(t.Context(), "", status, h); again || err != nil {
			t.Errorf("%q: %v, %v", header, again, err)
		}
	}
	again, err := r.Refused(t.Context(), "", http.StatusUnauthorized, http.Header{})
	if says(t, err, "metamcp auth login docs"); again {
		t.Error("again")
	}
}

// A 401 alone says nothing of OAuth: only metadata do. One that has none is asked
// for them once, and a login there says what to do instead.
func TestRefusalsWithoutOAuth(t *testing.T) {
	for _, challenge := range []string{"", `Bearer realm="metamcp"`} {
		var asked atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/mcp" {
				asked.Add(1)
				http.NotFound(w, r)
				return
			}
			if challenge != "" {
				w.Header().Set("WWW-Authenticate", challenge)
			}
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("go away"))
		}))
		t.Cleanup(s.Close)
		m := New(Options{StateDir: t.TempDir()})
		t.Cleanup(m.Close)
		c, err := m.Client(&messages.ServerSpec{Name: "keyed", URL: s.URL + "/mcp"})
		must(t, err)
		header := http.Header{}
		if challenge != "" {
			header.Set("WWW-Authenticate", challenge)
		}
		once := int64(0)
		for range 3 {
			if again, err := c.Refused(t.Context(), "", http.StatusUnauthorized, header); again || err != nil {
				t.Errorf("%q: %v, %v", challenge, again, err)
			}
			if once == 0 {
				once = asked.Load()
			}
		}
		if asked.Load() != once || once == 0 {
			t.Errorf("%q: it was asked for metadata %d times, at first %d", challenge, asked.Load(), once)
		}
		if st, err := c.Status(); err != nil || st.State != None {
			t.Errorf("%q: %+v, %v", challenge, st, err)
		}
		_, err = c.Login(t.Context(), Person{Visit: func(string) { t.Error("somebody was sent somewhere") }})
		if e := says(t, err, "offers no login"); !strings.Contains(e.Advice, `"headers"`) {
			t.Errorf("%q: %+v", challenge, e)
		}
	}
}
