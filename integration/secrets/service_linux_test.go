//go:build secretservice

package secrets_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/secrets"
)

// insideVariable says that this test binary runs in a session of its own, with
// a bus and a keyring that is unlocked.
const insideVariable = "METAMCP_TEST_SECRET_SERVICE"

// TestSecretService is with a real Secret Service, that of GNOME, on a bus of
// its own and with a home of its own; the user's keyring is not touched. It
// needs dbus-run-session and gnome-keyring-daemon, so it has a tag; make
// test-keyring runs it.
func TestSecretService(t *testing.T) {
	if dir := os.Getenv(insideVariable); dir != "" {
		s := secrets.New(dir)
		keyring(t, s)
		if removed, err := s.Remove(t.Context(), "A"); !removed || err != nil {
			t.Errorf("removed: %v, %v", removed, err)
		}
		if _, err := s.Get("A"); !errors.Is(err, secrets.ErrNotFound) {
			t.Errorf("a removed one: %v", err)
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home, run := t.TempDir(), t.TempDir()
	const script = `eval "$(printf 'pass\n' | gnome-keyring-daemon --unlock --components=secrets 2>/dev/null)"; "$0" -test.run '^TestSecretService$' -test.v; status=$?; kill "$GNOME_KEYRING_PID" 2>/dev/null; exit $status`
	cmd := exec.CommandContext(t.Context(), "dbus-run-session", "--", "sh", "-c", script, self)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_RUNTIME_DIR=" + run, "XDG_DATA_HOME=" + home, insideVariable + "=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestSecretService") {
		t.Errorf("%v: %s", err, out)
	}
}
