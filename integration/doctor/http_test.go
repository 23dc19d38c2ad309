package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/bearer"
	"github.com/metamcp/metamcp/integration/doctor"
)

// httpResults are the findings for settings of HTTP.
func httpResults(t *testing.T, dir string, settings object) []doctor.Result {
	t.Helper()
	return examine(t, patient(t, dir, nil, object{"stateDir": filepath.Join(dir, "state"), "http": settings}), doctor.GroupHosts)
}

func TestAddressOfHTTP(t *testing.T) {
	dir := t.TempDir()
	expect(t, httpResults(t, dir, object{}), want{"http.address", "", doctor.Skipped, "not set", ""})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for address, w := range map[string]want{
		"127.0.0.1:0":         {"http.address", "", doctor.OK, "is free", ""},
		"8090":                {"http.address", "", doctor.Fail, "is no address", "such as :8090"},
		"example.com:8090":    {"http.address", "", doctor.Fail, "is no address of this machine", "such as :8090"},
		":99999":              {"http.address", "", doctor.Fail, "is no port", "such as :8090"},
		taken.Addr().String(): {"http.address", "", doctor.Fail, "nobody can listen on " + taken.Addr().String(), "another port"},
		"192.0.2.1:0":         {"http.address", "", doctor.Fail, "nobody can listen", "another port"},
	} {
		expect(t, httpResults(t, dir, object{"address": address}), w)
	}
}

func TestTokensOfHTTP(t *testing.T) {
	dir := t.TempDir()
	expect(t, httpResults(t, dir, object{}), want{"http.tokens", "", doctor.Skipped, "no tokens", ""})
	expect(t, httpResults(t, dir, object{"address": ":0"}), want{"http.tokens", "", doctor.OK, "every program on this machine", ""})
	open := httpResults(t, dir, object{"address": "0.0.0.0:0"})
	expect(t, open, want{"http.tokens", "", doctor.Fail, "clients prove nothing", "metamcp token add"})
	expect(t, open, want{"http.tls", "", doctor.Warn, "no TLS", "http.tlsCert"})
	store := bearer.New(filepath.Join(dir, "state"), nil)
	if _, err := store.Add(t.Context(), "a", time.Nanosecond, false); err != nil {
		t.Fatal(err)
	}
	expect(t, httpResults(t, dir, object{"address": "0.0.0.0:0"}), want{"http.tokens", "", doctor.Warn, "all of 1 token have expired", "metamcp token add"})
	if _, err := store.Add(t.Context(), "b", 0, false); err != nil {
		t.Fatal(err)
	}
	expect(t, httpResults(t, dir, object{"address": "0.0.0.0:0"}), want{"http.tokens", "", doctor.OK, "2 tokens, 1 of them expired", ""})
	if err := os.WriteFile(store.Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, httpResults(t, dir, object{}), want{"http.tokens", "", doctor.Fail, "cannot be used", "move it away"})
}

func TestNamesOfHTTP(t *testing.T) {
	dir := t.TempDir()
	expect(t, httpResults(t, dir, object{}), want{"http.names", "", doctor.Skipped, "no names", ""})
	expect(t, httpResults(t, dir, object{"allowedHosts": []string{"mcp.example.com", "proxy:8443"}, "allowedOrigins": []string{"https://example.com", "http://localhost:3000/"}}),
		want{"http.names", "", doctor.OK, "and as mcp.example.com", ""})
}

// keyPair writes a certificate for localhost and its key.
func keyPair(t *testing.T, dir, name string, from, until time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: from, NotAfter: until, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = write(t, filepath.Join(dir, name+".pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o600)
	key = write(t, filepath.Join(dir, name+".key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), 0o600)
	return cert, key
}

func TestTLSOfHTTP(t *testing.T) {
	dir := t.TempDir()
	const day = 24 * time.Hour
	yesterday, year := time.Now().Add(-day), time.Now().Add(365*day)
	cert, key := keyPair(t, dir, "good", yesterday, year)
	_, otherKey := keyPair(t, dir, "other", yesterday, year)
	oldCert, oldKey := keyPair(t, dir, "old", yesterday.Add(-day), yesterday)
	earlyCert, earlyKey := keyPair(t, dir, "early", time.Now().Add(day), year)
	endsCert, endsKey := keyPair(t, dir, "ends", yesterday, time.Now().Add(day))
	text := write(t, filepath.Join(dir, "text.pem"), "no certificate", 0o600)
	gone := filepath.Join(dir, "gone.pem")
	for name, c := range map[string]struct {
		settings object
		w        want
	}{
		"none":             {object{}, want{"http.tls", "", doctor.Skipped, "no TLS", ""}},
		"good":             {object{"tlsCert": cert, "tlsKey": key}, want{"http.tls", "http.tlsCert", doctor.OK, "good until", ""}},
		"half":             {object{"tlsCert": cert}, want{"http.tls", "", doctor.Fail, "only one", "both"}},
		"certificate gone": {object{"tlsCert": gone, "tlsKey": key}, want{"http.tls", "http.tlsCert", doctor.Fail, "cannot be read", "path"}},
		"key gone":         {object{"tlsCert": cert, "tlsKey": gone}, want{"http.tls", "http.tlsKey", doctor.Fail, "cannot be read", "path"}},
		"no pair":          {object{"tlsCert": cert, "tlsKey": otherKey}, want{"http.tls", "http.tlsCert", doctor.Fail, "do not go together", "one certificate"}},
		"expired":          {object{"tlsCert": oldCert, "tlsKey": oldKey}, want{"http.tls", "http.tlsCert", doctor.Fail, "has expired", "new certificate"}},
		"not yet":          {object{"tlsCert": earlyCert, "tlsKey": earlyKey}, want{"http.tls", "http.tlsCert", doctor.Fail, "not good before", "new certificate"}},
		"soon":             {object{"tlsCert": endsCert, "tlsKey": endsKey}, want{"http.tls", "http.tlsCert", doctor.Warn, "ends on", "new certificate"}},
		"other name":       {object{"tlsCert": cert, "tlsKey": key, "allowedHosts": []string{"mcp.example.com"}}, want{"http.tls", "http.tlsCert", doctor.Warn, "not for the name mcp.example.com", "that name"}},
		"clients alone":    {object{"clientCa": cert}, want{"http.tls", "http.clientCa", doctor.Fail, "needs TLS", "http.tlsCert"}},
		"clients":          {object{"tlsCert": cert, "tlsKey": key, "clientCa": cert}, want{"http.tls", "http.clientCa", doctor.OK, "1 certificate", ""}},
		"no authority":     {object{"tlsCert": cert, "tlsKey": key, "clientCa": text}, want{"http.tls", "http.clientCa", doctor.Fail, "no certificate", "authorities"}},
		"authority gone":   {object{"tlsCert": cert, "tlsKey": key, "clientCa": gone}, want{"http.tls", "http.clientCa", doctor.Fail, "cannot be read", "path"}},
		"old authority":    {object{"tlsCert": cert, "tlsKey": key, "clientCa": oldCert}, want{"http.tls", "http.clientCa", doctor.Fail, "has expired", "new certificate"}},
	} {
		t.Run(name, func(t *testing.T) { expect(t, httpResults(t, dir, c.settings), c.w) })
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(key, 0o644); err != nil {
			t.Fatal(err)
		}
		expect(t, httpResults(t, dir, object{"tlsCert": cert, "tlsKey": key}), want{"http.tls", "http.tlsKey", doctor.Warn, "can be read by others", "chmod 600"})
	}
}
