package doctor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/secrets"
)

func TestSecretsOfTheStore(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
	t.Setenv("XDG_RUNTIME_DIR", "")
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	settings := object{"stateDir": state}
	check := func() []doctor.Result { return examine(t, patient(t, dir, nil, settings), doctor.GroupState) }
	expect(t, check(), want{"state.secrets", "", doctor.OK, "no secrets are stored", ""})
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("doctor made the state folder: %v", err)
	}
	store := secrets.New(state)
	if _, err := store.Set(t.Context(), "GITHUB", "hush-hush", true); err != nil {
		t.Fatal(err)
	}
	expect(t, check(), want{"state.secrets", "", doctor.OK, "0 secrets in the keyring, 1 in " + store.Path(), ""})
	servers := object{"a": object{"command": "x", "env": object{"A": "${secret:GITHUB}", "B": "${secret:GONE}"}}}
	results := examine(t, patient(t, dir, servers, settings), doctor.GroupState)
	expect(t, results, want{"state.secrets", "GONE", doctor.Fail, "it is not stored", "metamcp secrets set GONE"})
	if all, err := json.Marshal(results); err != nil || strings.Contains(string(all), "hush") {
		t.Errorf("a value is shown: %s, %v", all, err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(store.Path(), 0o644); err != nil {
			t.Fatal(err)
		}
		expect(t, check(), want{"state.secrets", "", doctor.Fail, "others on this machine may read it", "chmod 600"})
	}
}
