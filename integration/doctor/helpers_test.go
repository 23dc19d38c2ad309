package doctor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/integration/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// object is JSON to write.
type object = map[string]any

// write makes a file with its folders.
func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// configText is a configuration file; nil: without that part.
func configText(t *testing.T, servers, settings object) string {
	t.Helper()
	all := object{}
	if servers != nil {
		all["mcpServers"] = servers
	}
	if settings != nil {
		all["metamcp"] = settings
	}
	return encode(t, all)
}

// patient is a machine of the test's: home, working folder and configuration
// are in dir, and PATH is dir/bin alone.
func patient(t *testing.T, dir string, servers, settings object) *doctor.Patient {
	t.Helper()
	file := write(t, filepath.Join(dir, "mcp.json"), configText(t, servers, settings), 0o600)
	return patientOf(t, dir, file)
}

func patientOf(t *testing.T, dir, file string) *doctor.Patient {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	p := &doctor.Patient{
		FilesFrom: "--config", Home: dir, Cwd: dir, GOOS: runtime.GOOS, Executable: self, Version: "1.0.0",
		Getenv: func(name string) string { return map[string]string{"PATH": bin}[name] },
	}
	p.Config, p.LoadError = config.Load(config.Sources{
		Files: []string{file}, Home: dir, Cwd: dir, Environ: []string{"PATH=" + bin, "HOME=" + dir},
	})
	if p.LoadError != nil {
		p.Config = &config.Config{Settings: config.DefaultSettings()}
	}
	return p
}

// examine makes the checks of one group.
func examine(t *testing.T, p *doctor.Patient, group doctor.Group) []doctor.Result {
	t.Helper()
	checks := slices.DeleteFunc(p.Checks(), func(c doctor.Check) bool { return c.Group != group })
	results := doctor.Run(t.Context(), checks, scrub.New(p.Config.Servers), 0)
	for _, r := range results {
		if (r.Status == doctor.Fail || r.Status == doctor.Warn) && (r.Why == "" || r.Fix == "") {
			t.Errorf("%s %s (%s) does not say why it matters and how to mend it: %+v", r.ID, r.Subject, r.Status, r)
		}
	}
	return results
}

// want is what a result must be and say.
type want struct {
	id, subject string
	status      doctor.Status
	found, fix  string // parts of it
}

func expect(t *testing.T, results []doctor.Result, w want) doctor.Result {
	t.Helper()
	for _, r := range results {
		if r.ID == w.id && (w.subject == "" || r.Subject == w.subject) {
			if r.Status != w.status || !strings.Contains(r.Found, w.found) || !strings.Contains(r.Fix, w.fix) {
				t.Errorf("%s %s is\n%+v\nwant %s with %q and the remedy %q", w.id, w.subject, r, w.status, w.found, w.fix)
			}
			return r
		}
	}
	t.Errorf("no result %s %s in\n%+v", w.id, w.subject, results)
	return doctor.Result{}
}
