package oauth

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// A login uses the certificates of the server's entry: the authority for everybody
// who is asked, the client's own for the server alone.
func TestLoginWithOwnCertificates(t *testing.T) {
	start := func(auth tls.ClientAuthType, h http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.TLS = &tls.Config{ClientAuth: auth, MinVersion: tls.VersionTLS12}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	var issuer, server *httptest.Server
	issuer = start(tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) > 0 {
			t.Error("the authorization server was shown the certificate that is for the server")
		}
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/token":
			_, _ = w.Write([]byte(`{"access_token":"s3cret-token","token_type":"Bearer","expires_in":3600}`))
		case "/.well-known/oauth-authorization-server":
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":%q}`, issuer.URL, issuer.URL+"/token")
		default:
			http.NotFound(w, r)
		}
	})
	server = start(tls.RequireAnyClientCert, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, server.URL+"/mcp", issuer.URL)
	})
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	must(t, err)
	files := &messages.TLS{
		CA: file("ca.pem", "CERTIFICATE", server.Certificate().Raw), Cert: file("cert.pem", "CERTIFICATE", server.Certificate().Raw), Key: file("key.pem", "PRIVATE KEY", key),
	}
	m := New(Options{})
	defer m.Close()
	logIn := func(files *messages.TLS) (*Status, error) {
		c, err := m.Client(&messages.ServerSpec{
			Name: "docs", Transport: messages.TransportHTTP, URL: server.URL + "/mcp", TLS: files,
			OAuth: &messages.OAuth{ClientID: "machine", ClientSecret: "s3cret-s3cret", ClientCredentials: true},
		})
		must(t, err)
		return c.Login(t.Context(), Person{})
	}
	_, err = logIn(nil)
	says(t, err, "certificate", `"tls": {"ca": …}`)
	_, err = logIn(&messages.TLS{CA: filepath.Join(dir, "none")})
	says(t, err, "the tls of server", filepath.Join(dir, "none"))
	if s, err := logIn(files); err != nil || s.State != LoggedIn || s.Issuer != issuer.URL {
		t.Errorf("%+v, %v", s, err)
	}
}

// closing says whether it was closed.
type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

// A request that is not made since a file of the "tls" is missing is closed all the
// same, as whoever gave its body may wait for.
func TestMissingFileClosesTheBody(t *testing.T) {
	server := parsed(t, "https://mcp.example/mcp")
	w := newWeb(server)
	w.trust(&messages.ServerSpec{Name: "docs", TLS: &messages.TLS{CA: filepath.Join(t.TempDir(), "none")}}, server)
	for _, body := range []*closing{nil, {Reader: strings.NewReader("{}")}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.String(), nil)
		must(t, err)
		if body != nil {
			req.Body = body
		}
		resp, err := w.client.Transport.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		var wrong *messages.Error
		if !errors.As(err, &wrong) || wrong.Code != messages.CodeConfiguration {
			t.Errorf("got %v", err)
		}
		if body != nil && !body.closed {
			t.Error("the body is left open")
		}
	}
}
