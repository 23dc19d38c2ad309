package scrub

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // as the hashes of commits are
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ordinary are texts as tools hand them out, at least 5 MB together: sources
// and pages of the Go installation that runs the tests, but for what holds keys
// itself (crypto, and tests, whose examples are keys and passwords), and beside
// them lock files, listings, logs and pages made here, in which what varies is
// random: hashes, ids, names of files, base64, times.
func ordinary(tb testing.TB) map[string][]byte {
	tb.Helper()
	const fromGo = 2 << 20
	texts := map[string][]byte{}
	var source, page bytes.Buffer
	found, err := exec.CommandContext(tb.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		tb.Fatal(err)
	}
	root := strings.TrimSpace(string(found))
	for _, dir := range []string{"src", "doc", "api", "misc"} {
		_ = filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // not every installation has all of them
			}
			rel, _ := filepath.Rel(root, path)
			if d.IsDir() {
				if strings.Contains(rel, "crypto") || d.Name() == "testdata" || d.Name() == "vendor" || strings.Contains(rel, "sumdb") {
					return filepath.SkipDir
				}
				return nil
			}
			to := &source
			switch filepath.Ext(path) {
			case ".go":
				if strings.HasSuffix(path, "_test.go") {
					return nil
				}
			case ".html", ".md", ".txt", ".s", ".js", ".css", ".mod", ".sum", ".json":
				to = &page
			default:
				return nil
			}
			if text, err := os.ReadFile(path); err == nil && to.Len() < fromGo { //nolint:gosec // nobody changes it meanwhile
				_, _ = to.Write(text)
			}
			return nil
		})
	}
	texts["Go sources"], texts["Go pages"] = source.Bytes(), page.Bytes()
	rnd := rand.New(rand.NewPCG(3, 4))
	bits := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	commit := func() string { s := sha1.Sum(bits(8)); return hex.EncodeToString(s[:]) } //nolint:gosec // see above
	digest := func() []byte { s := sha256.Sum256(bits(8)); return s[:] }
	uuid := func() string {
		h := hex.EncodeToString(bits(16))
		return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:32]
	}
	at := time.Unix(1_800_000_000, 0).UTC()
	var lock, log, listing, markup, git, page64 bytes.Buffer
	for i := range 900 {
		at = at.Add(time.Duration(rnd.IntN(5000)) * time.Millisecond)
		stamp := at.Format(time.RFC3339Nano)
		fmt.Fprintf(&lock, "    \"node_modules/key-tree-%d\": {\n      \"version\": \"%d.%d.%d\",\n      \"resolved\": \"https://registry.example.org/key-tree-%d/-/key-tree-%d.tgz\",\n      \"integrity\": \"sha512-%s\",\n      \"license\": \"MIT\"\n    },\n",
			i, rnd.IntN(9), rnd.IntN(30), i, i, i, base64.StdEncoding.EncodeToString(bits(64)))
		fmt.Fprintf(&lock, "golang.org/x/auth v0.%d.0 h1:%s\n", i, base64.StdEncoding.EncodeToString(digest()))
		fmt.Fprintf(&lock, "[[package]]\nname = \"secret-service-%d\"\nchecksum = \"%x\"\n", i, digest())
		fmt.Fprintf(&log, "%s INFO  [auth] request %s accepted for user-%d in %d ms; cache key %s:v2, next token at 0x%x\n", stamp, uuid(), i, rnd.IntN(900), commit()[:12], rnd.Uint32())
		fmt.Fprintf(&log, "%s WARN  api.gateway: GET /v1/keys/%s?page=%d status=404 trace_id=%x span=%x\n", stamp, uuid(), i, bits(16), bits(8))
		fmt.Fprintf(&log, "level=info ts=%s caller=token.go:%d msg=\"access granted\" key_id=%d container=sha256:%x\n", stamp, i, i, digest())
		fmt.Fprintf(&git, "commit %s\nAuthor: Someone <someone@example.org>\nDate:   %s\n\n    Rotate the access token of the api (#%d)\n\n    Key: %s\n    Change-Id: I%s\n    Access: heroku app %s\n", commit(), stamp, i, commit(), commit(), uuid())
		item := map[string]any{
			"id": uuid(), "sha": commit(), "node_id": base64.StdEncoding.EncodeToString([]byte(fmt.Sprint("010:Repository", i))), "key": fmt.Sprintf("photos/2026/%x/IMG_%04d.jpeg", bits(8), i),
			"etag": "\"" + hex.EncodeToString(bits(16)) + "\"", "nextPageToken": base64.URLEncoding.EncodeToString(bits(24)), "public_key": base64.StdEncoding.EncodeToString(bits(32)),
			"keyId": rnd.Uint64(), "updated_at": stamp, "token_count": rnd.IntN(9000), "author": map[string]any{"login": fmt.Sprint("user", i), "avatar": fmt.Sprintf("https://avatars.example.org/u/%d?v=4", i)},
			"cache_key": commit(), "discord_channel_id": fmt.Sprint(rnd.Uint64N(1e18) + 1e17), "primary_key": "user_id_" + fmt.Sprint(i), "password": "", "secret": nil, "apiKey": "${API_KEY}", "token": "<token>",
		}
		raw, _ := json.MarshalIndent(item, "", "  ")
		_, _ = listing.Write(append(raw, '\n'))
		fmt.Fprintf(&markup, "<div id=\"key-%d\" data-token-count=\"%d\" class=\"sk-circle-%d\"><a href=\"/auth/login?next=/items/%s\">Sign in</a><input type=\"password\" name=\"password\" placeholder=\"Password\"/><script src=\"/assets/app.%s.js\" integrity=\"sha384-%s\" nonce=\"%d\"></script></div>\n",
			i, i, i, uuid(), commit()[:8], base64.StdEncoding.EncodeToString(bits(48)), i)
		fmt.Fprintf(&page64, "iVBORw0KGgo%s\n", base64.StdEncoding.EncodeToString(bits(57)))
	}
	for name, b := range map[string]*bytes.Buffer{"lock files": &lock, "logs": &log, "JSON": &listing, "HTML": &markup, "commits": &git, "base64": &page64} {
		texts[name] = b.Bytes()
	}
	return texts
}

func TestOrdinaryTextsStay(t *testing.T) {
	const least = 5 << 20
	s := New(nil)
	total := 0
	for name, text := range ordinary(t) {
		total += len(text)
		result, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, counts := s.Result(result); &got[0] != &result[0] || counts != nil {
			t.Errorf("%s: %v", name, counts)
			for _, sp := range s.find(text) {
				t.Logf("%s %s: %q in %q", name, sp.marker, text[sp.start:sp.end], text[max(0, sp.start-80):sp.start])
			}
		}
	}
	if total < least {
		t.Errorf("this Go installation has only %d bytes of sources and pages", total)
	}
}

func BenchmarkResult(b *testing.B) {
	s := New(nil)
	texts := ordinary(b)
	for _, kind := range []string{"Go sources", "JSON", "logs", "HTML"} {
		for _, size := range []int{100, 10_000, 1_000_000} {
			text := texts[kind][1000:]
			text = text[:min(size, len(text))]
			raw, err := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}})
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(kind, " ", "-"), size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(raw)))
				for b.Loop() {
					s.Result(raw)
				}
			})
		}
	}
	raw := bytes.TrimSuffix(bytes.ReplaceAll(texts["JSON"], []byte("}\n{"), []byte("},{")), []byte("\n"))
	structured := append(append([]byte(`{"structuredContent":{"items":[`), raw...), "]}}"...)
	b.Run("structured", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(structured)))
		for b.Loop() {
			s.Result(structured)
		}
	})
}

func BenchmarkPrepare(b *testing.B) {
	for b.Loop() {
		readRules()
	}
}
