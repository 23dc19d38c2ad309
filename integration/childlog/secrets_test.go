package childlog_test

import (
	"strings"
	"testing"

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
			Scrub: secrets.Bytes, NewScrub: func() func([]byte) []byte { return scrub.NewStream(func() *scrub.Set { return secrets }).Line },
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
