package scrub

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// fake makes secrets in the formats that their services have. They are put
// together here, from random characters, and open nothing.
type fake struct{ rnd *rand.Rand }

func (f fake) of(chars string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = chars[f.rnd.IntN(len(chars))]
	}
	return string(b)
}

const (
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits   = "0123456789"
	alnums   = lowers + uppers + digits
	hexes    = digits + "abcdef"
	base32s  = uppers + "234567"
	urlSafes = alnums + "_-"
)

func (f fake) jwt() string {
	part := func(v any) string {
		raw, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return part(map[string]string{"alg": "HS256", "typ": "JWT"}) + "." + part(map[string]any{"sub": f.of(digits, 10), "exp": f.rnd.IntN(1 << 30)}) + "." + f.of(urlSafes[:62], 43)
}

func (f fake) pem(kind string) string {
	lines := ""
	for range 8 {
		lines += f.of(alnums, 64) + "\n"
	}
	return "-----BEGIN " + kind + "-----\n" + lines + "-----END " + kind + "-----"
}

// all are secrets by what they are.
func (f fake) all() map[string]string {
	return map[string]string{
		"JWT":                f.jwt(),
		"OpenAI":             "sk-" + f.of(alnums, 20) + "T3Blbk" + "FJ" + f.of(alnums, 20),
		"OpenAI project":     "sk-" + "proj-" + f.of(urlSafes, 74) + "T3Blbk" + "FJ" + f.of(alnums, 74),
		"Anthropic":          "sk-" + "ant-api03-" + f.of(urlSafes, 93) + "AA",
		"GitHub":             "gh" + "p_" + f.of(alnums, 36),
		"GitHub app":         "gh" + "s_" + f.of(alnums, 36),
		"GitHub fine":        "github" + "_pat_" + f.of(alnums, 22) + "_" + f.of(alnums, 59),
		"GitLab":             "glpat" + "-" + f.of(alnums, 20),
		"Slack bot":          "xo" + "xb-" + f.of(digits, 12) + "-" + f.of(digits, 12) + "-" + f.of(alnums, 24),
		"Slack user":         "xo" + "xp-" + f.of(digits, 12) + "-" + f.of(digits, 12) + "-" + f.of(digits, 12) + "-" + f.of(hexes, 32),
		"Slack hook":         "https://hooks." + "slack.com/services/T" + f.of(uppers, 10) + "/B" + f.of(uppers, 10) + "/" + f.of(alnums, 24),
		"AWS id":             "AK" + "IA" + f.of(base32s, 16),
		"AWS secret":         "aws_secret" + "_access_key = " + f.of(alnums+"+/", 39) + "7",
		"Google":             "AI" + "za" + f.of(urlSafes, 35),
		"Stripe":             "sk" + "_live_" + f.of(alnums, 24),
		"Stripe restricted":  "rk" + "_test_" + f.of(alnums, 24),
		"RSA key":            f.pem("RSA PRIVATE" + " KEY"),
		"OpenSSH key":        f.pem("OPENSSH PRIVATE" + " KEY"),
		"PKCS8 key":          f.pem("PRIVATE" + " KEY"),
		"npm":                "np" + "m_" + f.of(alnums, 36),
		"PyPI":               "py" + "pi-AgEIcHlwaS5vcmc" + f.of(urlSafes, 70),
		"Hugging Face":       "h" + "f_" + f.of(lowers+uppers, 34),
		"SendGrid":           "S" + "G." + f.of(urlSafes, 22) + "." + f.of(urlSafes, 43),
		"Twilio":             "S" + "K" + f.of(hexes, 32),
		"DigitalOcean":       "dop" + "_v1_" + f.of(hexes, 64),
		"Heroku":             "HEROKU_API" + "_KEY=" + f.of(hexes, 8) + "-" + f.of(hexes, 4) + "-" + f.of(hexes, 4) + "-" + f.of(hexes, 4) + "-" + f.of(hexes, 12),
		"Shopify":            "shp" + "at_" + f.of(hexes, 32),
		"Telegram":           "telegram_bot_token=" + f.of("123456789", 9) + ":A" + f.of(urlSafes, 34),
		"Vault":              "hv" + "s." + f.of(urlSafes, 95),
		"Atlassian":          "ATATT3" + f.of(alnums, 177) + "=" + f.of(hexes[:10]+"ABCDEF", 8),
		"database":           "postgres://admin:" + f.of(alnums, 16) + "@db.example.org:5432/main",
		"Authorization":      "Authorization: Bearer " + f.of(alnums, 40),
		"Basic":              "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+f.of(alnums, 12))),
		"api key":            "API_KEY=\"" + f.of(alnums, 40) + "1\"",
		"curl":               "curl -H \"Authorization: Bearer " + f.of(alnums, 30) + "\" https://api.example.org",
		"curl with a user":   "curl -u admin:" + f.of(alnums, 14) + " https://api.example.org/x",
		"azure":              "value: " + f.of(alnums, 3) + "8Q" + "~" + f.of(alnums, 34),
		"Kubernetes":         "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  first: " + base64.StdEncoding.EncodeToString([]byte(f.of(alnums, 12))) + "\n  second: " + base64.StdEncoding.EncodeToString([]byte(f.of(alnums, 15))) + "\n",
		"dotenv":             "DB_HOST=localhost\nDB_PASSWORD=" + f.of(alnums, 20) + "9\nDEBUG=1",
		"JSON password":      `{"user": "admin", "password": "` + f.of(alnums, 10) + `7"}`,
		"JSON client secret": `{"clientId":"x","clientSecret":"` + f.of(alnums, 30) + `"}`,
		"JSON in JSON":       `{"body":"{\"api_key\":\"` + f.of(alnums, 30) + `\"}"}`,
	}
}

// secretOf is the part of a fake that must not be left: its longest run of
// letters and digits.
func secretOf(text string) string {
	longest := ""
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !strings.ContainsRune(alnums, r) }) {
		if len(w) > len(longest) {
			longest = w
		}
	}
	return longest
}

func TestRealFormatsGo(t *testing.T) {
	s := New(nil)
	for seed := range uint64(8) {
		for kind, secret := range (fake{rand.New(rand.NewPCG(seed, 1))}).all() {
			core := secretOf(secret)
			for _, in := range []string{secret, "before " + secret + " behind", "key:\n" + secret + "\n", "[" + secret + "]"} {
				raw, _ := json.Marshal(map[string]any{
					"content": []any{
						map[string]any{"type": "text", "text": in},
						map[string]any{"type": "resource", "resource": map[string]any{"uri": "x:y", "text": in}},
					},
					"structuredContent": map[string]any{"list": []any{1, map[string]any{"value": in}}},
				})
				got, counts := s.Result(raw)
				if !json.Valid(got) || bytes.Contains(got, []byte(core)) || len(counts) == 0 {
					t.Errorf("%s: %s became %s, %v", kind, raw, got, counts)
				}
				if got := s.Text(in); strings.Contains(got, core) || !strings.Contains(got, "[REDACTED:") {
					t.Errorf("%s: %q became %q", kind, in, got)
				}
			}
		}
	}
}

// TestOnlyTheSecretChanges: all other bytes of a result stay, whatever they are.
func TestOnlyTheSecretChanges(t *testing.T) {
	f := fake{rand.New(rand.NewPCG(5, 5))}
	token := "gh" + "p_" + f.of(alnums, 36)
	var units strings.Builder
	for _, c := range token {
		fmt.Fprintf(&units, `\u%04X`, c)
	}
	s := New([]*messages.ServerSpec{{Env: []string{"APP_KEY=known/sécret-1", "PIN_TOKEN=12345678"}}})
	for _, c := range []struct{ in, want string }{
		{`{ "a" : 1.50e+3,"b":"x` + token + `y z" }`, `{ "a" : 1.50e+3,"b":"x[REDACTED:github-pat]y z" }`},
		{`{ "a" : 1.50e+3,"b":"x ` + token + ` z" }`, `{ "a" : 1.50e+3,"b":"x [REDACTED:GitHub-token] z" }`},
		{`["\ud800\/\u00e9\n` + token + `\ud83d\ude00\t\"",  null]`, `["\ud800\/\u00e9\n[REDACTED:GitHub-token]\ud83d\ude00\t\"",  null]`},
		{`["\ud83d\ude00 ` + units.String() + ` é"]`, `["\ud83d\ude00 [REDACTED:GitHub-token] é"]`},
		{`{"x":"known\/s\u00e9cret-1 known\u002fsécret-1"}`, `{"x":"[REDACTED:APP_KEY] [REDACTED:APP_KEY]"}`},
		{`{"` + token + `":{"12345678":12345678}}`, `{"` + token + `":{"12345678":12345678}}`},
		{`{"pin":"12345678"}`, `{"pin":"[REDACTED:PIN_TOKEN]"}`},
		{`{"password":"hunter2-x","Password":"a b","passWord":"password"}`, `{"password":"[REDACTED:password]","Password":"a b","passWord":"password"}`},
		{`{"refresh_token":"1\/\/0gabc\u0064ef"}`, `{"refresh_token":"[REDACTED:refreshtoken]"}`},
		{`{"apiKey":{"type":"string","description":"the key"},"secret":true,"accessToken":null}`, `{"apiKey":{"type":"string","description":"the key"},"secret":true,"accessToken":null}`},
		{`{"nextToken":"eyJhIjoxfQ9aB8cD7eF6gH5","pageToken":"CAoQAA12ab34cd56","cursor":"aB3dE5gH7jK9mN1pQ3sT5"}`, `{"nextToken":"eyJhIjoxfQ9aB8cD7eF6gH5","pageToken":"CAoQAA12ab34cd56","cursor":"aB3dE5gH7jK9mN1pQ3sT5"}`},
		{`"` + token + `"`, `"[REDACTED:GitHub-token]"`},
		{`["` + token + `","` + token + `"]`, `["[REDACTED:GitHub-token]","[REDACTED:GitHub-token]"]`},
	} {
		got, counts := s.Result(json.RawMessage(c.in))
		if string(got) != c.want {
			t.Errorf("%s became %s, want %s", c.in, got, c.want)
		}
		if (counts == nil) != (c.in == c.want) || !json.Valid(got) {
			t.Errorf("%s: %v, %s", c.in, counts, got)
		}
	}
	if got, counts := (*Set)(nil).Result(json.RawMessage(`["` + token + `"]`)); counts != nil || !strings.Contains(string(got), token) {
		t.Errorf("without scrubbing: %s, %v", got, counts)
	}
	for _, broken := range []string{``, `"`, `{"a":"\`, `"\u12"`, `""""`, `{"a":"` + token, `]]]}}`, `{"a" "b"}`, `["\ud83d\ud"]`} {
		_, _ = s.Result(json.RawMessage(broken))
	}
}

// TestWordsOfTheConfigurationStay: what an entry holds may be a word that every
// result has; it goes from errors and logs alone.
func TestWordsOfTheConfigurationStay(t *testing.T) {
	s := New([]*messages.ServerSpec{{
		Env:    []string{"GIT_AUTHOR_EMAIL=jane@example.org", "AUTH_USER=jane.doe-1", "POSTGRES_PASSWORD=postgres", "SESSION_NAME=work-12", "PARTITION_KEY=tenant_id", "API_KEY=k3y-of-somebody", "DB_PASSWORD=pr0duct!on", "STORED_PASSWORD=x"},
		Args:   []string{"--api-key", "behind-a-flag-1", "--auth", "someone-else"},
		Filled: map[string]string{"PROJECT": "project-x-1", "secret:WORD": "wordsword", "DEPLOY_TOKEN": "tok-0815-x"},
	}})
	for _, stays := range []string{"jane@example.org", "jane.doe-1", "postgres", "work-12", "tenant_id", "someone-else", "project-x-1"} {
		raw := json.RawMessage(`["` + stays + `"]`)
		if got, counts := s.Result(raw); string(got) != string(raw) || counts != nil {
			t.Errorf("%s became %s", raw, got)
		}
		if got, counts := s.Counted(stays); got != stays || counts != nil {
			t.Errorf("%s became %s", stays, got)
		}
		if got := s.Text("x " + stays); !strings.Contains(got, "[REDACTED:") {
			t.Errorf("an error keeps %s", got)
		}
	}
	for _, goes := range []string{"k3y-of-somebody", "pr0duct!on", "behind-a-flag-1", "wordsword", "tok-0815-x"} {
		if got, counts := s.Result(json.RawMessage(`["` + goes + `"]`)); strings.Contains(string(got), goes) || len(counts) != 1 {
			t.Errorf("%s stays: %s", goes, got)
		}
	}
}

// TestSecretsOfAnyForm: what stands in the configuration as a secret goes from results
// whatever it is made of: words, lines, JSON, signs that a reference begins with. What
// only looks like that, under such a name or another, stays.
func TestSecretsOfAnyForm(t *testing.T) {
	const (
		keyLines = "MIIEpAIBAAKCAQEA7bq1\n/K7MDENGbPxRfiCYzzKQ9h3kLm\nqrstuvwxyzABCDEF"
		account  = "{\n  \"kid\": \"9fA2kd81Lm\",\n  \"auth_uri\": \"https://accounts.example.org/auth\",\n  \"enabled\": true,\n  \"type\": \"service_account\",\n  \"scopes\": [\n    \"https://example.org/auth/all\"\n  ]\n}"
	)
	s := New([]*messages.ServerSpec{{
		Env: []string{
			"DOOR_PASSWORD=correct horse", "DB_PASSWORD=Tr0ub4dor & 3 horses!", "TAB_PASSWORD=pass\tw0rd9x!", "API_TOKEN=zQ9xL2vB7nM4\nkT8wR1yPaa12\r\nqqWW33ee44rr",
			"GOOGLE_KEY={\"kid\": \"0cB3le92Mn\", \"seed\": \"Qz81mmA0-x\", \"at\": \"https://example.org\"}", "SSH_PRIVATE_KEY=-----BEGIN X-----\n" + keyLines + "\n-----END X-----\n",
			"ACCOUNT_KEY=" + account, "DATABASE_URL=postgres://bob:S3c%20r%21t9@db/x", "PGPASS=aB3kL9 mN5qR8", "SSHPASS=correct horse 2", "COMPASS=north-west 12", "GIT_ASKPASS=/usr/lib/askpass.sh", "SIGN_PASSWORD=$ecret9!x", "BRACE_SECRET={(4)x7Zq9", "TILDE_SECRET=~q8Q.wE7rTz",
			"AWS_SECRET_ACCESS_KEY=/K7MDENG+bPxRfiCYzzKQ9h3kLm0aZ2qW4eR6tY8",
			"SORT_KEY=name desc", "WEB_AUTH=basic auth", "TLS_KEY=/etc/tls keys/server.pem", "HOST_KEY=/home/someone/.ssh/id_ed25519", "REF_TOKEN=${SOME_TOKEN}", "SHELL_TOKEN=$SOME_TOKEN_2",
			"SAMPLE_PASSWORD=<a password of yours>", "YOUR_API_KEY=your key 12345", "DESCRIPTION=opens the door 2 times", "GREETING=hello\nto all 12 of you",
		},
		Args:    []string{"--password", "Pa5s phr4se w0rd", "-e", "RUN_SECRET=run 1st line\nrun 2nd line", "--auth", "api  key"},
		Headers: map[string]string{"X-Door-Secret": "open sesame", "X-Api-Key": "ApiKey tenant"},
		Filled:  map[string]string{"secret:NOTE": "kept in the store\nin two lines\n\"\t\t\t\t\t\t\"", "secret:LOGIN": "user: bobby\npassword: correct horses", "DOOR": "a horse of battery"},
	}})
	for _, goes := range append(strings.Split(keyLines, "\n"),
		"correct horse", "Tr0ub4dor & 3 horses!", "pass\tw0rd9x!", "zQ9xL2vB7nM4\nkT8wR1yPaa12\r\nqqWW33ee44rr", "zQ9xL2vB7nM4", "kT8wR1yPaa12", "qqWW33ee44rr",
		"{\"kid\": \"0cB3le92Mn\", \"seed\": \"Qz81mmA0-x\", \"at\": \"https://example.org\"}", account, `"kid": "9fA2kd81Lm",`, "S3c r!t9", "S3c%20r%21t9", "aB3kL9 mN5qR8", "correct horse 2", "$ecret9!x", "{(4)x7Zq9", "~q8Q.wE7rTz",
		"/K7MDENG+bPxRfiCYzzKQ9h3kLm0aZ2qW4eR6tY8", "Pa5s phr4se w0rd", "run 1st line\nrun 2nd line", "run 1st line", "open sesame", "kept in the store", "in two lines", "password: correct horses",
	) {
		raw, _ := json.Marshal([]string{"x " + goes + " y"})
		if got, counts := s.Result(raw); !strings.HasPrefix(string(got), `["x [REDACTED:`) || !strings.HasSuffix(string(got), `] y"]`) || len(counts) == 0 {
			t.Errorf("%q stays: %s, %v", goes, got, counts)
		}
		if got := s.Text(goes); !strings.Contains(got, "[REDACTED:") {
			t.Errorf("an error keeps %q", goes)
		}
	}
	for _, stays := range []string{
		"name desc", "basic auth", "/etc/tls keys/server.pem", "/home/someone/.ssh/id_ed25519", "${SOME_TOKEN}", "$SOME_TOKEN_2", "<a password of yours>", "your key 12345",
		"north-west 12", "/usr/lib/askpass.sh", "opens the door 2 times", "hello\nto all 12 of you", "to all 12 of you", "api  key", "tenant", "horse", "sesame", "a horse of battery",
		"user: bobby", `"enabled": true,`, `"type": "service_account",`, `"auth_uri": "https://accounts.example.org/auth",`, `    "https://example.org/auth/all"`,
	} {
		raw, _ := json.Marshal([]string{"x " + stays + " y"})
		if got, counts := s.Result(raw); string(got) != string(raw) || counts != nil {
			t.Errorf("%s became %s", raw, got)
		}
	}
}

// TestConfiguredSecretsAreNoExamples: a secret of the configuration may look like what
// documentation writes for a password, and may be called one.
func TestConfiguredSecretsAreNoExamples(t *testing.T) {
	s := New([]*messages.ServerSpec{{
		Args:   []string{"--password", "$ecret9!x", "--Password=@x9!kQ2z"},
		Filled: map[string]string{"secret:password": "mypassword"},
	}})
	for _, goes := range []string{"$ecret9!x", "%24ecret9%21x", "@x9!kQ2z", "%40x9!kQ2z", "mypassword", "postgres://u:mypassword@h"} {
		raw := json.RawMessage(`["` + goes + `"]`)
		if got, counts := s.Result(raw); !strings.Contains(string(got), "[REDACTED:") || counts["password"]+counts["Password"] != 1 {
			t.Errorf("%s stays: %s, %v", goes, got, counts)
		}
		if got, counts := s.Counted(goes); !strings.Contains(got, "[REDACTED:") || len(counts) != 1 {
			t.Errorf("of a script %s stays: %s, %v", goes, got, counts)
		}
	}
	const example = `["postgres://u:password@h","https://u:$PASS@h","x://u:guest@h"]`
	if got, counts := s.Result(json.RawMessage(example)); string(got) != example || counts != nil {
		t.Errorf("%s became %s", example, got)
	}
}

// TestBinaryStays: what is an image, a sound or a file is not looked into, even
// if a secret's shape is in it.
func TestBinaryStays(t *testing.T) {
	f := fake{rand.New(rand.NewPCG(6, 6))}
	s := New(nil)
	data := f.of(alnums, 40) + "/AK" + "IA" + f.of(base32s, 16) + "/" + f.of(alnums, 40) + "=="
	token := "AK" + "IA" + f.of(base32s, 16)
	for _, in := range []string{
		`{"type":"image","data":"` + data + `","mimeType":"image/png"}`,
		`{"data":"` + data + `","mimeType":"image/png","type":"image"}`,
		`{"mimeType":"audio/wav","annotations":{"x":["y"]},"type":"audio","data":"` + strings.ReplaceAll(data, "/", `\/`) + `"}`,
		`{"type":"resource","resource":{"blob":"` + data + `","uri":"file:///x"}}`,
		`{"type":"resource","resource":{"uri":"file:///x","mimeType":"a/b","blob":"` + data + `"}}`,
	} {
		raw := json.RawMessage(`{"content":[` + in + `,{"type":"text","text":"` + token + `"}]}`)
		got, counts := s.Result(raw)
		want := strings.Replace(string(raw), token, "[REDACTED:AWS-key-id]", 1)
		if string(got) != want || counts["AWS-key-id"] != 1 {
			t.Errorf("%s became %s, %v", raw, got, counts)
		}
	}
	for _, in := range []string{`{"data":"` + token + `"}`, `{"type":"image","data":"` + token + `"}`, `{"blob":"` + token + `"}`, `{"type":"image","mimeType":"x/y","data":"not base64: ` + token + `"}`} {
		if got, _ := s.Result(json.RawMessage(in)); strings.Contains(string(got), token) {
			t.Errorf("%s became %s", in, got)
		}
	}
}

func TestCounts(t *testing.T) {
	c := Add(nil, nil)
	if c != nil {
		t.Errorf("nothing counts as %v", c)
	}
	first := Counts{"a": 1}
	c = Add(c, first)
	c = Add(c, Counts{"a": 2, "b": 1})
	if !maps.Equal(c, Counts{"a": 3, "b": 1}) || first["a"] != 1 {
		t.Errorf("%v, %v", c, first)
	}
	for i := range 100 {
		c = Add(c, Counts{fmt.Sprint(i): 1})
	}
	if len(c) > mostKinds+1 || c["other"] != 100+2-mostKinds {
		t.Errorf("%d kinds, %d others", len(c), c["other"])
	}
	if text, counts := New(nil).Counted("x AK" + "IA" + strings.Repeat("ABCD", 4) + " y"); text != "x [REDACTED:AWS-key-id] y" || counts["AWS-key-id"] != 1 {
		t.Errorf("%q, %v", text, counts)
	}
}

// FuzzResult: a result stays JSON of the same form.
func FuzzResult(f *testing.F) {
	fk := fake{rand.New(rand.NewPCG(1, 1))}
	for _, kind := range slices.Sorted(maps.Keys(fk.all())) {
		raw, _ := json.Marshal([]any{fk.all()[kind], map[string]any{"password": fk.all()[kind]}})
		f.Add(raw)
	}
	f.Add([]byte(`{"data":"aGk=","type":"image","mimeType":"x"}`))
	s := New([]*messages.ServerSpec{{Env: []string{"A_KEY=abc\"def\\x", "B_KEY=REDACTED"}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, counts := s.Result(raw)
		if bytes.Equal(got, raw) != (counts == nil) && counts == nil {
			t.Errorf("%q changed and nothing was counted", raw)
		}
		var before, after any
		if json.Unmarshal(raw, &before) != nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q became %q: %v", raw, got, err)
		}
		if form(before) != form(after) {
			t.Errorf("%q became %q", raw, got)
		}
	})
}

// form is a value without its strings.
func form(v any) string {
	switch v := v.(type) {
	case map[string]any:
		out := "{"
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out += k + ":" + form(v[k]) + ","
		}
		return out + "}"
	case []any:
		out := "["
		for _, e := range v {
			out += form(e) + ","
		}
		return out + "]"
	case string:
		return "s"
	default:
		return fmt.Sprint(v)
	}
}
