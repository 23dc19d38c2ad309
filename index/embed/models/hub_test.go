package models

import (
	"bytes"
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

	"github.com/metamcp/metamcp/index/embed/models/gguf/gguftest"
)

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
	// Before they are: who has got them may ask how many there were.
	c.hub.set(func() { c.hub.sent += len(b) })
	n, err := c.ResponseWriter.Write(b)
	if c.left > 0 {
		c.left -= n
	}
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
