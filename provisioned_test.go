package metamcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// provision puts a server into the lock file of a host in dir, whose program is
// this test binary, with one file of its own.
func provision(t *testing.T, dir, name string) (l *provisioned.Lock, kept provisioned.Locked, file string) {
	t.Helper()
	l = provisioned.Open(filepath.Join(dir, ".metamcp"))
	claim, err := l.Claim(name + "-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(claim.Dir(), "index.js"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, err := provisioned.Record(t.Context(), claim.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(claim.Place(), claim.Release()); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kept, _, err = l.Keep(t.Context(), provisioned.Locked{
		Name: name, Folder: claim.Folder(), Tree: tree.Hash, AllowedBy: provisioned.APerson,
		Entry:  provisioned.Entry{Command: self, Args: []string{}, Env: map[string]string{childVariable: "1"}},
		Source: provisioned.Source{Kind: "npm", Package: name, Version: "1.0.0"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, kept, filepath.Join(claim.Final(), "index.js")
}

func add(t *testing.T, e *metamcp.Engine, server string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := e.Execute(ctx, server, "add", json.RawMessage(`{"a": 1, "b": 2}`), metamcp.ExecuteOptions{})
	return err
}

// A provisioned server is a server like any other as long as its files are
// those that were installed. Where they are not, it does not start, and its
// calls say which file that is.
func TestProvisionedServerIsVerified(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, _, file := provision(t, dir, "weather")
	e := openIn(t, dir, map[string][]string{"own": nil})
	list := e.ListServers()
	if i := slices.IndexFunc(list, func(s metamcp.Server) bool { return s.Name == "weather" }); len(list) != 2 || i < 0 || list[i].Provisioned != "npm:weather@1.0.0" {
		t.Errorf("the servers are %+v", list)
	}
	status, err := e.HostStatus(t.Context(), false)
	if err != nil || !slices.ContainsFunc(status.Servers, func(s messages.HostServer) bool { return s.Name == "weather" && s.Provisioned == "npm:weather@1.0.0" }) {
		t.Errorf("the status is %+v, %v", status, err)
	}
	if err := add(t, e, "weather"); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(file, []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	next := openIn(t, dir, map[string][]string{"own": nil})
	var refused *metamcp.Error
	if err := add(t, next, "weather"); !errors.As(err, &refused) || refused.Code != messages.CodeConfiguration ||
		!strings.Contains(refused.Message, file) || refused.Retryable || refused.Hint == "" {
		t.Errorf("with a changed file: %v", err)
	}
	if err := add(t, next, "own"); err != nil {
		t.Errorf("the other server: %v", err)
	}
}

// What is kept in the lock file is there in a running host, and what is removed
// is gone.
func TestHostsFollowTheLockFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg, err := writeConfig(dir, children(map[string][]string{"own": nil}, nil))
	if err != nil {
		t.Fatal(err)
	}
	e, err := metamcp.Open(t.Context(), metamcp.Options{
		Sources: config.Sources{Files: []string{cfg}, Home: dir, Cwd: dir}, Log: slog.New(slog.DiscardHandler), Watch: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	has := func(want bool) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			if slices.ContainsFunc(e.ListServers(), func(s metamcp.Server) bool { return s.Name == "weather" }) != want {
				return errors.New("the host has not followed")
			}
			return nil
		})
	}
	l, _, _ := provision(t, dir, "weather")
	has(true)
	if err := add(t, e, "weather"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Remove(t.Context(), "weather"); err != nil {
		t.Fatal(err)
	}
	has(false)
	var gone *metamcp.Error
	if err := add(t, e, "weather"); !errors.As(err, &gone) || gone.Code != messages.CodeServerNotFound {
		t.Errorf("a call to a removed server: %v", err)
	}
}

// What a killed installation left is deleted when a host starts.
func TestAHostSweepsWhatInstallationsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, kept, _ := provision(t, dir, "weather")
	long := time.Now().Add(-2 * time.Hour)
	left := filepath.Join(l.Servers(), ".new-left-1")
	if err := errors.Join(os.Mkdir(left, 0o700), os.Chtimes(left, long, long), os.Chtimes(l.Dir(&kept), long, long)); err != nil {
		t.Fatal(err)
	}
	openIn(t, dir, nil)
	testkit.Eventually(t, time.Minute, func() error {
		if _, err := os.Stat(left); err == nil {
			return errors.New("the folder is there")
		}
		return nil
	})
	if _, err := os.Stat(l.Dir(&kept)); err != nil {
		t.Errorf("the server's own folder: %v", err)
	}
}
