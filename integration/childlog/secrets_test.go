package childlog_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/integration/scrub"
)

// TestSecretsInPieces: wherever the bytes of a child are cut, a secret in them
// is found, and a key of several lines too.
func TestSecretsInPieces(t *testing.T) {
	token := "gh" + "p_" + strings.Repeat("aB3dE5gH7jK9", 3)
	body := strings.Repeat(strings.Repeat("MIIEpAIBAAKCAQEA", 4)+"\n", 6) + "QUJD==\n"
	key := "-----BEGIN RSA PRIVATE" + " KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + body + "-----END RSA PRIVATE" + " KEY-----\n"
	text := "starting\nusing " + token + " for all\n" + key + "ready\nIN_LOG: -----BEGIN PRIVATE" + " KEY-----\n12:00 INFO MIIEpAIBAAKCAQEA\nno key any more\n" + token + "\n"
	secrets := scrub.New(nil)
	for size := 1; size <= len(text); size += 1 + size {
		d := childlog.NewFolder(t.TempDir(), childlog.Options{
			Scrub: secrets.Bytes, NewScrub: func() childlog.Scrubber { return scrub.NewStream(func() *scrub.Set { return secrets }) },
		})
		l := d.Open("s", "")
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			write(t, l, []byte(rest[:n]))
			rest = rest[n:]
		}
		l.Finish()
		l.Close()
		for _, got := range []string{read(t, d.Path("s")), strings.Join(l.Last(), "\n")} {
			for _, secret := range []string{token, "MIIE", "QUJD"} {
				if strings.Contains(got, secret) {
					t.Fatalf("in pieces of %d bytes, %q is in %s", size, secret, got)
				}
			}
			for _, said := range []string{"using [REDACTED:GitHub-token] for all", "ready", "no key any more"} {
				if !strings.Contains(got, said) {
					t.Fatalf("in pieces of %d bytes, %q is not in %s", size, said, got)
				}
			}
		}
	}
	off := scrub.NewStream(func() *scrub.Set { return nil })
	if got := off.Line([]byte(token)); string(got) != token {
		t.Errorf("without scrubbing: %s", got)
	}
}

// TestKeyInFlood: of a key no line is shown where the log leaves out that in which it
// begins, since more comes at once than is kept.
func TestKeyInFlood(t *testing.T) {
	line := strings.Repeat("MIIEpAIBAAKCAQEA", 4) + "\n"
	begin, end := "-----BEGIN RSA PRIVATE"+" KEY-----\n", "-----END RSA PRIVATE"+" KEY-----\n"
	key := begin + strings.Repeat(line, 26) + end
	much := strings.Repeat("an ordinary line\n", 100)
	secrets := scrub.New(nil)
	for name, chunks := range map[string][]string{
		"at the end of a chunk":        {much + key},
		"with words after it":          {much + key + "ready\n"},
		"after another one":            {much + key + much + key},
		"after one without an end":     {begin + line + much + key},
		"after a certificate":          {strings.ReplaceAll(key, "RSA PRIVATE"+" KEY", "CERTIFICATE") + key},
		"with carriage returns":        {strings.ReplaceAll(much+key, "\n", "\r\n")},
		"cut in its first line":        {"much\n" + begin[:9], begin[9:] + key[len(begin):]},
		"cut before the first line":    {much, key},
		"cut behind the first line":    {much + begin, key[len(begin):]},
		"cut at an end of a line":      {much + begin[:len(begin)-1], "\n" + key[len(begin):]},
		"cut in a later line":          {much + key[:500], key[500:]},
		"behind a line that is cut":    {strings.Repeat("x", 20<<10), "x\n" + key},
		"in three parts, all too long": {much + begin, strings.Repeat(line, 50), strings.Repeat(line, 40) + end},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(dir string, now func() time.Time, before func()) {
				t.Helper()
				d := childlog.NewFolder(dir, childlog.Options{
					Scrub: secrets.Bytes, NewScrub: func() childlog.Scrubber { return scrub.NewStream(func() *scrub.Set { return secrets }) }, Now: now,
				})
				l := d.Open("s", "")
				defer l.Close()
				write(t, l, []byte("starting\n"))
				for _, c := range chunks {
					write(t, l, []byte(c))
				}
				l.Finish()
				if last := strings.Join(l.Last(), "\n"); strings.Contains(last, "MIIE") || !strings.Contains(last, "[REDACTED:private-key]") {
					t.Errorf("the last lines: %s", last)
				}
				before()
				write(t, l, []byte("key gone\nMIIEpAIBAAKCAQEA is no key here\n"))
				if last := l.Last(); !strings.HasPrefix(last[len(last)-1], "MIIE") {
					t.Errorf("after the key: %q", last)
				}
			}
			check("", nil, func() {})

			base, c := t.TempDir(), newClock()
			dir := filepath.Join(base, "logs")
			if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file in the folder's place
				t.Fatal(err)
			}
			check(dir, c.now, func() {
				if err := os.Remove(dir); err != nil {
					t.Fatal(err)
				}
				c.pass(time.Minute)
			})
		})
	}
}

// TestKeyInFullFile: where a key is cut by the bound of a second, its rest does not
// get into the file with the next one.
func TestKeyInFullFile(t *testing.T) {
	c, secrets := newClock(), scrub.New(nil)
	d := childlog.NewFolder(t.TempDir(), childlog.Options{
		NewScrub: func() childlog.Scrubber { return scrub.NewStream(func() *scrub.Set { return secrets }) }, Now: c.now,
	})
	l := d.Open("s", "")
	line := strings.Repeat("MIIEpAIBAAKCAQEA", 4) + "\n"
	write(t, l, []byte("starting\n"))
	write(t, l, []byte(strings.Repeat("an ordinary line\n", 70_000)+"-----BEGIN PRIVATE"+" KEY-----\n"+strings.Repeat(line, 30)))
	c.pass(time.Second)
	write(t, l, []byte(strings.Repeat(line, 5)+"-----END PRIVATE"+" KEY-----\nready\n"))
	l.Close()
	text := read(t, d.Path("s"))
	if strings.Contains(text, "MIIE") || !strings.Contains(text, "ready") || !strings.Contains(text, " left out here") {
		t.Errorf("the file: %s", text)
	}
}
