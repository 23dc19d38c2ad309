package remote

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

const helloLine = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`

// refusedWith opens a link and returns why its greeting failed.
func refusedWith(t *testing.T, transport messages.Transport, url string, with ...func(*messages.ServerSpec)) *Error {
	t.Helper()
	k := openURL(t, transport, url, Options{}, with...)
	k.say(helloLine)
	var f *Error
	if h := k.next("eof"); !errors.As(h.err, &f) {
		t.Fatalf("%v", h.err)
	}
	return f
}

// Secrets are taken out of a body once it was cut: the head of one must not stay.
func TestNoWordOfABodyIsCutInTwo(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2hunter2"
	for n := 270; n < 305; n++ {
		for _, body := range []string{
			strings.Repeat("-", n) + " " + secret + " and more",
			`{"error":{"message":"` + strings.Repeat("-", n) + "=" + secret + `"}}`,
			`["` + strings.Repeat("-", n) + `","` + secret + `"]`,
		} {
			if said := strings.ReplaceAll(wordsOf([]byte(body)), secret, ""); strings.Contains(said, secret[:4]) || said == "" || len(said) > 300 {
				t.Errorf("of %q is said %q", body, said)
			}
		}
	}
}

// A credential that is refused is that, whatever the body of the refusal is, and
// the advice names the header, or an example of one.
func TestCredentialsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, kind, body string
		status           int
		headers          map[string]string
		said             string
		advice           []string
	}{
		{"JSON-RPC", jsonType, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this token is not known"}}`, 401, map[string]string{"Authorization": "Bearer s3cret"}, "it wants credentials: this token is not known", []string{`"headers" (Authorization)`, `"x"`}},
		{"JSON-RPC with its id", jsonType, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"not you"}}`, 403, map[string]string{"X-Api-Key": "s3cret"}, "not you", []string{`"headers" (X-Api-Key)`, "permission"}},
		{"words", "text/plain", "go away", 401, nil, "it wants credentials: go away", []string{`{"Authorization": "Bearer ${secret:TOKEN}"}`, "X-Api-Key"}},
		{"OAuth's words", jsonType, `{"error":"invalid_token","error_description":"log in first"}`, 401, nil, "it wants credentials: log in first", []string{`"headers"`}},
		{"a message", jsonType, `{"message":"no key"}`, 401, map[string]string{"X-Other": "1"}, "it wants credentials: no key", []string{"X-Other"}},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tt.kind)
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		f := refusedWith(t, messages.TransportHTTP, s.URL, func(spec *messages.ServerSpec) { spec.Headers = tt.headers })
		s.Close()
		if f.Status != tt.status || f.Said != tt.said || strings.Contains(f.Error()+f.Advice, "s3cret") {
			t.Errorf("%s: %d %q", tt.name, f.Status, f.Said)
		}
		for _, word := range tt.advice {
			if !strings.Contains(f.Advice, word) {
				t.Errorf("%s: the advice is %q, without %q", tt.name, f.Advice, word)
			}
		}
	}
}

// What is wrong with an address or a certificate is told by itself.
func TestAdviceByCause(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(newFake())
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(newFake())
	t.Cleanup(secure.Close)
	picky := httptest.NewUnstartedServer(newFake())
	picky.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}
	picky.StartTLS()
	t.Cleanup(picky.Close)
	away := httptest.NewServer(http.RedirectHandler("https://elsewhere.example/mcp", http.StatusPermanentRedirect))
	t.Cleanup(away.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	known := func(spec *messages.ServerSpec) { spec.TLS = &messages.TLS{CA: ca} }
	none := func(*messages.ServerSpec) {}
	swap := func(url, from, to string) string { return strings.Replace(url, from, to, 1) }
	for _, tt := range []struct {
		name, url string
		transport messages.Transport
		with      func(*messages.ServerSpec)
		advice    string
	}{
		{"HTTPS to plain HTTP", swap(plain.URL, "http:", "https:"), messages.TransportHTTP, none, "plain HTTP at this port: write http://"},
		{"plain HTTP to HTTPS", swap(secure.URL, "https:", "http:"), messages.TransportHTTP, none, "Write https://"},
		{"an unknown authority", secure.URL, messages.TransportHTTP, none, `"tls": {"ca"`},
		{"a certificate for other names", swap(secure.URL, "127.0.0.1", "localhost"), messages.TransportHTTP, known, "example.com"},
		{"no certificate of the client", picky.URL, messages.TransportHTTP, known, `{"cert": …, "key": …}`},
		{"a redirect", away.URL, messages.TransportHTTP, none, "If https://elsewhere.example/mcp is where the server is now"},
		{"type sse", plain.URL, messages.TransportSSE, none, `"type": "http"`},
	} {
		if f := refusedWith(t, tt.transport, tt.url, tt.with); !strings.Contains(f.Advice, tt.advice) {
			t.Errorf("%s: %v; the advice is %q", tt.name, f, f.Advice)
		}
	}
}

// What a proxy answers is not the server's: its credential is not to be blamed.
func TestProxyThatRefuses(t *testing.T) {
	t.Parallel()
	for status, advice := range map[int]string{http.StatusProxyAuthRequired: "", http.StatusForbidden: "The proxy does not let it through", http.StatusBadGateway: "The proxy does not let it through"} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodConnect {
				t.Errorf("the proxy is asked for %s", r.Method)
			}
			w.WriteHeader(status)
		}))
		t.Cleanup(proxy.Close)
		at, err := url.Parse(proxy.URL)
		if err != nil {
			t.Fatal(err)
		}
		transport := newTransport()
		transport.Proxy = http.ProxyURL(at)
		k := openURL(t, messages.TransportHTTP, "https://server.example/mcp", Options{Transport: transport})
		k.say(helloLine)
		var f *Error
		if h := k.next("eof"); !errors.As(h.err, &f) {
			t.Fatalf("%v", h.err)
		}
		if (f.Status == status) != (status == http.StatusProxyAuthRequired) || !f.NotRun || !strings.Contains(f.Said, "proxy") || !strings.HasPrefix(f.Advice, advice) {
			t.Errorf("%d: %+v", status, f)
		}
	}
}
