package install

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/integration/trust"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// reason fails the test unless err is one of ours with that reason.
func reason(t *testing.T, err error, want Reason) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Reason != want {
		t.Fatalf("got %v and not a failure of the kind %q", err, want)
	}
	return e
}

// described is a server of a registry with one package.
func described(pkg registry.Package) *registry.Server {
	return &registry.Server{Name: "io.github.test/server", Description: "A server", Version: "1.0.0", Packages: []registry.Package{pkg}}
}

// resolve plans a package whose description is trusted.
func resolve(t *testing.T, opts Options, pkg registry.Package) (*Plan, error) {
	t.Helper()
	s := described(pkg)
	return Resolve(t.Context(), opts, s, trust.Candidates(s)[0], trust.ServerName)
}

func planned(t *testing.T, opts Options, pkg registry.Package) *Plan {
	t.Helper()
	p, err := resolve(t, opts, pkg)
	must(t, err)
	return p
}

// nothingLeft fails the test where there is anything below servers/, or a lock
// file.
func nothingLeft(t *testing.T, state string) {
	t.Helper()
	l := provisioned.Open(state)
	if left, err := os.ReadDir(l.Servers()); err == nil && len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
	if _, err := os.Stat(l.Path()); err == nil {
		t.Error("there is a lock file")
	}
}

// localNetwork lets tests ask servers of this machine.
func localNetwork(server interface{ Client() *http.Client }) *network {
	n := publicNetwork()
	n.Allow = func(netip.Addr) error { return nil }
	n.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	n.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
	return n
}

// tools makes a folder with programs that are shell scripts and returns an
// environment in which they are found first.
func tools(t *testing.T, scripts map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scripts {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nset -eu\n"+text), 0o700))
	}
	return with(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "TOOLS="+dir)
}
