package secrets_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	zalando "github.com/zalando/go-keyring"

	"github.com/metamcp/metamcp/integration/secrets"
)

// noKeyring makes a session without one.
func noKeyring(t *testing.T) {
	t.Helper()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		zalando.MockInitWithError(errors.New("not in tests"))
	}
}

func set(t *testing.T, s *secrets.Store, name, value string) secrets.Place {
	t.Helper()
	place, err := s.Set(t.Context(), name, value, false)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

func want(t *testing.T, s *secrets.Store, name, value string) {
	t.Helper()
	if got, err := s.Get(name); got != value || err != nil {
		t.Errorf("%s is %q, %v; want %q", name, got, err, value)
	}
}

func names(t *testing.T, s *secrets.Store) string {
	t.Helper()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s in %s", e.Name, e.Place))
		if e.Changed.IsZero() {
			t.Errorf("%s has no time", e.Name)
		}
	}
	return strings.Join(out, ", ")
}

func TestFile(t *testing.T) {
	noKeyring(t)
	dir := filepath.Join(t.TempDir(), "state")
	s := secrets.New(dir)
	if _, err := s.Get("A"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("an empty store: %v", err)
	}
	if got := names(t, s); got != "" {
		t.Errorf("an empty store has %s", got)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("reading made the folder: %v", err)
	}
	for _, v := range []struct{ name, value string }{{"B.two-2", "zwei\n\"\\ü"}, {"A", "one"}, {"A", "eins"}} {
		if place := set(t, s, v.name, v.value); place != secrets.InFile {
			t.Errorf("%s is in %s", v.name, place)
		}
		want(t, secrets.New(dir), v.name, v.value)
	}
	if got := names(t, s); got != "A in file, B.two-2 in file" {
		t.Errorf("there is %s", got)
	}
	info, err := os.Stat(s.Path())
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info.Mode(), err)
	}
	if removed, err := s.Remove(t.Context(), "A"); !removed || err != nil {
		t.Errorf("removed: %v, %v", removed, err)
	}
	if removed, err := s.Remove(t.Context(), "A"); removed || err != nil {
		t.Errorf("removed twice: %v, %v", removed, err)
	}
	if _, err := s.Get("A"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("a removed one: %v", err)
	}
	want(t, s, "B.two-2", "zwei\n\"\\ü")
}

func TestBadInput(t *testing.T) {
	noKeyring(t)
	s := secrets.New(t.TempDir())
	for _, name := range []string{"", "1A", "-a", ".a", "a b", "a/b", "../a", "ä", "a\n", strings.Repeat("a", 129)} {
		if _, err := s.Set(t.Context(), name, "some value", false); err == nil {
			t.Errorf("the name %q was taken", name)
		}
	}
	for what, value := range map[string]string{"empty": "", "NUL": "hush\x00hush", "not UTF-8": "hush\xff", "long": strings.Repeat("hush", secrets.MaxValue)} {
		if _, err := s.Set(t.Context(), "A", value, false); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := secrets.New("").Set(t.Context(), "A", "x", false); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("without a state folder: %v", err)
	}
	if _, err := secrets.New("").Get("A"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("without a state folder: %v", err)
	}
}

// Whatever wants a secret, there is a name for it.
func TestNamesForSecrets(t *testing.T) {
	for wanted, want := range map[string]string{
		"API_KEY": "API_KEY", "--api-key": "api-key", "x-api.key": "x-api.key", "database url": "database_url", "x;id #": "x_id", "": "SECRET", "42": "SECRET", "Schlüssel": "Schl_ssel",
		strings.Repeat("a", 200): strings.Repeat("a", 50),
	} {
		if got := secrets.NameFor(wanted); got != want || secrets.CheckName(got) != nil {
			t.Errorf("%q: %q", wanted, got)
		}
	}
}

// TestDamagedFile: what is wrong is said without a value, and nothing is lost.
func TestDamagedFile(t *testing.T) {
	noKeyring(t)
	for what, text := range map[string]string{
		"no JSON": `{"version":1,"secrets":{"A":{"in":"file","value":"hush-hush`, "another version": `{"version":2,"secrets":{}}`,
		"unknown member": `{"version":1,"secrets":{"A":{"in":"file","value":"hush-hush","x":1}}}`, "no value": `{"version":1,"secrets":{"A":{"in":"file"}}}`,
		"another place": `{"version":1,"secrets":{"A":{"in":"hush-hush"}}}`, "a bad name": `{"version":1,"secrets":{"hush/hush":{"in":"keyring"}}}`, "empty": "", "a list": `["hush-hush"]`,
	} {
		s := secrets.New(t.TempDir())
		if err := os.WriteFile(s.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, getErr := s.Get("A")
		_, setErr := s.Set(t.Context(), "B", "value", false)
		_, listErr := s.List()
		_, removeErr := s.Remove(t.Context(), "A")
		for _, err := range []error{getErr, setErr, listErr, removeErr} {
			if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), s.Path()) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if left, err := os.ReadFile(s.Path()); err != nil || string(left) != text {
			t.Errorf("%s: the file is %q, %v", what, left, err)
		}
	}
}

// TestManyAtOnce: no change of two processes, here stores, is lost.
func TestManyAtOnce(t *testing.T) {
	noKeyring(t)
	dir := t.TempDir()
	const writers, each = 4, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s := secrets.New(dir)
			for i := range each {
				if _, err := s.Set(t.Context(), fmt.Sprintf("S_%d_%d", w, i), "value", false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	list, err := secrets.New(dir).List()
	if err != nil || len(list) != writers*each {
		t.Errorf("%d of %d are there, %v", len(list), writers*each, err)
	}
}

// TestMockedKeyring is with the library's own mock in place of a keyring; a
// real one is in TestSecretService, which has the build tag secretservice.
func TestMockedKeyring(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	zalando.MockInit()
	dir := t.TempDir()
	s := secrets.New(dir)
	keyring(t, s)

	// Another state folder has secrets of its own.
	other := secrets.New(t.TempDir())
	set(t, other, "A", "another")
	want(t, s, "A", "first")
	want(t, other, "A", "another")

	// A keyring that breaks: what is in it cannot be had, what is new goes to
	// the file.
	zalando.MockInitWithError(errors.New("broken"))
	if _, err := s.Get("A"); err == nil || !strings.Contains(err.Error(), "keyring, which cannot be used: broken") {
		t.Errorf("a broken keyring: %v", err)
	}
	if _, err := s.Remove(t.Context(), "A"); err == nil {
		t.Error("a broken keyring lost a secret")
	}
	if place := set(t, s, "A", "second"); place != secrets.InFile {
		t.Errorf("it is in %s", place)
	}
	want(t, s, "A", "second")

	// One that forgot.
	zalando.MockInit()
	set(t, s, "C", "third")
	zalando.MockInit()
	if _, err := s.Get("C"); err == nil || errors.Is(err, secrets.ErrNotFound) || !strings.Contains(err.Error(), "metamcp secrets set C") {
		t.Errorf("a keyring that forgot: %v", err)
	}
	if removed, err := s.Remove(t.Context(), "C"); !removed || err != nil {
		t.Errorf("removed: %v, %v", removed, err)
	}
}

// keyring is what holds for every keyring that works; A stays.
func keyring(t *testing.T, s *secrets.Store) {
	t.Helper()
	if place := set(t, s, "A", "hush-hush"); place != secrets.InKeyring {
		t.Fatalf("it is in %s", place)
	}
	set(t, s, "B", "zwei\nlines ü")
	want(t, s, "A", "hush-hush")
	want(t, s, "B", "zwei\nlines ü")
	set(t, s, "A", "first")
	want(t, s, "A", "first")
	if text, err := os.ReadFile(s.Path()); err != nil || strings.Contains(string(text), "hush") || strings.Contains(string(text), "zwei") {
		t.Errorf("the file holds %s, %v", text, err)
	}
	if place, err := s.Set(t.Context(), "B", "in the file", true); place != secrets.InFile || err != nil {
		t.Errorf("it is in %s, %v", place, err)
	}
	want(t, s, "B", "in the file")
	if got := names(t, s); got != "A in keyring, B in file" {
		t.Errorf("there is %s", got)
	}
	if removed, err := s.Remove(t.Context(), "B"); !removed || err != nil {
		t.Errorf("removed: %v, %v", removed, err)
	}
	if _, err := s.Get("B"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("a removed one: %v", err)
	}
}

// A snapshot has what the file had when it was read.
func TestSnapshot(t *testing.T) {
	noKeyring(t)
	s := secrets.New(filepath.Join(t.TempDir(), "state"))
	set(t, s, "A", "one")
	text, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	set(t, s, "A", "two")
	set(t, s, "B", "later")
	if got, err := p.Get("A"); got != "one" || err != nil {
		t.Errorf("A is %q, %v", got, err)
	}
	if _, err := p.Get("B"); !errors.Is(err, secrets.ErrNotFound) {
		t.Errorf("B: %v", err)
	}
}
