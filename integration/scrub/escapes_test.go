package scrub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// TestSecretsInEscapedTexts writes known secrets as the serializers of several
// languages do, in a text that a tool returns.
func TestSecretsInEscapedTexts(t *testing.T) {
	t.Parallel()
	const key, password = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYzzKQ9h3kLm==", "Passwörd-Überlang-42!"
	s := New([]*messages.ServerSpec{{Env: []string{"API_KEY=" + key, "DB_PASSWORD=" + password}}})
	unicode := func(text string, which func(r rune) bool) string {
		var out strings.Builder
		for _, r := range text {
			if which(r) {
				fmt.Fprintf(&out, `\u%04x`, r)
			} else {
				out.WriteRune(r)
			}
		}
		return out.String()
	}
	quote := func(text string) string {
		raw, _ := json.Marshal(text)
		return string(raw[1 : len(raw)-1])
	}
	every := func(rune) bool { return true }
	for name, written := range map[string]string{
		"PHP":            strings.ReplaceAll(key, "/", `\/`),
		".NET":           strings.ReplaceAll(key, "+", `\u002B`),
		"Gson":           strings.ReplaceAll(key, "=", `\u003d`),
		"Python":         unicode(password, func(r rune) bool { return r > 0x7e }),
		"all":            unicode(key, every),
		"nested":         quote(unicode(password, every)),
		"nested thrice":  quote(quote(unicode(key, every))),
		"after a folder": `C:\users\x ` + strings.ReplaceAll(key, "/", `\/`),
	} {
		text := `{"found": {"v": "` + written + `", "w": "C:\\dir"}, "n": 1}`
		got := s.Text(text)
		want := strings.Replace(text, written, marker("API_KEY"), 1)
		if strings.Contains(name, "Python") || name == "nested" {
			want = strings.Replace(text, written, marker("DB_PASSWORD"), 1)
		}
		if strings.HasPrefix(name, "after") {
			want = strings.Replace(text, strings.ReplaceAll(key, "/", `\/`), marker("API_KEY"), 1)
		}
		if got != want {
			t.Errorf("%s: %s\nbecame %s", name, text, got)
		}
		result, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
		out, counts := s.Result(result)
		var back struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(out, &back); err != nil || back.Content[0].Text != want || len(counts) != 1 {
			t.Errorf("%s as a result: %s, %v, %v", name, out, counts, err)
		}
	}
	for _, harmless := range []string{`C:\users\new`, `\u12`, `\u00e4\/x`, `\`, `a\`, `\ud83d`, `^\/api\/(v1|v2)\/`} {
		if got := s.Text(harmless); got != harmless {
			t.Errorf("%q became %q", harmless, got)
		}
	}
}

// TestSecretsThatNeedEscapes: a quote, a backslash or the end of a line in a secret is
// escaped by everybody, once more in each string that the text stands in.
func TestSecretsThatNeedEscapes(t *testing.T) {
	t.Parallel()
	quote := func(text string) string {
		raw, _ := json.Marshal(text)
		return string(raw)
	}
	for _, secret := range []string{`zQ7+Rk/"9vTx2LpWd`, `zQ7+Rk\9vTx2LpWd88`, `"zQ7\"Rk&9vTx<2LpWd\`, "zQ7\tRk\x019vTx2LpWd", `{"zQ7":"Rkü9vTx2LpWd\n"}`} {
		s := New([]*messages.ServerSpec{{Env: []string{"API_KEY=" + secret}}})
		php := strings.ReplaceAll(quote(secret), "/", `\/`)
		for level, text := 0, secret; level <= deepest; level, text = level+1, quote("a "+text+" b") {
			got := s.Text(text)
			if strings.Contains(got, "zQ7") || strings.Contains(got, "LpWd") || !strings.Contains(got, marker("API_KEY")) {
				t.Errorf("%q, in %d strings: %s became %s", secret, level, text, got)
			}
			result, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
			out, counts := s.Result(result)
			if !json.Valid(out) || bytes.Contains(out, []byte("LpWd")) || counts["API_KEY"] != 1 {
				t.Errorf("%q, in %d strings, as a result: %s, %v", secret, level, out, counts)
			}
			if level < deepest {
				if got := s.Text(php); strings.Contains(got, "LpWd") {
					t.Errorf("%q, as others write it, in %d strings: %s became %s", secret, level+1, php, got)
				}
				php = quote(php)
			}
		}
	}
}

func FuzzEscapes(f *testing.F) {
	f.Add("a", `\u0041\/`, "z")
	f.Add(`\`, `\ud83d\ude00`, `\u`)
	f.Fuzz(func(t *testing.T, before, middle, after string) {
		const secret = "geheim-ist-es-0815"
		s := New([]*messages.ServerSpec{{Env: []string{"API_KEY=" + secret}}})
		text := before + middle + ` \/ ` + secret + " " + after
		if got := s.Text(text); strings.Contains(got, secret) {
			t.Errorf("%q became %q", text, got)
		}
		u := unescape([]byte(text))
		for at := range len(u.text) + 1 {
			if p := u.place(at); p < at || p > len(text) {
				t.Fatalf("place %d of %q is %d in %q", at, u.text, p, text)
			}
		}
	})
}

// TestPasswordsInText: what people, logs and configurations write behind the
// word is taken out; types, questions and programs stay.
func TestPasswordsInText(t *testing.T) {
	t.Parallel()
	s := New(nil)
	for _, text := range []string{
		"DB_PASSWORD=correcthorse12", "password: hunter2secret9", `password="Tr0ub4dor&3!x"`, "Password : Winter-2026!\nnext",
		"PGPASSWORD=s3cretpw psql -h db", `"mysql_password" = 'q1w2e3r4t5z6'`,
	} {
		if got := s.Text(text); !strings.Contains(got, "[REDACTED:") {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{
		"password: string", "password: required, at least 8 characters", "password = getpass.getpass()", "password=os.environ[1]",
		"password: user2Password, name: x", "password = args1", "Password:", "password=$DB_PASSWORD_2", "password: ${PW1}", "password=****1234",
		"password = process.env.PW1", "password: /run/secrets/db1", "password: bool2()", "password=encode64(x)", "enter password: \n", "password: <your password 1>",
		`words := []string{"passwd", "xY12345678-ab", "secret"}`,
	} {
		if got := s.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestKeysOfAddresses: under ?key= in an address stands what Google's APIs take.
func TestKeysOfAddresses(t *testing.T) {
	t.Parallel()
	s := New([]*messages.ServerSpec{{URL: "http://127.0.0.1:8080/mcp?page=overview&key=QKEYvalue12345&mode=fast"}})
	const text = "GET http://127.0.0.1:8080/mcp?page=overview&key=QKEYvalue12345&mode=fast"
	if got, want := s.Text(text), strings.Replace(text, "QKEYvalue12345", marker("key"), 1); got != want {
		t.Errorf("%q became %q, want %q", text, got, want)
	}
}

// TestReferencesAreNoSecrets: ${secret:NAME} in an argument says where a secret
// is; neither the word nor the name is one.
func TestReferencesAreNoSecrets(t *testing.T) {
	t.Parallel()
	s := New([]*messages.ServerSpec{{Args: []string{`"MY_TOKEN": "${secret:MY_TOKEN}"`, "--x=${token:LONG_NAME_2}"}}})
	const text = `"MY_TOKEN": "${secret:MY_TOKEN}" LONG_NAME_2`
	if got := s.Text(text); got != text {
		t.Errorf("%q became %q", text, got)
	}
}
