package models

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

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
