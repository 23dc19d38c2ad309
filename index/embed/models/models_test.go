package models

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/metamcp/metamcp/index/embed/models/gguf/gguftest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hub is a server of one file, /model.gguf.
type hub struct {
	url  string
	mu   sync.Mutex
	data []byte
	etag string
	// noRanges: it always sends all; cut: it breaks the connection after so
	// many bytes of each answer; chunked: it does not say how long the file is.
	noRanges, chunked bool
	cut               int
	// before, if set, may answer itself.
	before func(n int, w http.ResponseWriter, r *http.Request) bool
	ranges []string // of the requests, with If-Range
	sent   int
}

func newHub(t *testing.T, data []byte) *hub {
	t.Helper()
	h := &hub{data: data, etag: `"one"`}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL + "/model.gguf"
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	data, etag, noRanges, chunked, cut, before := h.data, h.etag, h.noRanges, h.chunked, h.cut, h.before
	h.ranges = append(h.ranges, strings.TrimSpace(r.Header.Get("Range")+" "+r.Header.Get("If-Range")))
	n := len(h.ranges)
	h.mu.Unlock()
	if before != nil && before(n, w, r) {
		return
	}
	if r.URL.Path != "/model.gguf" {
		http.NotFound(w, r)
		return
	}
	if etag != "" {
		w.Header().Set("ETag", etag)
	}
	out := &cutter{ResponseWriter: w, hub: h, left: cut}
	switch {
	case chunked:
		_ = http.NewResponseController(w).Flush()
		_, _ = out.Write(data)
	case noRanges:
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = out.Write(data)
	default:
		http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(data))
	}
	if out.over {
		panic(http.ErrAbortHandler)
	}
}

func (h *hub) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *hub) requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.ranges...)
}

func (h *hub) bytesSent() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent
}

// cutter breaks an answer off.
type cutter struct {
	http.ResponseWriter
	hub  *hub
	left int // 0: no limit
	over bool
}

func (c *cutter) Write(b []byte) (int, error) {
	if c.left > 0 && len(b) >= c.left {
		b, c.over = b[:c.left], true
	}
	n, err := c.ResponseWriter.Write(b)
	if c.left > 0 {
		c.left -= n
	}
	c.hub.set(func() { c.hub.sent += n })
	if c.over {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		return n, io.ErrShortWrite
	}
	return n, err
}

func model(seed uint64) []byte { return gguftest.BERT{Seed: seed}.Bytes() }

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

func folder(t *testing.T) *Folder {
	t.Helper()
	f := In(filepath.Join(t.TempDir(), "models"))
	f.stall, f.backoff = 5*time.Second, time.Millisecond
	return f
}

func wantError(t *testing.T, err, cause error, says string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || cause != nil && !errors.Is(err, cause) || !strings.Contains(err.Error(), says) {
		t.Fatalf("got %T %v; want %v that says %q", err, err, cause, says)
	}
}

func wantFile(t *testing.T, f *Folder, name string, data []byte) {
	t.Helper()
	got, err := os.ReadFile(f.Path(name))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v; want %d", len(got), err, len(data))
	}
	entries, err := filepath.Glob(filepath.Join(f.dir, ".*.part*"))
	if err != nil || len(entries) > 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

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

// TestResume cuts the connection again and again.
func TestResume(t *testing.T) {
	data := model(1)
	h, f := newHub(t, data), folder(t)
	h.cut = len(data)/4 + 1
	if _, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(data)}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, f, "model", data)
	requests := h.requests()
	if len(requests) < 4 || len(requests) > 6 || requests[0] != "" || !strings.HasPrefix(requests[1], "bytes=") || !strings.HasSuffix(requests[1], `"one"`) {
		t.Errorf("%q", requests)
	}
	if h.bytesSent() > len(data)+len(data)/2 {
		t.Errorf("%d bytes were sent for %d", h.bytesSent(), len(data))
	}
}

// TestInterrupted stops in the middle, as Ctrl-C does, and begins again, as
// another process does.
func TestInterrupted(t *testing.T) {
	data := model(1)
	tests := []struct {
		name    string
		change  func(h *hub)
		resumed bool
		want    []byte
	}{
		{"the same file", func(*hub) {}, true, data},
		{"another file by then", func(h *hub) { h.etag, h.data = `"two"`, model(2) }, false, model(2)},
		{"no ranges", func(h *hub) { h.noRanges = true }, false, data},
		{"a range of its own", func(h *hub) {
			h.before = func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n != 2 {
					return false
				}
				w.Header().Set("Content-Range", "bytes 0-9/10")
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(make([]byte, 10))
				return true
			}
		}, false, data},
		{"shorter by then", func(h *hub) {
			h.before = func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n != 2 {
					return false
				}
				w.Header().Set("Content-Range", "bytes */10")
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return true
			}
		}, false, data},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, f := newHub(t, data), folder(t)
			h.before = func(_ int, w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("ETag", `"one"`)
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
				_, _ = w.Write(data[:len(data)/2])
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
				return true
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, _, err := f.Install(ctx, Request{Source: h.url, SHA256: sum(tt.want), Progress: func(p Progress) {
				if p.Done > 0 {
					cancel()
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v", err)
			}
			if _, err := os.Stat(f.Path("model")); err == nil {
				t.Fatal("half a file has the name of a whole one")
			}
			h.set(func() { h.before = nil; tt.change(h) })
			again := In(f.dir)
			again.backoff = time.Millisecond
			if _, _, err := again.Install(t.Context(), Request{Source: h.url, SHA256: sum(tt.want)}); err != nil {
				t.Fatal(err)
			}
			wantFile(t, f, "model", tt.want)
			// Whatever of the first answer had reached us is not sent again.
			if resumed := h.bytesSent() < len(data); resumed != tt.resumed {
				t.Errorf("%d of %d bytes were sent: %q", h.bytesSent(), len(data), h.requests())
			}
		})
	}
}

// TestCompletePart begins where only the renaming was missing.
func TestCompletePart(t *testing.T) {
	data := model(1)
	h, f := newHub(t, data), folder(t)
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(f.part("model"), data)
	write(f.part("model")+".json", []byte(`{"url":"`+h.url+`","etag":"\"one\""}`))
	if _, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(data)}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, f, "model", data)
	if h.bytesSent() > 1000 {
		t.Errorf("%d bytes were sent", h.bytesSent())
	}
}

func TestBadServers(t *testing.T) {
	data := model(1)
	tests := []struct {
		name   string
		change func(h *hub)
		want   string // "": it works in the end
		most   int    // requests
	}{
		{"always cut at one place, without ranges", func(h *hub) { h.noRanges, h.cut = true, len(data)/2 }, "failed 5 times in a row", 6},
		{"always cut, without a validator", func(h *hub) { h.etag, h.cut = "", len(data)/2 }, "failed 5 times in a row", 6},
		{"a weak validator", func(h *hub) { h.etag, h.cut = `W/"one"`, len(data)/2 }, "failed 5 times in a row", 6},
		{"no length", func(h *hub) { h.chunked = true }, "", 1},
		{"too large", func(h *hub) { h.data = make([]byte, 3<<20) }, "2 MB are allowed", 1},
		{"too large without saying so", func(h *hub) { h.data, h.chunked = make([]byte, 3<<20), true }, "2 MB are allowed", 1},
		{"not there", func(h *hub) { h.url = strings.Replace(h.url, "model", "other", 1) }, "no such file (404", 1},
		{"forbidden", status(403, 9), "does not give the file", 1},
		{"teapot", status(418, 9), "418", 1},
		{"busy twice", status(503, 2), "", 3},
		{"too many requests, twice", status(429, 2), "", 3},
		{"broken for good", status(500, 99), "failed 5 times in a row", 5},
		{"a page", func(h *hub) { h.data = []byte("<html>Sign in</html>") }, "no model in the GGUF format: it begins with", 1},
		{"a pointer", func(h *hub) { h.data = []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\n") }, "pointer of Git LFS", 1},
		{"nothing", func(h *hub) { h.data = nil }, "no model in the GGUF format", 1},
		{"to http elsewhere", redirect("http://models.example/model.gguf"), "not https", 1},
		{"in circles", redirect("/model.gguf"), "again and again", 11},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, f := newHub(t, data), folder(t)
			tt.change(h)
			name := strings.TrimSuffix(filepath.Base(h.url), ".gguf")
			_, _, err := f.Install(t.Context(), Request{Source: h.url, TrustFirstUse: true, MaxBytes: 2 << 20})
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				wantFile(t, f, name, data)
			} else {
				wantError(t, err, nil, tt.want)
				if _, err := os.Stat(f.Path(name)); err == nil {
					t.Error("it was installed")
				}
				if list, err := f.List(); err != nil || len(list) != 0 {
					t.Errorf("%v, %v", list, err)
				}
			}
			if n := len(h.requests()); n > tt.most {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func status(code, times int) func(*hub) {
	return func(h *hub) {
		h.before = func(n int, w http.ResponseWriter, _ *http.Request) bool {
			if n > times {
				return false
			}
			w.WriteHeader(code)
			return true
		}
	}
}

func redirect(to string) func(*hub) {
	return func(h *hub) {
		h.before = func(_ int, w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, to, http.StatusFound)
			return true
		}
	}
}

// TestRedirect is what hubs do: the file is on another host.
func TestRedirect(t *testing.T) {
	data := model(1)
	cdn, h, f := newHub(t, data), newHub(t, nil), folder(t)
	cdn.cut = len(data)/2 + 1
	redirect(cdn.url)(h)
	if _, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(data)}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, f, "model", data)
	if r := cdn.requests(); len(r) != 2 || !strings.HasPrefix(r[1], "bytes=") {
		t.Errorf("%q", r)
	}
}

// TestStall has a server that stops without closing.
func TestStall(t *testing.T) {
	data := model(1)
	h, f := newHub(t, data), folder(t)
	f.stall = 100 * time.Millisecond
	h.before = func(n int, w http.ResponseWriter, r *http.Request) bool {
		if n > 1 {
			return false
		}
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data[:5000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return true
	}
	var notes []string
	_, _, err := f.Install(t.Context(), Request{Source: h.url, SHA256: sum(data), Progress: func(p Progress) {
		if p.Note != "" {
			notes = append(notes, p.Note)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, f, "model", data)
	if all := strings.Join(notes, "; "); !strings.Contains(all, "nothing came for 100ms") || !strings.Contains(all, "going on at") {
		t.Errorf("notes: %s", all)
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

// TestNoRoom announces more than any disk has.
func TestNoRoom(t *testing.T) {
	h, f := newHub(t, nil), folder(t)
	h.before = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "4611686018427387904")
		_, _ = io.WriteString(w, "GGUF")
		return true
	}
	_, _, err := f.Install(t.Context(), Request{Source: h.url, TrustFirstUse: true, MaxBytes: 1 << 62})
	wantError(t, err, nil, "the disk has")
	if n := len(h.requests()); n != 1 {
		t.Errorf("%d requests", n)
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
