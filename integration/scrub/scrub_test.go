package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/metamcp/metamcp/messages"
)

// The tokens here are made up, and in two parts so that scanners of
// repositories do not report them.
const (
	openaiKey = "sk-" + "proj-Zz12345678abcdefghijAB"
	githubPAT = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
	pem       = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nqrstuvwxyz\n-----END RSA PRIVATE KEY-----"
	jwtToken  = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlaGVyZQ"
)

func TestKnownSecretsGo(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("someone:hunter-22"))
	s := New([]*messages.ServerSpec{
		{
			Env: []string{
				"PATH=/usr/local/bin", "API_KEY=sk-123456789", "HOME=/home/someone", "GITHUB_TOKEN=sk-123456789-long", "DEBUG_TOKEN=1",
				"TOK=sk-" + "verysecret-123456", "FOO=" + githubPAT, "OPENAI=" + openaiKey, "DATABASE_URL=postgres://u:p4ssw0rd99@h/db",
				"HTTPS_PROXY=http://me:pr%40xypass@proxy:3128", "TLS_KEY_FILE=/etc/tls/key.pem", "RANDOM=aB3dE5gH7jK9mN1pQ3sT5",
				"SETTINGS={\"db\":{\"password\":\"inner-pw-1\"}}", "CERT_KEY=first line of it\nsecond\\line of \"it\"\n",
				"WEB_AUTH=a/b+c&d e\"f", "AUTH_TYPE=github-oauth", "GIT_ASKPASS=git-askpass.sh", "MY_COMPASS=compass-north", "DESKTOP_SESSION=ubuntu", "PWD=/home/someone/work", "OLDPWD=/home/someone",
				"PAT=pat-of-someone",
			},
			Args: []string{
				"--api-key", "argument-one", "--token=argument-two", "--password", "argument-3", "--header", "Authorization:Bearer argument-four",
				"-e", "MY_SECRET=argument-five", "--root", "/data/files", "--key-path", "/etc/keys", "--verbose", "https://h/mcp?api_key=argument-six&x=1",
			},
			Command: "some-runner",
			Filled:  map[string]string{"RUNNER": "some-runner", "REALSEC": "some filled text", "HOME": "/home/someone", "PORT": "123456789", "DATA": "/data/files", "USER": "someone-else"},
		},
		{URL: "https://h/mcp?token=in-an-address", Headers: map[string]string{"Authorization": "Bearer abcdefghij", "Accept": "application/json"}},
		{Headers: map[string]string{"authorization": "Basic " + basic}},
	})
	tests := []struct{ in, want string }{
		{"key sk-123456789 refused", "key [REDACTED:API_KEY] refused"},
		{"sk-123456789-long", "[REDACTED:GITHUB_TOKEN]"},
		{"got abcdefghij", "got [REDACTED:Authorization]"},
		{"sk-" + "verysecret-123456", "[REDACTED:TOK]"},
		{githubPAT + "!", "[REDACTED:FOO]!"},
		{"pat-of-someone", "[REDACTED:PAT]"},
		{openaiKey, "[REDACTED:OPENAI]"},
		{"some filled text", "[REDACTED:REALSEC]"},
		{"login with p4ssw0rd99 failed at h", "login with [REDACTED:DATABASE_URL] failed at h"},
		{"pr%40xypass pr@xypass", "[REDACTED:HTTPS_PROXY] [REDACTED:HTTPS_PROXY]"},
		{base64.StdEncoding.EncodeToString([]byte("u:p4ssw0rd99")), "[REDACTED:DATABASE_URL]"},
		{"aB3dE5gH7jK9mN1pQ3sT5", "[REDACTED:RANDOM]"},
		{"inner-pw-1", "[REDACTED:password]"},
		{"at: first line of it", "at: [REDACTED:CERT_KEY]"},
		{`second\line of "it"`, "[REDACTED:CERT_KEY]"},
		{`{"e":"second\\line of \"it\""}`, `{"e":"[REDACTED:CERT_KEY]"}`},
		{`a/b+c&d e"f`, "[REDACTED:WEB_AUTH]"},
		{`"a/b+c\u0026d e\"f"`, `"[REDACTED:WEB_AUTH]"`},
		{"?k=a%2Fb%2Bc%26d+e%22f", "?k=[REDACTED:WEB_AUTH]"},
		{"?k=a%2fb%2bc%26d+e%22f", "?k=[REDACTED:WEB_AUTH]"},
		{"?k=a/b+c&d%20e%22f#x", "?k=[REDACTED:WEB_AUTH]#x"},
		{"to=%2Fx%3Fk%3Da%252Fb%252Bc%2526d%2Be%2522f%26y%3D1 ok 100%", "to=%2Fx%3Fk%3D[REDACTED:WEB_AUTH]%26y%3D1 ok 100%"},
		{`"https:\/\/h\/?k=a%2Fb%2Bc\u002526d%20e%22f"`, `"https:\/\/h\/?k=[REDACTED:WEB_AUTH]"`},
		{"first+line+of+it%0D%0Asecond%5Cline%20of%20%22it%22", "[REDACTED:CERT_KEY]%0D%0A[REDACTED:CERT_KEY]"},
		{"%63lient=%73k-123456789", "%63lient=[REDACTED:API_KEY]"},
		{"argument-one argument-two argument-3", "[REDACTED:api-key] [REDACTED:token] [REDACTED:password]"},
		{"argument-four argument-five argument-six", "[REDACTED:Authorization] [REDACTED:MY_SECRET] [REDACTED:api_key]"},
		{"in-an-address", "[REDACTED:token]"},
		{"someone:hunter-22, hunter-22", "[REDACTED:authorization], [REDACTED:authorization]"},
		{strings.TrimRight(basic, "="), "[REDACTED:authorization]"},
	}
	for _, c := range tests {
		if got := s.Text(c.in); got != c.want {
			t.Errorf("Text(%q) = %q, want %q", c.in, got, c.want)
		}
		if got := string(s.Bytes([]byte(c.in))); got != c.want {
			t.Errorf("Bytes(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	for _, plain := range []string{
		"in /usr/local/bin and /home/someone, 1 time", "open /data/files and /etc/keys, /etc/tls/key.pem", "port 123456789", "some-runner on ubuntu in /home/someone/work with github-oauth", "application/json", "postgres://u@h/db",
		"git-askpass.sh, compass-north",
	} {
		if got := s.Text(plain); got != plain {
			t.Errorf("Text(%q) = %q", plain, got)
		}
	}
	err := s.Error(&messages.Error{Message: "x sk-123456789", Hint: "h sk-123456789", Details: []string{"d sk-123456789"}})
	if all := err.Message + err.Hint + strings.Join(err.Details, ""); strings.Contains(all, "sk-1") {
		t.Errorf("an error keeps a secret: %s", all)
	}
}

func TestTokensOfNobodyGo(t *testing.T) {
	s := New(nil)
	for _, c := range []struct{ in, want string }{
		{"key " + openaiKey + ".", "key [REDACTED:API-key]."},
		{`{"k":"` + githubPAT + `"}`, `{"k":"[REDACTED:GitHub-token]"}`},
		{"github_pat_" + "11ABCDEFG0123456789_abcdefghij", "[REDACTED:GitHub-token]"},
		{"xoxb-" + "123456789012-abcdefghij", "[REDACTED:Slack-token]"},
		{"id=AKIA" + "IOSFODNN7EXAMPLE", "id=[REDACTED:AWS-key-id]"},
		{"AIza" + strings.Repeat("aB3-_", 7), "[REDACTED:Google-key]"},
		{"glpat-" + "abcdefghij0123456789", "[REDACTED:GitLab-token]"},
		{"npm_" + strings.Repeat("abc123", 6), "[REDACTED:npm-token]"},
		{"hf_" + strings.Repeat("abCD1", 7), "[REDACTED:HuggingFace-token]"},
		{"Cookie: " + jwtToken, "Cookie: [REDACTED:JWT]"},
		{"x " + pem + " y", "x [REDACTED:private-key] y"},
		{strings.ReplaceAll(pem, "\n", `\n`) + ",", "[REDACTED:private-key],"},
		{"fetch https://me:pw@host/x failed", "fetch https://me:[REDACTED:password]@host/x failed"},
		{"fetch https://0123456789abcdefghij@host/x", "fetch https://[REDACTED:password]@host/x"},
		{"Authorization: Bearer 0123456789abcdefghij", "Authorization: Bearer [REDACTED:Authorization]"},
		{"authorization: basic dXNlcjpwYXNzd29yZA==", "authorization: basic [REDACTED:Authorization]"},
	} {
		if got := s.Text(c.in); got != c.want {
			t.Errorf("Text(%q) = %q, want %q", c.in, got, c.want)
		}
		if got := s.Text(s.Text(c.in)); got != c.want {
			t.Errorf("twice: Text(%q) = %q", c.in, got)
		}
	}
}

func TestWordsStay(t *testing.T) {
	s := New(nil)
	for _, plain := range []string{
		"", "x", "sk", "npm_config_registry=https://registry.example.org", "npm error A complete log of this run", "class sk-top-container-id-12",
		"risk-based-authentication-2024-11-28", "Bearer authentication is required here", "basic authentication", "Basic configuration:", "eyJust.a.word",
		"ghp_short", "AKIAlowercase000000", "https://example.com:8080/a@b", "git://git@github.com/x.git", "ssh://user@host", "-----BEGIN CERTIFICATE-----\nMIIB",
		"://x:y@z", "hf_model", "AKIA" + strings.Repeat("A", 30), "npm_" + strings.Repeat("a", 50), "xoxo-love-and-kisses", "a3f5:user@host:22",
	} {
		if got := s.Text(plain); got != plain {
			t.Errorf("Text(%q) = %q", plain, got)
		}
	}
	var off *Set
	if off.Text(githubPAT) != githubPAT || string(off.Bytes([]byte(githubPAT))) != githubPAT || off.Error(nil) != nil || s.Error(nil) != nil {
		t.Error("a nil Set changes text")
	}
}

// TestOverlaps: parts of a secret that overlaps another one must not stay, and
// no marker may spell one.
func TestOverlaps(t *testing.T) {
	s := New([]*messages.ServerSpec{{Env: []string{"A_KEY=abcdefgh", "B_KEY=efghijkl", "C_KEY=REDACTED", "D_KEY=x[REDACTED"}}})
	for _, in := range []string{"abcdefghijkl", "xabcdefgh"} {
		got := s.Text(in)
		for _, part := range []string{"abcd", "efgh", "ijkl", "REDACTED"} {
			if strings.Contains(got, part) {
				t.Errorf("Text(%q) = %q", in, got)
			}
		}
	}
	b := []byte("call abcdefgh now")
	before := slices.Clone(b)
	s.Bytes(b)
	if !bytes.Equal(b, before) {
		t.Error("Bytes changed its argument")
	}
}

// inURLs are the ways in which libraries write a value in an address or a form.
func inURLs(value string) map[string]string {
	escaped := func(stays, digits string, plus bool) string {
		var out strings.Builder
		for i := range len(value) {
			switch c := value[i]; {
			case isAlnum(c) || strings.IndexByte(stays, c) >= 0:
				_ = out.WriteByte(c)
			case c == ' ' && plus:
				_ = out.WriteByte('+')
			default:
				fmt.Fprintf(&out, digits, c)
			}
		}
		return out.String()
	}
	const upper, lower = "%%%02X", "%%%02x"
	ways := map[string]string{
		"encodeURIComponent": escaped("-_.!~*'()", upper, false), "encodeURI": escaped("-_.!~*'();/?:@&=+$,#", upper, false),
		"URLSearchParams": escaped("*-._", upper, true),
		"Python quote":    escaped("_.-~/", upper, false), "Python quote_plus": escaped("_.-~", upper, true), "RFC 3986": escaped("_.-~", upper, false),
		"HttpUtility": escaped("!*()-_.", lower, true), "all of it": escaped("", lower, false),
		"QueryEscape": url.QueryEscape(value), "PathEscape": url.PathEscape(value),
	}
	if !strings.Contains(value, "%") { // which the class URL leaves, so that nobody can read it
		ways["URL"] = escaped("!#$&'()*+,-./:;=?@[\\]^_`{|}~", upper, false)
	}
	return ways
}

// TestSecretsInURLs: a secret goes however a library escapes it in an address, and
// nothing else of it does.
func TestSecretsInURLs(t *testing.T) {
	for _, value := range []string{
		"qL58Q~wE7rTzU2iOpA4sDfG6", "Zq9!P@ssw*rd(4)x7", "aB3~kL9/mN5*qR8tU", "Qw7 er+ty&ui=99Zz", "Pässwört/ä?#42", "it's [a] {key}|42^",
	} {
		s := New([]*messages.ServerSpec{{Env: []string{"CLIENT_SECRET=" + value}}})
		want := `{"text":"POST https://h/a%20b?x=%C3%A4&s=[REDACTED:CLIENT_SECRET]&n=%41%zz%"}`
		for library, form := range inURLs(value) {
			for _, form := range []string{form, url.QueryEscape(form)} {
				text := strings.Replace(want, marker("CLIENT_SECRET"), form, 1)
				if got := s.Text(text); got != want {
					t.Errorf("%s: %s became %s", library, text, got)
				}
				if got, counts := s.Result(json.RawMessage(text)); string(got) != want || counts["CLIENT_SECRET"] != 1 {
					t.Errorf("%s: the result %s became %s, %v", library, text, got, counts)
				}
				if got := s.JSON(json.RawMessage(`{"` + form + `":1}`)); string(got) != `{"[REDACTED:CLIENT_SECRET]":1}` && json.Valid([]byte(`"`+form+`"`)) {
					t.Errorf("%s: as a name %s became %s", library, form, got)
				}
			}
		}
	}
	s := New([]*messages.ServerSpec{{Env: []string{"CLIENT_SECRET=a secret of 4 words"}}})
	for _, plain := range []string{"100% of %d, %s and %2", "https://h/a%20secret%20of%204?x=%7e", "%", "%%%25%2525", "%c3%28 %00"} {
		if got := s.Text(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("hunter-22", "at ", " end")
	f.Add("REDACTED", "x[", "]")
	f.Add("a\nlonger line\nb", "sk-", "@://u:p@h")
	f.Add("\xff\x00\"\\<>&", "eyJ", "Bearer ")
	f.Add(githubPAT, "https://u:", "@h")
	f.Add(pem, "Basic ", "=")
	f.Add("qL58Q~wE7rTzU2", "?a=%20&b=", "%41")
	f.Add("Zq9!P@ssw*rd(4)x7 % %41", "%25", "%")
	f.Fuzz(func(t *testing.T, value, before, after string) {
		value = strings.TrimSpace(value)
		s := New([]*messages.ServerSpec{{Env: []string{"SOME_KEY=" + value}, Args: []string{before}, URL: after}})
		inJSON, _ := json.Marshal(value)
		quoted := strconv.Quote(value)
		forms := []string{value, string(inJSON[1 : len(inJSON)-1]), base64.RawStdEncoding.EncodeToString([]byte(value)), quoted[1 : len(quoted)-1]}
		if strings.LastIndexByte(before, '%') < len(before)-2 || before == "" { // else it is another text
			forms = slices.AppendSeq(forms, maps.Values(inURLs(value)))
		}
		for _, form := range forms {
			in := before + form + after
			got := s.Text(in)
			if len(value) >= minUntold && len(value) <= longestValue && !plainWords[strings.ToLower(value)] && strings.Contains(got, form) {
				t.Errorf("%q is in %q, made of %q", form, got, in)
			}
			if len(got) > 10*len(in) {
				t.Errorf("%d bytes became %d", len(in), len(got))
			}
			if b := s.Bytes([]byte(in)); string(b) != got {
				t.Errorf("Bytes and Text differ: %q, %q", b, got)
			}
		}
	})
}

func BenchmarkBytes(b *testing.B) {
	var env []string
	for i := range 50 {
		env = append(env, "KEY_"+strconv.Itoa(i)+"=secret-value-"+strconv.Itoa(i*7919))
	}
	s := New([]*messages.ServerSpec{{Env: env}})
	nothing := []byte("2026-11-28T08:05:18.123Z INFO [server] listening on http://127.0.0.1:8080/mcp with 12 tools; npm_config_cache=/home/someone/.npm, node v22.11.0, basic settings from /etc/server.json, request 4711 took 12 ms")
	b.Run("nothing", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(nothing)))
		for b.Loop() {
			s.Bytes(nothing)
		}
	})
	one := append(slices.Clone(nothing), "secret-value-7919"...)
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Bytes(one)
		}
	})
	addresses := bytes.Repeat([]byte("GET https://api.example.org/v1/items/IMG%204711.jpeg?next=https%3A%2F%2Fwww.example.org%2Fa%3Fb%3Dc&q=two+words%20more 200 12ms\n"), 500)
	b.Run("addresses", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(addresses)))
		for b.Loop() {
			s.Bytes(addresses)
		}
	})
	plain := bytes.ReplaceAll(addresses, []byte("%"), []byte("-"))
	b.Run("addresses without escapes", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(plain)))
		for b.Loop() {
			s.Bytes(plain)
		}
	})
	hostile := bytes.Repeat([]byte("eyJ.sk-1 ://a:-----BEGIN Bearer "), 2000)
	for name, text := range map[string][]byte{
		"hostile": hostile, "names": bytes.Repeat([]byte("token="), 10_000), "names with digits": bytes.Repeat([]byte("token=4"), 10_000),
		"names of passwords": bytes.Repeat([]byte("password="), 7_000), "escapes of escapes": bytes.Repeat([]byte("%25252541"), 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				s.Bytes(text)
			}
		})
	}
}

// A secret behind a long run of names is found, wherever it begins in it.
func TestSecretsBehindManyNames(t *testing.T) {
	s := New(nil)
	const secret = "k7Qw2Lx9Zr4Tn8Vb3Mc6"
	for n := range 200 {
		text := strings.Repeat("token=", n) + "token=" + secret + "\n"
		if got := s.Text(text); strings.Contains(got, secret) {
			t.Errorf("behind %d names: %s", n, got)
		}
	}
	for _, text := range []string{strings.Repeat("token=", 300) + " token=" + secret, strings.Repeat("secret=", 90) + secret} {
		if got := s.Text(text); strings.Contains(got, secret) {
			t.Errorf("%s", got)
		}
	}
}

// TestJSONFindsEveryWriting looks for a secret in strings that write it with
// escapes of many kinds.
func TestJSONFindsEveryWriting(t *testing.T) {
	const secret = "Pässwort/größe-99"
	s := New([]*messages.ServerSpec{{Name: "a", Env: []string{"API_KEY=" + secret}}})
	var escaped strings.Builder
	for _, u := range utf16.Encode([]rune(secret)) {
		fmt.Fprintf(&escaped, `\u%04X`, u)
	}
	for _, written := range []string{
		secret, `P\u00e4sswort/gr\u00f6\u00dfe-99`, `P\u00E4sswort\/gr\u00F6\u00DFe-99`, escaped.String(),
	} {
		raw := `{"a":[1,"x\ty \"` + written + `\" z"],"` + written + `":null}`
		got := s.JSON(json.RawMessage(raw))
		var value any
		if err := json.Unmarshal(got, &value); err != nil {
			t.Errorf("%s became %s: %v", raw, got, err)
		}
		again, _ := json.Marshal(value)
		if strings.Contains(string(again), secret) || !strings.Contains(string(again), "[REDACTED") {
			t.Errorf("%s became %s", raw, got)
		}
	}
	const harmless = `{"a":"x\u00e4\/y","b":"\ud83d\ude00"}`
	if got := s.JSON(json.RawMessage(harmless)); string(got) != harmless {
		t.Errorf("%s became %s", harmless, got)
	}
	if got := (*Set)(nil).JSON(json.RawMessage(harmless)); string(got) != harmless {
		t.Errorf("without scrubbing it became %s", got)
	}
	for _, broken := range []string{``, `"`, `{"a":"\`, `"\u12"`, `""""`} {
		_ = s.JSON(json.RawMessage(broken))
	}
}

// What assignments passes over has none.
func TestAssignmentsAreNotPassedOver(t *testing.T) {
	for value, want := range map[string]int{
		"PASSWORD=hunter22": 1, "--api_key=abcdefgh": 1, "X-ACCESS-KEY: abcdefgh": 1, "a=b;pwd=abcdef;Secret:abcdef": 2, "signature=abcdef": 1, "my_toKen = abcdef": 1,
		"http://127.0.0.1:9/123": 0, "node": 0, "--port=123456": 0, "api\u212aey=abcdefgh": 1,
	} {
		if got := len(assignments(value)); got != want || got != len(assignment().FindAllStringSubmatchIndex(value, -1)) {
			t.Errorf("%q has %d assignments, want %d", value, got, want)
		}
	}
}
