package bearer

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestATokenIsKnownByItsHash(t *testing.T) {
	s := New(t.TempDir(), nil)
	if there, err := s.Any(); there || err != nil {
		t.Fatalf("an empty store: %v, %v", there, err)
	}
	token, err := s.Add(t.Context(), "laptop", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Check(token)
	if err != nil || got.Name != "laptop" || !got.NoProvision {
		t.Errorf("Check: %+v, %v", got, err)
	}
	if there, err := s.Any(); !there || err != nil {
		t.Errorf("Any: %v, %v", there, err)
	}
	text, err := os.ReadFile(s.Path())
	if err != nil || strings.Contains(string(text), token) {
		t.Errorf("the file holds the token itself, or cannot be read: %v", err)
	}
	info, err := os.Stat(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	if perm := info.Mode().Perm(); runtime.GOOS != "windows" && perm != 0o600 {
		t.Errorf("permissions %v, want 0600", perm)
	}
	for _, wrong := range []string{"", "laptop", token + "x", token[:len(token)-1], got.Hash} {
		if _, err := s.Check(wrong); err == nil {
			t.Errorf("Check(%q) let somebody in", wrong)
		}
	}
	if _, err := s.Add(t.Context(), "laptop", 0, false); err == nil {
		t.Error("two tokens of one name")
	}
	if removed, err := s.Remove(t.Context(), "laptop"); !removed || err != nil {
		t.Fatalf("Remove: %v, %v", removed, err)
	}
	if _, err := s.Check(token); err == nil {
		t.Error("a removed token still lets in")
	}
	if removed, err := s.Remove(t.Context(), "laptop"); removed || err != nil {
		t.Errorf("Remove again: %v, %v", removed, err)
	}
}

func TestATokenExpires(t *testing.T) {
	s := New(t.TempDir(), nil)
	token, err := s.Add(t.Context(), "short", time.Nanosecond, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(token); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("Check: %v", err)
	}
	long, err := s.Add(t.Context(), "long", time.Hour, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(long); err != nil {
		t.Error(err)
	}
}

// A token that was checked is good until it is removed, made anew or over.
func TestATokenThatWasChecked(t *testing.T) {
	s := New(t.TempDir(), nil)
	for name, ends := range map[string]func() error{
		"removed":  func() error { _, err := s.Remove(t.Context(), "removed"); return err },
		"replaced": func() error { _, err := s.Replace(t.Context(), "replaced", 0, false); return err },
	} {
		token, err := s.Add(t.Context(), name, time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		checked, err := s.Check(token)
		if err != nil || !s.Holds(checked) {
			t.Errorf("%s: it does not hold at first, %v", name, err)
		}
		late := checked
		late.Expires = time.Now().Add(-time.Second)
		if s.Holds(late) {
			t.Errorf("%s: it holds after its time", name)
		}
		if err := ends(); err != nil {
			t.Fatal(err)
		}
		if s.Holds(checked) {
			t.Errorf("%s: it still holds", name)
		}
	}
}

// A file that cannot be trusted lets nobody in.
func TestABrokenFileLetsNobodyIn(t *testing.T) {
	for name, breaks := range map[string]func(path string) error{
		"damaged": func(path string) error { return os.WriteFile(path, []byte(`{"version":1,"tokens":[{"na`), 0o600) },
		"newer":   func(path string) error { return os.WriteFile(path, []byte(`{"version":9,"tokens":[]}`), 0o600) },
		"no hash": func(path string) error {
			return os.WriteFile(path, []byte(`{"version":1,"tokens":[{"name":"a","sha256":"","created":"2026-01-01T00:00:00Z"}]}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(t.TempDir(), nil)
			token, err := s.Add(t.Context(), "a", 0, false)
			if err != nil {
				t.Fatal(err)
			}
			if err := breaks(s.Path()); err != nil {
				t.Fatal(err)
			}
			fresh := New(s.dir, nil)
			if _, err := fresh.Check(token); err == nil {
				t.Error("somebody got in")
			}
			if _, err := fresh.Any(); err == nil {
				t.Error("Any has no error")
			}
			if _, err := fresh.Add(t.Context(), "b", 0, false); err == nil {
				t.Error("the broken file was replaced")
			}
		})
	}
}

func TestTokensOfSeveralProcessesAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	const n = 20
	for i := range n {
		wg.Go(func() {
			if _, err := New(dir, nil).Add(t.Context(), fmt.Sprint("t", i), 0, false); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := New(dir, nil).List(); err != nil || len(list) != n {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}

// A token that expired has a new one in its place, under its name.
func TestATokenIsReplaced(t *testing.T) {
	s := New(t.TempDir(), nil)
	old, err := s.Add(t.Context(), "short", time.Nanosecond, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(old); err == nil || !strings.Contains(err.Error(), "metamcp token add short --replace") || !strings.Contains(err.Error(), "Z;") {
		t.Errorf("the expired token: %v", err)
	}
	if _, err := s.Add(t.Context(), "short", 0, false); !errors.Is(err, ErrTaken) {
		t.Errorf("Add: %v", err)
	}
	next, err := s.Replace(t.Context(), "short", 0, true)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Check(next); err != nil || !got.NoProvision {
		t.Errorf("the new token: %+v, %v", got, err)
	}
	if _, err := s.Check(old); !errors.Is(err, ErrUnknown) {
		t.Errorf("the old token: %v", err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
