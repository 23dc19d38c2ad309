package metamcp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/bearer"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
)

// TestCertificatesStayThemselves: whoever shows a certificate is the same for each
// request of a connection, and nobody else.
func TestCertificatesStayThemselves(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDoor(&config.Settings{StateDir: t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]string{}
	for _, name := range []string{"alice", "bobby"} {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
			Subject: pkix.Name{CommonName: name + ".clients.prod.internal.example.com"}, Issuer: pkix.Name{CommonName: "ca"},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}}, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			who, err := d.authorize(&http.Request{Header: http.Header{}, TLS: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}})
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && was[name] != who.Key {
				t.Errorf("%s is another for request %d", name, i+1)
			}
			was[name] = who.Key
		}
	}
	if was["alice"] == was["bobby"] {
		t.Error("two clients are one")
	}
}

// Who gets in over HTTP, and as whom.
func TestDoor(t *testing.T) {
	st := config.Settings{StateDir: t.TempDir()}
	d, err := newDoor(&st, nil)
	if err != nil {
		t.Fatal(err)
	}
	request := func(authorization, subject string) *http.Request {
		r := &http.Request{Header: http.Header{}}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		if subject != "" {
			cert := &x509.Certificate{RawIssuer: []byte("ca"), RawSubject: []byte(subject), Subject: pkix.Name{CommonName: subject}}
			r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{cert}}}
		}
		return r
	}
	enter := func(authorization, subject string) string {
		t.Helper()
		who, err := d.authorize(request(authorization, subject))
		if err != nil {
			t.Fatalf("%q %q: %v", authorization, subject, err)
		}
		return who.Key
	}
	if enter("", "") != enter("Bearer whatever", "") {
		t.Error("who proves nothing is somebody")
	}
	if one, two := enter("", "one"), enter("", "two"); one == two || one == "" {
		t.Errorf("certificates are not told apart: %q, %q", one, two)
	}
	a, err := d.tokens.Add(t.Context(), "a", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.tokens.Add(t.Context(), "b", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if enter("Bearer "+a, "") == enter("bearer "+b, "") || enter("Bearer "+a, "") == enter("Bearer "+a, "one") {
		t.Error("principals are not told apart")
	}
	if who, err := d.authorize(request("Bearer "+b, "")); err != nil || !who.NoProvision || who.Name != "b" {
		t.Errorf("%+v, %v", who, err)
	}
	refused := func() {
		t.Helper()
		for _, wrong := range []string{"", "Bearer", "Bearer ", "Bearer x", "Basic " + a, a} {
			if _, err := d.authorize(request(wrong, "one")); err == nil {
				t.Errorf("%q gets in", wrong)
			}
		}
	}
	refused()
	for _, name := range []string{"a", "b"} {
		if _, err := d.tokens.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	refused()
	if _, err := d.authorize(request("Bearer "+a, "")); err == nil {
		t.Error("a removed token gets in")
	}
	// A file that cannot be read opens nothing, and keeps a host from starting.
	if err := os.WriteFile(bearer.New(st.StateDir, nil).Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newDoor(&st, nil); err == nil {
		t.Error("a host starts with tokens that it cannot read")
	}
}

// A token may forbid its clients to have servers installed.
func TestNoProvisionOfAToken(t *testing.T) {
	var e Engine
	cfg := &config.Config{Settings: config.DefaultSettings()}
	e.config.Store(cfg)
	e.clients.Store(uint64(7), client{})
	e.clients.Store(uint64(8), client{noProvision: true})
	e.clients.Store(uint64(9), client{noProvision: true, token: "ci"})
	if of7, of9 := e.tokenThatForbids(7), e.tokenThatForbids(9); of7 != "" || of9 != "ci" {
		t.Errorf("the tokens that forbid are %q and %q", of7, of9)
	}
	hint := func(gate trust.Gate) string {
		o := &option{candidate: trust.Candidate{Kind: registry.NPM, Package: "@acme/weather"}, version: "1.2.3", decision: trust.Decision{Gate: gate}}
		o.shown.Add = "metamcp add @acme/weather"
		return provisioner{&e}.gateHint(o, 9)
	}
	if got := hint(trust.GateSetting); !strings.Contains(got, `"ci"`) || strings.Contains(got, "autoProvisionClients") || !strings.Contains(got, "`metamcp provision @acme/weather@1.2.3`") {
		t.Errorf("the hint is %q", got)
	}
	if got := hint(trust.GateNamespace); !strings.Contains(got, "`metamcp provision @acme/weather@1.2.3`") || !strings.Contains(got, "`metamcp trust add @acme/weather`") {
		t.Errorf("the hint is %q, whose commands cannot be pasted", got)
	}
	if !e.mayProvision(theProgram, 0) || !e.mayProvision(aClient, 7) || e.mayProvision(aClient, 8) {
		t.Error("a token's word does not count")
	}
	if e.mayProvision(aClient, 0) || e.mayProvision(aClient, 9) {
		t.Error("who is not known may have servers installed")
	}
	cfg.Settings.AutoProvision = false
	if e.mayProvision(aClient, 7) || e.mayProvision(theProgram, 0) {
		t.Error("the setting does not count")
	}
}
