package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp/index/embed/models"
	"github.com/metamcp/metamcp/index/embed/models/gguf/gguftest"
	"github.com/metamcp/metamcp/integration/config"
)

// modelCommand runs `metamcp model …` with a state folder of the test's.
func modelCommand(t *testing.T, state string, words ...string) (stdout, stderr string, err error) {
	t.Helper()
	c := &common{logLevel: "warn"}
	root := &cobra.Command{Use: "metamcp", SilenceUsage: true, SilenceErrors: true}
	c.overlay = config.RegisterFlags(root.PersistentFlags())
	root.AddCommand(newModel(c))
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(append([]string{"model", "--state-dir", state}, words...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

func TestModelCommand(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(empty, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("METAMCP_CONFIG", empty)
	data := gguftest.BERT{}.Bytes()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data)
	}))
	defer hub.Close()
	raw := sha256.Sum256(data)
	sum := hex.EncodeToString(raw[:])
	url := hub.URL + "/Tiny_Model.gguf"
	state := t.TempDir()

	steps := []struct {
		name   string
		args   []string
		stdout []string
		fails  string
	}{
		{"nothing yet", []string{"list"}, []string{"no models"}, ""},
		{"the known ones", []string{"list", "--known"}, []string{"all-minilm-l6-v2", "25.0 MB", "Apache-2.0"}, ""},
		{"no checksum", []string{"install", url}, nil, "--trust-on-first-use"},
		{"wrong checksum", []string{"install", url, "--sha256", strings.Repeat("0", 64)}, nil, sum},
		{"a misspelt name", []string{"install", "all-minilm-l6-v3"}, nil, "Did you mean all-minilm-l6-v2?"},
		{"too large", []string{"install", url, "--max-size", "0", "--sha256", sum[:10]}, nil, "64 hexadecimal digits"},
		{"install", []string{"install", url, "--sha256", sum}, []string{"installed tiny_model (0.1 MB) as " + filepath.Join(state, "models", "tiny_model.gguf"), sum, "as given"}, ""},
		{"again", []string{"install", url, "--sha256", sum}, []string{"tiny_model is installed already"}, ""},
		{"believed", []string{"install", url, "--trust-on-first-use", "--name", "other"}, []string{"believed because it came first"}, ""},
		{"list", []string{"list"}, []string{"NAME", "tiny_model", "first-use", "32", hub.URL}, ""},
		{"remove the wrong one", []string{"remove", "tiny-model"}, nil, "Did you mean tiny_model?"},
		{"remove", []string{"remove", "tiny_model"}, []string{"removed tiny_model"}, ""},
		{"remove it again", []string{"remove", "tiny_model"}, nil, "is installed"},
		{"no name", []string{"remove"}, nil, "remove needs NAME"},
	}
	for _, s := range steps {
		stdout, stderr, err := modelCommand(t, state, s.args...)
		if (err != nil) != (s.fails != "") || err != nil && !strings.Contains(err.Error(), s.fails) {
			t.Errorf("%s: %v, want %q", s.name, err, s.fails)
		}
		for _, want := range s.stdout {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is missing in\n%s", s.name, want, stdout)
			}
		}
		if s.name == "install" && (!strings.Contains(stderr, "100 % of 0.1 MB") || strings.ContainsAny(stderr, "\r\x1b")) {
			t.Errorf("what is no terminal was told %q", stderr)
		}
	}

	var usage usageError
	if _, _, err := modelCommand(t, state, "remove"); !errors.As(err, &usage) {
		t.Errorf("%T is no usage error", err)
	}
	stdout, _, err := modelCommand(t, state, "list", "--json")
	var list []models.Installed
	if err != nil || json.Unmarshal([]byte(stdout), &list) != nil || len(list) != 1 || list[0].Name != "other" || list[0].SHA256 != sum {
		t.Errorf("%s, %v", stdout, err)
	}
	if stdout, _, err = modelCommand(t, t.TempDir(), "list", "--json"); err != nil || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("%q, %v", stdout, err)
	}
}

func TestDownloadBar(t *testing.T) {
	now := time.Unix(0, 0)
	step := func(b *downloadBar, seconds int, p models.Progress) {
		now = time.Unix(int64(seconds), 0)
		b.step(p)
	}
	draw := func(width int, every time.Duration) string {
		var out bytes.Buffer
		b := &downloadBar{out: &out, width: width, every: every, now: func() time.Time { return now }}
		step(b, 100, models.Progress{Done: 10e6, Total: 40e6})
		step(b, 105, models.Progress{Done: 20e6, Total: 40e6})
		step(b, 106, models.Progress{Note: "the download was interrupted"})
		step(b, 120, models.Progress{Done: 20e6, Total: 40e6})
		step(b, 122, models.Progress{Done: 30e6, Total: 40e6})
		step(b, 123, models.Progress{Done: 40e6, Total: 40e6})
		b.end()
		return out.String()
	}
	bar := draw(70, 0)
	for _, want := range []string{"\r[======", " 25 % of 40.0 MB\x1b[K", " 50 % of 40.0 MB, 2.0 MB/s, 10s left", "\nthe download was interrupted\n", " 75 % of 40.0 MB, 5.0 MB/s, 2s left", "100 % of 40.0 MB, 6.7 MB/s"} {
		if !strings.Contains(bar, want) {
			t.Errorf("%q is missing in %q", want, bar)
		}
	}
	for line := range strings.SplitSeq(bar, "\r") {
		if shown, _, _ := strings.Cut(line, "\x1b"); len(shown) >= 70 {
			t.Errorf("a line of %d columns: %q", len(shown), shown)
		}
	}
	if !strings.HasSuffix(bar, "\n") {
		t.Error("the cursor stays in the bar")
	}
	lines := draw(0, 10*time.Second)
	if strings.ContainsAny(lines, "\r\x1b") || strings.Count(lines, "\n") != 4 {
		t.Errorf("lines: %q", lines)
	}
	if narrow := draw(15, 0); strings.Contains(narrow, "[=") {
		t.Errorf("a bar on 15 columns: %q", narrow)
	}
}

// What the help gives as an example can be installed.
func TestModelExamples(t *testing.T) {
	cmd := newModel(&common{})
	texts := cmd.Example
	for _, sub := range cmd.Commands() {
		texts += "\n" + sub.Example
	}
	found := 0
	for line := range strings.Lines(texts) {
		words := strings.Fields(line)
		if len(words) < 4 || words[2] != "install" && words[2] != "remove" || strings.ContainsAny(words[3], "/:.") {
			continue
		}
		found++
		if !slices.ContainsFunc(models.Catalogue(), func(k models.Known) bool { return k.Name == words[3] }) {
			t.Errorf("%s: no such model", strings.TrimSpace(line))
		}
	}
	if found < 2 {
		t.Errorf("%d examples, want 2 at least:\n%s", found, texts)
	}
}
