package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/index/embed/internal/embedtest"
	"github.com/metamcp/metamcp/index/embed/local"
	"github.com/metamcp/metamcp/index/embed/local/wire"
	"github.com/metamcp/metamcp/index/embed/models/gguf/gguftest"
)

// These tests run the real worker on a real llama.cpp: a prebuilt one from npm
// under a small library of ours with the functions that kelindar/search calls.

// llama is made once for all tests: the worker and the folder of the library.
var llama = sync.OnceValues(func() (made struct{ worker, dir string }, err error) {
	source, err := filepath.Abs(filepath.Join("testdata", "llama"))
	if err != nil {
		return made, err
	}
	if err := npmCI(source); err != nil {
		return made, err
	}
	made.dir = filepath.Join(scratch, "lib")
	if err := os.Mkdir(made.dir, 0o700); err != nil {
		return made, err
	}
	bins := filepath.Join(source, "node_modules", "@node-llama-cpp", "linux-x64", "bins", "linux-x64")
	if _, err := exec.LookPath("cc"); err != nil {
		return made, fmt.Errorf("these tests compile a small library and need a C compiler, cc, in PATH: %w", err)
	}
	if err := run("", "cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-DLLAMA_DIR="+strconv.Quote(bins),
		"-o", filepath.Join(made.dir, "libllama_go.so"), filepath.Join(source, "llama_go.c"),
		"-L"+bins, "-lllama", "-lggml", "-lggml-base", "-lm", "-Wl,-rpath,"+bins); err != nil {
		return made, err
	}
	made.worker = filepath.Join(scratch, "metamcp-embed")
	return made, run("CGO_ENABLED=0", "go", "build", "-o", made.worker, "github.com/metamcp/metamcp/cmd/metamcp-embed")
})

func run(env string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// npmCI installs what the lock file pins, unless it is there. Whoever comes
// second waits.
func npmCI(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, ".install.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	want, err := os.ReadFile(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		return err
	}
	stamp := filepath.Join(dir, "node_modules", ".installed")
	if got, err := os.ReadFile(stamp); err == nil && bytes.Equal(got, want) {
		return nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("these tests get llama.cpp from npm and need Node.js with npm in PATH: %w", err)
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci in %s: %w\n%s", dir, err, out)
	}
	return os.WriteFile(stamp, want, 0o600)
}

// withLlama returns a configuration of the real worker with a model.
func withLlama(t *testing.T, model gguftest.BERT) local.Config {
	t.Helper()
	made, err := llama()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(path, model.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return local.Config{
		Worker: made.worker, Model: path, LibraryDirs: []string{made.dir},
		Log: testLog(t), Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond,
	}
}

func TestLlamaEmbeds(t *testing.T) {
	e := open(t, withLlama(t, gguftest.BERT{Words: []string{"take", "picture", "screenshot"}}))
	texts := []string{"take a picture", "", "take a screenshot", "  \n", "世界 你好", "take a picture", strings.Repeat("tool ", 400), "a\x00b\xff", "[SEP] [CLS]"}
	for len(texts) < 70 { // more than one request
		texts = append(texts, fmt.Sprint("text number ", len(texts)))
	}
	vectors, err := e.Embed(t.Context(), embed.Document, texts)
	if err != nil {
		t.Fatal(err)
	}
	if len(vectors) != len(texts) {
		t.Fatalf("%d vectors for %d texts", len(vectors), len(texts))
	}
	for i, v := range vectors {
		if blank := strings.TrimSpace(texts[i]) == ""; blank != (v == nil) {
			t.Errorf("text %q: vector %v", texts[i], v)
		}
		if v == nil {
			continue
		}
		if length := dot(v, v); len(v) != 32 || math.Abs(length-1) > 1e-5 {
			t.Errorf("text %q: %d numbers, length² %v", texts[i], len(v), length)
		}
	}
	if !slices.Equal(vectors[0], vectors[5]) {
		t.Error("one text, two vectors")
	}
	if dot(vectors[0], vectors[2]) > 0.999 {
		t.Error("two texts, one vector")
	}
	for _, i := range []int{2, 40, 69} { // alone as in company, query or not
		alone, err := e.Embed(t.Context(), embed.Query, texts[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		if dot(alone[0], vectors[i]) < 0.9999 {
			t.Errorf("text %q has another vector alone", texts[i])
		}
	}
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// TestLlamaCrash lets llama.cpp abort, as its assertions do.
func TestLlamaCrash(t *testing.T) {
	e := open(t, withLlama(t, gguftest.BERT{}))
	_, err := e.Embed(t.Context(), embed.Document, []string{"fine", "please crash now"})
	failure := embedtest.WantError(t, err, embed.Unavailable)
	if !strings.Contains(failure.Message, "GGML_ASSERT") {
		t.Errorf("the error does not tell what llama.cpp said: %v", failure)
	}
	eventually(t, "it works again", func() bool {
		v, err := e.Embed(t.Context(), embed.Document, []string{"fine"})
		return err == nil && v[0] != nil
	})
}

// TestLlamaHang has native code that never returns.
func TestLlamaHang(t *testing.T) {
	cfg := withLlama(t, gguftest.BERT{})
	cfg.Patience = 300 * time.Millisecond
	e := open(t, cfg)
	_, err := e.Embed(t.Context(), embed.Document, []string{"please hang now"})
	if failure := embedtest.WantError(t, err, embed.Unavailable); !strings.Contains(failure.Message, "silent") {
		t.Errorf("%v", failure)
	}
	eventually(t, "it works again", func() bool {
		_, err := e.Embed(t.Context(), embed.Document, []string{"fine"})
		return err == nil
	})
}

// TestLlamaGoesWithItsHost closes the input of a worker whose native code hangs.
func TestLlamaGoesWithItsHost(t *testing.T) {
	cfg := withLlama(t, gguftest.BERT{})
	w := startWorker(t, cfg)
	w.ask(t, wire.Request{Type: wire.Load, Model: cfg.Model})
	w.expect(t, wire.Loaded)
	w.ask(t, wire.Request{Type: wire.Embed, ID: 1, Texts: []string{"fine", "please hang now"}})
	w.expect(t, wire.Vector) // the next one is being embedded
	_ = w.in.Close()
	select {
	case <-w.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the worker outlives its input")
	}
}

// TestLlamaUnusable has the loader of kelindar/search find other things than
// its library.
func TestLlamaUnusable(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.c")
	if err := os.WriteFile(other, []byte("int nothing_of_use;"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, says string
		make       func(path string) error
	}{
		{"no library", "too short", func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		{"a pointer of Git LFS", "invalid ELF header", func(path string) error {
			return os.WriteFile(path, []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef\nsize 1234567\n"), 0o600)
		}},
		{"another library", "load_library", func(path string) error { return run("", "cc", "-shared", "-fPIC", "-o", path, other) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := withLlama(t, gguftest.BERT{})
			dir := t.TempDir()
			if err := tt.make(filepath.Join(dir, "libllama_go.so")); err != nil {
				t.Fatal(err)
			}
			cfg.LibraryDirs = []string{dir}
			_, err := open(t, cfg).Embed(t.Context(), embed.Query, []string{"x"})
			failure := embedtest.WantError(t, err, embed.Misconfigured)
			if !strings.Contains(failure.Message, "cannot load libllama_go.so") || !strings.Contains(failure.Message, tt.says) ||
				!strings.Contains(failure.Hint, dir) || !strings.Contains(failure.Hint, "kelindar/search") {
				t.Errorf("%v", failure)
			}
		})
	}
}

func TestLlamaBadModels(t *testing.T) {
	tests := []struct {
		name, content string
		want          embed.Reason
		says          string
	}{
		{"no GGUF", "<html>", embed.Misconfigured, `does not begin with "GGUF"`},
		{"cut off", string(gguftest.BERT{}.Bytes()[:4000]), embed.Misconfigured, "cannot be loaded"},
		{"weights missing", string(gguftest.BERT{}.Bytes()[:20000]), embed.Misconfigured, "failed to load model"},
		{"another architecture", string(gguftest.BERT{Architecture: "unheard-of"}.Bytes()), embed.Misconfigured, "unknown model architecture"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := withLlama(t, gguftest.BERT{})
			if err := os.WriteFile(cfg.Model, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := open(t, cfg).Embed(t.Context(), embed.Query, []string{"x"})
			if failure := embedtest.WantError(t, err, tt.want); !strings.Contains(failure.Message, tt.says) {
				t.Errorf("%v", failure)
			}
		})
	}
}

// TestLlamaCutsTexts holds our count of tokens against llama.cpp's, which aborts
// where a text has more than the model can see.
func TestLlamaCutsTexts(t *testing.T) {
	const most = 24
	cfg := withLlama(t, gguftest.BERT{Context: most, Words: []string{"the", "quick", "brown", "fox", "jumps", "over", "tool"}})
	cfg.Environ = append(os.Environ(), "LLAMA_GO_TOKENS=1")
	w := startWorker(t, cfg)
	w.ask(t, wire.Request{Type: wire.Load, Model: cfg.Model})
	w.expect(t, wire.Loaded)

	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"the", "quick ", "fox", " ", "\n", "tool", "_", "-", ".", "X", "é", "世", "界", "々", "ﷺ", "\u00a0", "\u200b", "😀", "한국", "[SEP]", "\x01", "\u0301", "ß", "İ", "①", "—"}
	plain := strings.Repeat("the quick brown fox jumps over the tool ", 20)
	texts := []string{plain, strings.Repeat("x", 500), strings.Repeat("世界", 100), strings.Repeat("é", 100), strings.Repeat("a.", 100)}
	for range 400 {
		var b strings.Builder
		for range 1 + random.IntN(80) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		texts = append(texts, b.String())
	}
	w.ask(t, wire.Request{Type: wire.Embed, ID: 1, Texts: texts})
	for range texts {
		if a := w.expect(t, wire.Vector); len(a.Values) == 0 && strings.TrimSpace(texts[a.Index]) != "" && strings.ContainsAny(texts[a.Index], "abcdefghijklmnopqrstuvwxyz") {
			t.Errorf("nothing seen in %q", texts[a.Index])
		}
	}
	w.expect(t, wire.Done)
	_ = w.in.Close()
	<-w.ended
	counts := regexp.MustCompile(`tokens: (-?\d+)`).FindAllStringSubmatch(w.stderr.String(), -1)
	if len(counts) < len(texts)/2 {
		t.Fatalf("only %d counts", len(counts))
	}
	for i, c := range counts {
		n, _ := strconv.Atoi(c[1])
		if n > most {
			t.Errorf("text %q has %d tokens", texts[i], n)
		}
		if i == 0 && n != most {
			t.Errorf("of %d tokens only %d are used", most, n)
		}
	}
}

// rawWorker is a worker without a supervisor.
type rawWorker struct {
	in      interface{ Close() error }
	stderr  bytes.Buffer // once ended is closed
	ended   chan struct{}
	write   func(wire.Request) error
	answers chan wire.Answer
}

func startWorker(t *testing.T, cfg local.Config) *rawWorker {
	t.Helper()
	cmd := exec.Command(cfg.Worker)
	cmd.Env = append(cfg.Environ, "LD_LIBRARY_PATH="+cfg.LibraryDirs[0])
	w := &rawWorker{ended: make(chan struct{}), answers: make(chan wire.Answer)}
	cmd.Stderr = &w.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.in, w.write = in, func(r wire.Request) error { return wire.Write(in, r) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(w.ended)
		for {
			var a wire.Answer
			if wire.Read(out, &a) != nil {
				break
			}
			select {
			case w.answers <- a:
			case <-ctx.Done():
			}
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		<-w.ended
	})
	w.expect(t, wire.Hello)
	return w
}

func (w *rawWorker) ask(t *testing.T, r wire.Request) {
	t.Helper()
	if err := w.write(r); err != nil {
		t.Fatal(err)
	}
}

func (w *rawWorker) expect(t *testing.T, want wire.AnswerType) wire.Answer {
	t.Helper()
	select {
	case a := <-w.answers:
		if a.Type != want {
			t.Fatalf("got %+v, want %s", a, want)
		}
		return a
	case <-w.ended:
		t.Fatalf("the worker ended instead of %s: %s", want, w.stderr.String())
	case <-time.After(20 * time.Second):
		t.Fatalf("no %s", want)
	}
	return wire.Answer{}
}
