//go:build unix

package bearer

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that others can write to lets nobody in.
func TestAPublicFileLetsNobodyIn(t *testing.T) {
	s := New(t.TempDir(), nil)
	token, err := s.Add(t.Context(), "a", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Path(), 0o666); err != nil {
		t.Fatal(err)
	}
	fresh := New(s.dir, nil)
	if _, err := fresh.Check(token); err == nil {
		t.Error("somebody got in")
	}
	if _, err := fresh.Add(t.Context(), "b", 0, false); err == nil {
		t.Error("the file was replaced")
	}
}

// A running host follows the file's mode in both directions, and says so once.
func TestAModeIsSeenWhileItRuns(t *testing.T) {
	var said bytes.Buffer
	s := New(t.TempDir(), slog.New(slog.NewTextHandler(&said, nil)))
	token, err := s.Add(t.Context(), "a", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	enters := func(want bool) {
		t.Helper()
		for range 3 {
			if _, err := s.Check(token); (err == nil) != want {
				t.Errorf("let in: %v, want %v (%v)", err == nil, want, err)
			}
		}
	}
	enters(true)
	for range 2 {
		for _, mode := range []os.FileMode{0o644, 0o600} {
			if err := os.Chmod(s.Path(), mode); err != nil {
				t.Fatal(err)
			}
			enters(mode == 0o600)
		}
	}
	log := said.String()
	if strings.Count(log, "nobody gets in") != 2 || strings.Count(log, "can be read again") != 2 || !strings.Contains(log, s.Path()) || !strings.Contains(log, "mode 644") {
		t.Errorf("the log: %s", log)
	}
}

// A failure that leaves no trace at the file, as when descriptors run out, is not
// kept for long.
func TestAFailureIsLookedAtAgain(t *testing.T) {
	s := New(t.TempDir(), slog.New(slog.DiscardHandler))
	token, err := s.Add(t.Context(), "a", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Check(token); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.known, s.failed, s.looked = nil, errors.New("no descriptors"), time.Now().Add(-again)
	s.mu.Unlock()
	if _, err := s.Check(token); err != nil {
		t.Errorf("still refused: %v", err)
	}
}

// A link to nothing is not taken for a host without tokens, which lets everybody in.
func TestALinkToNothingLetsNobodyIn(t *testing.T) {
	s := New(t.TempDir(), slog.New(slog.DiscardHandler))
	token, err := s.Add(t.Context(), "a", 0, false)
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "tokens")
	if err := errors.Join(os.Rename(s.Path(), target), os.Symlink(target, s.Path())); err != nil {
		t.Fatal(err)
	}
	fresh := New(s.dir, slog.New(slog.DiscardHandler))
	if _, err := fresh.Check(token); err != nil {
		t.Errorf("through a link: %v", err)
	}
	if err := os.Rename(target, target+"2"); err != nil {
		t.Fatal(err)
	}
	for what, store := range map[string]*Store{"that ran": fresh, "that starts": New(s.dir, slog.New(slog.DiscardHandler))} {
		for range 2 {
			if there, err := store.Any(); there || err == nil {
				t.Errorf("a host %s: %v, %v; want an error", what, there, err)
			}
		}
	}
	if err := os.Rename(target+"2", target); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.Check(token); err != nil {
		t.Errorf("with the file back: %v", err)
	}
}
