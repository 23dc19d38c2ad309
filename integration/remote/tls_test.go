package remote

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// A server with a certificate of one's own authority is reached with that
// authority, and shown a certificate where it wants one.
func TestOwnCertificates(t *testing.T) {
	t.Parallel()
	s := newFake()
	srv := httptest.NewUnstartedServer(s)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := x509.MarshalPKCS8PrivateKey(srv.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	own := messages.TLS{CA: file("ca.pem", "CERTIFICATE", srv.Certificate().Raw), Cert: file("cert.pem", "CERTIFICATE", srv.Certificate().Raw), Key: file("key.pem", "PRIVATE KEY", key)}
	for _, tt := range []struct {
		name, said string
		tls        messages.TLS
	}{
		{"all", "", own},
		{"no authority", "certificate", messages.TLS{Cert: own.Cert, Key: own.Key}},
		{"no certificate", "certificate", messages.TLS{CA: own.CA}},
	} {
		k := openURL(t, messages.TransportHTTP, srv.URL, Options{}, func(spec *messages.ServerSpec) { spec.TLS = &tt.tls })
		if tt.said == "" {
			k.greet()
			continue
		}
		k.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		var f *Error
		if h := k.next("eof"); !errors.As(h.err, &f) || !strings.Contains(f.Error(), tt.said) || (tt.tls.CA == "") != strings.Contains(f.Advice, `"ca"`) {
			t.Errorf("%s: %v, %+v", tt.name, h.err, f)
		}
	}
	l, err := NewLauncher(Options{Parse: parse})
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []messages.TLS{{CA: filepath.Join(dir, "none")}, {CA: own.Key}, {Cert: own.Key, Key: own.Cert}} {
		_, err := l.Launch(&messages.ServerSpec{Name: "x", URL: srv.URL, TLS: &wrong}, &earTrumpet{})
		var refused *messages.Error
		if !errors.As(err, &refused) || refused.Code != messages.CodeConfiguration || !strings.Contains(refused.Message, wrong.CA+wrong.Cert) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
