package models

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestInstall(t *testing.T) {
	data := model(1)
	h, f := newHub(t, data), folder(t)
	if list, err := f.List(); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	var last Progress
	m, already, err := f.Install(t.Context(), Request{
		Source: h.url + "?download=true&signature=secret", SHA256: "SHA256:" + strings.ToUpper(sum(data)),
		Progress: func(p Progress) { last = p },
	})
	if err != nil || already {
		t.Fatalf("%v, %v", already, err)
	}
	wantFile(t, f, "model", data)
	if m.Name != "model" || m.URL != h.url || m.Size != int64(len(data)) || m.Trust != TrustGiven || m.Architecture != "bert" || m.Dimension != 32 || !strings.HasPrefix(m.ID(), "model@") {
		t.Errorf("%+v", m)
	}
	if last.Done != int64(len(data)) || last.Total != last.Done {
		t.Errorf("the last progress: %+v", last)
	}
	if _, already, err = f.Install(t.Context(), Request{Source: h.url, SHA256: sum(data)}); err != nil || !already {
		t.Errorf("a second time: %v, %v", already, err)
	}
	if n := len(h.requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
	list, err := f.List()
	if err != nil || len(list) != 1 || list[0] != m {
		t.Errorf("list %+v, %v", list, err)
	}
	for _, name := range []string{"", "model", "Model"} {
		if found, err := f.Find(name); err != nil || found != m {
			t.Errorf("find %q: %+v, %v", name, found, err)
		}
	}
	text, err := os.ReadFile(f.manifestPath())
	if err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("the manifest: %s, %v", text, err)
	}
}

func TestWrongChecksum(t *testing.T) {
	h, f := newHub(t, model(1)), folder(t)
	_, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(model(2))})
	wantError(t, err, ErrChecksum, sum(model(1)))
	if left, err := filepath.Glob(filepath.Join(f.dir, "*.gguf")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(f.dir, ".*.part*")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestTrustOnFirstUse(t *testing.T) {
	h, f := newHub(t, model(1)), folder(t)
	_, _, err := f.Install(t.Context(), Request{Source: h.url})
	wantError(t, err, ErrUntrusted, "--trust-on-first-use")
	if n := len(h.requests()); n != 0 {
		t.Errorf("%d requests before it was decided what to believe", n)
	}
	m, _, err := f.Install(t.Context(), Request{Source: h.url, TrustFirstUse: true})
	if err != nil || m.Trust != TrustFirstUse || m.SHA256 != sum(model(1)) {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := f.Remove(t.Context(), "model"); err != nil {
		t.Fatal(err)
	}
	h.set(func() { h.data, h.etag = model(2), `"two"` })
	for _, trust := range []bool{false, true} {
		_, _, err = f.Install(t.Context(), Request{Source: h.url, TrustFirstUse: trust})
		wantError(t, err, ErrChecksum, "not the file that was there the first time")
	}
	if _, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(model(2))}); err != nil {
		t.Fatalf("with its checksum: %v", err)
	}
	// From now on that one is the known one.
	if _, already, err := f.Install(t.Context(), Request{Source: h.url}); err != nil || !already {
		t.Errorf("%v, %v", already, err)
	}
}

func TestNameTaken(t *testing.T) {
	h, f := newHub(t, model(1)), folder(t)
	if _, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(model(1))}); err != nil {
		t.Fatal(err)
	}
	_, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(model(2))})
	wantError(t, err, nil, "another file is installed as model")
	h.set(func() { h.data, h.etag = model(2), `"two"` })
	if _, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(model(2)), Name: "second"}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, f, "second", model(2))
}

func TestDamaged(t *testing.T) {
	data := model(1)
	h, f := newHub(t, data), folder(t)
	install := func(want bool) {
		t.Helper()
		if _, already, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(data)}); err != nil || already != want {
			t.Fatalf("%v, %v", already, err)
		}
		wantFile(t, f, "model", data)
	}
	install(false)
	if err := os.WriteFile(f.Path("model"), data[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := f.List(); err != nil || !list[0].Missing {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := f.Find(""); !errors.Is(err, ErrUnknown) {
		t.Errorf("found: %v", err)
	}
	install(false)
	if err := os.Remove(f.manifestPath()); err != nil { // as if it had crashed before the manifest was written
		t.Fatal(err)
	}
	n := len(h.requests())
	install(true)
	if len(h.requests()) != n {
		t.Error("it was downloaded though it was there")
	}
}

// TestConcurrent installs one model from several places at once.
func TestConcurrent(t *testing.T) {
	data := model(1)
	h, f := newHub(t, data), folder(t)
	var fresh, waited int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, already, err := In(f.dir).Install(t.Context(), Request{Source: h.url, SHA256: sum(data), Progress: func(p Progress) {
				if strings.Contains(p.Note, "waiting") {
					mu.Lock()
					waited++
					mu.Unlock()
				}
			}})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !already {
				fresh++
			}
		})
	}
	all.Wait()
	wantFile(t, f, "model", data)
	if fresh != 1 || len(h.requests()) != 1 {
		t.Errorf("%d installed it with %d requests", fresh, len(h.requests()))
	}
}

// TestManyModels are installed at once; the manifest must have them all.
func TestManyModels(t *testing.T) {
	f := folder(t)
	var all sync.WaitGroup
	for i := range 6 {
		data := model(uint64(i))
		h := newHub(t, data)
		all.Go(func() {
			if _, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(data), Name: fmt.Sprint("m", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := f.List(); err != nil || len(list) != 6 {
		t.Errorf("%d, %v", len(list), err)
	}
}

func TestRemove(t *testing.T) {
	data := model(1)
	h, f := newHub(t, data), folder(t)
	install := func() {
		t.Helper()
		if _, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(data), Name: "all-minilm"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.Remove(t.Context(), "all-minilm")
	wantError(t, err, ErrUnknown, `no model "all-minilm" is installed`)
	install()
	for name, hint := range map[string]string{"all-minilmm": "Did you mean all-minilm?", "../all-minilm": "Did you mean all-minilm?", "": "model list", "models.json": "model list"} {
		_, err := f.Remove(t.Context(), name)
		wantError(t, err, ErrUnknown, hint)
	}
	unlock, err := f.lock(t.Context(), "all-minilm", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Remove(t.Context(), "all-minilm")
	wantError(t, err, ErrBusy, "being installed")
	unlock()
	if m, err := f.Remove(t.Context(), "All-MiniLM"); err != nil || m.Name != "all-minilm" {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := os.Stat(f.Path("all-minilm")); err == nil {
		t.Error("the file is there still")
	}
	install()
	if err := os.Remove(f.Path("all-minilm")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Remove(t.Context(), "all-minilm"); err != nil {
		t.Errorf("one whose file is gone: %v", err)
	}
	if err := os.WriteFile(f.part("half"), []byte("GG"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Remove(t.Context(), "half"); err != nil {
		t.Errorf("half a download: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(f.dir, "*.gguf")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestRequests(t *testing.T) {
	tests := []struct {
		name string
		r    Request
		says string
	}{
		{"unknown name", Request{Source: "all-minilm-l6"}, "Did you mean all-minilm-l6-v2?"},
		{"unlike any", Request{Source: "zzzzzz"}, "model list --known"},
		{"http elsewhere", Request{Source: "http://models.example/m.gguf"}, "only downloaded by https"},
		{"http to a name like this machine's", Request{Source: "http://localhost.example/m.gguf"}, "only downloaded by https"},
		{"a file", Request{Source: "file:///etc/passwd"}, "URL of the model cannot be read"},
		{"ftp", Request{Source: "ftp://host/m.gguf"}, "only downloaded by https"},
		{"a password", Request{Source: "https://me:secret@host/m.gguf"}, "user name or password"},
		{"no checksum", Request{Source: "https://host/m.gguf", SHA256: "abc"}, "not a SHA-256"},
		{"no name", Request{Source: "https://host/"}, "--name"},
		{"a path as the name", Request{Source: "https://host/m.gguf", Name: "../m"}, "cannot be the name"},
		{"a hidden name", Request{Source: "https://host/m.gguf", Name: ".m"}, "cannot be the name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := folder(t).Install(t.Context(), tt.r)
			wantError(t, err, nil, tt.says)
			if strings.Contains(err.Error(), "secret") {
				t.Error(err)
			}
		})
	}
}

func TestCatalogue(t *testing.T) {
	for _, k := range Catalogue() {
		p, err := newPlan(&Request{Source: strings.ToUpper(k.Name)})
		if err != nil || p.SHA256 != k.SHA256 || !hexSum.MatchString(k.SHA256) || p.Trust != TrustCatalogue || p.sizeWanted < 1<<20 || !strings.HasPrefix(p.from, "https://") {
			t.Errorf("%s: %+v, %v", k.Name, p, err)
		}
	}
}

func TestManifests(t *testing.T) {
	tests := []struct {
		name, text, says string
		want             int
	}{
		{"broken", "{", "cannot be read", 0},
		{"empty", "", "cannot be read", 0},
		{"null", "null", "", 0},
		{"of the future", `{"version":2,"models":{}}`, "another version", 0},
		{"names that are paths", `{"version":1,"models":{"../x":{"name":"../x"},"a":{"name":"../../b"},"c":{"name":"c"}}}`, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := folder(t)
			if err := os.MkdirAll(f.dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f.manifestPath(), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			list, err := f.List()
			if tt.says != "" {
				wantError(t, err, nil, tt.says)
				_, err = f.Remove(t.Context(), "c")
				wantError(t, err, nil, tt.says)
				return
			}
			if err != nil || len(list) != tt.want {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}
