package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

func TestSettingsProblemsKeepTheDefault(t *testing.T) {
	tests := []struct{ text, message string }{
		{`null`, "metamcp: expected an object, found null"},
		{`{"pool": 1}`, "metamcp.pool: expected an object, found a number"},
		{`{"pool": {"poolSize": "20"}}`, "metamcp.pool.poolSize: expected a whole number, found a string"},
		{`{"pool": {"poolSize": 0}}`, "metamcp.pool.poolSize: \"0\" is not allowed; expected a whole number from 1 to 100000"},
		{`{"pool": {"idleTimeoutMs": "5m"}}`, "metamcp.pool.idleTimeoutMs: expected a whole number, found a string"},
		{`{"scrub": "no"}`, "metamcp.scrub: expected a boolean, found a string"},
		{`{"search": {"ranking": "best"}}`, "expected one of hybrid, classic"},
		{`{"audit": {"file": "${NONE}"}}`, "metamcp.audit.file: the environment variable NONE is not set"},
		{`{"expose": [1]}`, "metamcp.expose[0]: expected a string, found a number"},
		{`{"trace": 1}`, "metamcp.trace: expected a string, found a number"},
	}
	for _, tt := range tests {
		w := newWorld(t)
		want := w.load(`{"servers": {}}`).Settings
		cfg := w.load(`{"mcpServers": {"a": {"command": "x"}}, "metamcp": ` + tt.text + `}`)
		if len(cfg.Problems) != 1 || cfg.Problems[0].Line != 1 || cfg.Server("a") == nil {
			t.Errorf("%s: problems are %s", tt.text, texts(cfg.Problems))
		}
		contains(t, texts(cfg.Problems), tt.message)
		for _, k := range Keys() {
			if !k.sameValue(&cfg.Settings, &want) {
				t.Errorf("%s changed %s", tt.text, k.Path)
			}
		}
	}
}

// What somebody wrote to protect themselves is never replaced by a default that does
// not.
func TestABadValueOfAGuardFailsTheFile(t *testing.T) {
	bad := map[string]string{
		"toolRules": `[{"pattern": 1}]`, "registry.url": `"x"`, "trust.file": `"${NONE}/mine.json"`, "trust.autoProvision": `"false"`,
		"trust.autoProvisionClients": `["ok", 1]`, "trust.pins": `"Hold"`, "http.tlsCert": `"${NONE}/c.pem"`, "http.tlsKey": `1`,
		"http.clientCa": `"${NONE}"`, "stateDir": `"${NONE}"`,
	}
	for _, k := range Keys() {
		value, named := bad[k.Path]
		if named != k.Guards {
			t.Errorf("%s guards something: %v, and has a bad value here: %v", k.Path, k.Guards, named)
		}
		if !named {
			continue
		}
		text := k.Path + `": ` + value
		if group, leaf, ok := strings.Cut(text, "."); ok && keyGroups[group] != nil {
			text = group + `": {"` + leaf + `}`
		}
		w := newWorld(t)
		err := failing(t, w.sources(w.file("a.json", `{"mcpServers": {"a": {"command": "x"}}, "metamcp": {"`+text+`}}`)))
		contains(t, err.Message, "a.json:1:", "metamcp."+k.Path)
		if err.Hint == "" {
			t.Errorf("%s: no hint: %v", k.Path, err)
		}
	}
	for text, want := range map[string]string{`17`: "metamcp: expected an object", `{"trust": true}`: "metamcp.trust: expected an object", `{"http": []}`: "metamcp.http: expected an object"} {
		w := newWorld(t)
		contains(t, failing(t, w.sources(w.file("a.json", `{"metamcp": `+text+`}`))).Message, want)
	}
	// However much else is wrong.
	w := newWorld(t)
	err := failing(t, w.sources(w.file("a.json", `{"metamcp": {"expose": [`+strings.Repeat(`1, `, maxReported)+`1], "trust": {"pins": "Hold"}}}`)))
	contains(t, err.Message, "metamcp.trust.pins cannot be used")
}

// Who reads the error of a bad URL learns what is wrong with it, without the value, which
// may hold a password, and what else there is.
func TestABadRegistryURLSaysWhyAndWhatToDo(t *testing.T) {
	for text, why := range map[string]string{
		"s3cret": "does not begin with http:// or https://", "ftp://s3cret@x": "does not begin with http:// or https://",
		"https://": "names no host", "https://s3cret:x y@z": "is no URL",
	} {
		w := newWorld(t)
		err := failing(t, w.sources(w.file("a.json", `{"metamcp": {"registry": {"url": "`+text+`"}}}`)))
		contains(t, err.Message, "metamcp.registry.url: expected an absolute http or https URL, but it "+why)
		contains(t, err.Hint, "Correct it, or remove it to use the default ("+DefaultSettings().RegistryURL+"); ")
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A mistake in a file that is saved on a running host changes nothing there.
func TestReloadKeepsSettingsThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	src := w.sources(w.file("a.json", `{"mcpServers": {}, "metamcp": {"pool": {"poolSize": 77}, "scrub": false, "search": {"limit": 7, "ranking": "classic"}}}`))
	cfg, err := Load(src)
	must(t, err)
	for _, text := range []string{
		`{"pool": {"poolSize": "77"}, "scrub": "off", "search": {"limit": 7, "ranking": "Classic"}}`,
		`{"pool": 77, "scrub": false, "search": []}`,
	} {
		w.file("a.json", `{"mcpServers": {}, "metamcp": `+text+`}`)
		next, err := Reload(src, cfg)
		must(t, err)
		if actions := Diff(cfg, next); len(actions) != 0 {
			t.Errorf("%s: %+v", text, actions)
		}
		if len(next.Problems) < 2 {
			t.Errorf("%s: problems are %s", text, texts(next.Problems))
		}
		cfg = next
	}
	w.file("a.json", `{"mcpServers": {}, "metamcp": {"pool": {"poolSize": 0}}}`)
	next, err := Reload(src, cfg)
	must(t, err)
	contains(t, texts(next.Problems), "what was in force stays until it is corrected")
	if s := next.Settings; s.Pool.PoolSize != 77 || !s.Scrub || s.Search.Ranking != "hybrid" {
		t.Errorf("what is not written has not its default: %+v", s)
	}
}

// A setting that needs a restart is told when it is written, and changes nothing
// before: neither by itself nor where others depend on it.
func TestReloadKeepsWhatNeedsARestart(t *testing.T) {
	w := newWorld(t, "KEY=1", "HOME_X=1")
	store(t, filepath.Join(w.home, ".metamcp"), "MINE", "hush-hush")
	w.lock("weather")
	const servers = `"mcpServers": {"a": {"command": "x", "env": {"A": "${secret:MINE}"}}}`
	src := w.sources(w.file("a.json", `{`+servers+`, "metamcp": {"audit": {"file": "off"}}}`))
	first, err := Load(src)
	must(t, err)
	clean(t, first)
	w.file("a.json", `{`+servers+`, "metamcp": {"stateDir": "/other", "audit": {"file": "b.jsonl"}, "pool": {"maxStarts": 9}}}`)
	next, err := Reload(src, first)
	must(t, err)
	for i := range keyTable {
		if k := &keyTable[i]; !k.sameValue(&first.Settings, &next.Settings) {
			t.Errorf("%s changed", k.Path)
		}
	}
	want := []string{"audit.file", "pool.maxStarts", "stateDir"}
	restarts := func(old, next *Config) (paths []string) {
		for _, a := range Diff(old, next) {
			s, ok := a.(SettingsChanged)
			if !ok {
				t.Fatalf("there is to be done: %+v", a)
			}
			paths = append(paths, s.Restart...)
		}
		slices.Sort(paths)
		return paths
	}
	if got := restarts(first, next); !slices.Equal(got, want) {
		t.Errorf("a restart is needed for %v, want %v", got, want)
	}
	again, err := Reload(src, next)
	must(t, err)
	if got := restarts(next, again); len(got) != 0 {
		t.Errorf("told again: %v", got)
	}
	w.file("a.json", `{`+servers+`, "metamcp": {"audit": {"file": "off"}}}`)
	back, err := Reload(src, again)
	must(t, err)
	if got := restarts(again, back); len(got) != 0 {
		t.Errorf("it is as it was, and yet a restart is needed for %v", got)
	}
}

func TestSettingsWarnings(t *testing.T) {
	tests := []struct{ text, message string }{
		{`{"poolSize": 5}`, "metamcp.poolSize is not known and ignored (did you mean metamcp.pool.poolSize?)"},
		{`{"trust": {"POOLSIZE": 5}}`, "metamcp.trust.POOLSIZE is not known and ignored (did you mean metamcp.pool.poolSize?)"},
		{`{"pol": {}}`, "metamcp.pol is not known and ignored (did you mean pool?)"},
		{`{"pool": {"poolsize": 1}}`, "did you mean poolSize?"},
		{`{"pool": {"poolSize": 1, "poolSize": 2}}`, "metamcp.pool.poolSize is written twice"},
		{`{"": 1}`, "is not known"},
	}
	for _, tt := range tests {
		cfg := newWorld(t).load(`{"metamcp": ` + tt.text + `}`)
		if len(cfg.Problems) != 0 || len(cfg.Warnings) != 1 {
			t.Errorf("%s: %s%s", tt.text, texts(cfg.Problems), texts(cfg.Warnings))
		}
		contains(t, texts(cfg.Warnings), tt.message)
	}
}

func TestSettingsResolve(t *testing.T) {
	w := newWorld(t, "D=sub", "ON=yes")
	cfg := w.load(`{"metamcp": {"stateDir": "${D}/state", "audit": {"file": "~/a.jsonl"}, "trace": "t.jsonl", "toolRules": [{"pattern": "/a${2}/"}], "trust": {"file": "/t.json", "autoProvisionClients": ["/b${3}/"]},
		"pool": {"poolSize": 2, "minPoolSize": 3, "idleTimeoutMs": null}}}`)
	s := cfg.Settings
	if s.StateDir != filepath.Join(w.cwd, "sub", "state") || s.Audit.File != filepath.Join(w.home, "a.jsonl") || s.TrustFile != "/t.json" ||
		s.Trace != filepath.Join(w.cwd, "t.jsonl") || s.Pool.MinPoolSize != 2 || s.Pool.IdleTimeout != 5*time.Minute ||
		s.ToolRules[0].Pattern[0] != "/a${2}/" || s.ProvisionClients[0] != "/b${3}/" {
		t.Errorf("settings are %+v", s)
	}
	contains(t, texts(cfg.Problems), "pool.minPoolSize (3) is more than pool.poolSize (2)")

	cfg = w.load(`{"metamcp": {"http": {"tlsCert": "~/cert.pem", "tlsKey": "key.pem", "clientCa": "/ca.pem"}, "search": {"embedderModel": "~/m.gguf"}}}`)
	if s := cfg.Settings; s.HTTP.TLSCert != filepath.Join(w.home, "cert.pem") || s.HTTP.TLSKey != filepath.Join(w.cwd, "key.pem") || s.HTTP.ClientCA != "/ca.pem" ||
		s.Search.Model != filepath.Join(w.home, "m.gguf") {
		t.Errorf("settings are %+v", s)
	}
	for _, search := range []string{`"embedder": "openai", "embedderModel": "m.gguf"`, `"embedderUrl": "http://localhost", "embedderModel": "m.gguf"`, `"embedder": "local", "embedderModel": "m"`} {
		if m := w.load(`{"metamcp": {"search": {` + search + `}}}`).Settings.Search.Model; m != "m.gguf" && m != "m" {
			t.Errorf("%s: the model is %s", search, m)
		}
	}

	cfg = w.load(`{"metamcp": {"audit": {"file": "off"}, "trace": false}}`)
	if cfg.Settings.Audit.File != "" || cfg.Settings.Trace != "" {
		t.Errorf("settings are %+v", cfg.Settings)
	}

	for text, want := range map[string]string{`"false"`: "", `"${T:-false}"`: "", `"${ON}"`: "stderr", `"stderr"`: "stderr", `""`: "", `"no.jsonl"`: filepath.Join(w.cwd, "no.jsonl")} {
		if got := w.load(`{"metamcp": {"trace": ` + text + `}}`).Settings.Trace; got != want {
			t.Errorf("trace %s is %q", text, got)
		}
	}

	cfg = w.load(`{"metamcp": {"expose": ["resources", "toools", "resources"], "exposeOnly": true}}`)
	if s := cfg.Settings; len(s.Expose) != 1 || s.Expose[0] != "resources" || s.ExposeOnly || s.ExposePrefix != "server" {
		t.Errorf("settings are %+v", s)
	}
	contains(t, texts(cfg.Problems), `metamcp.expose: "toools" is not allowed; expected a list of tools, prompts, resources; did you mean tools?`)
	contains(t, texts(cfg.Problems), "exposeOnly needs expose with tools")

	homeless := DefaultSettings()
	if problems := homeless.resolve("", "/w"); len(problems) != 1 || homeless.StateDir != "" || homeless.Audit.File != "" {
		t.Errorf("without a home: %+v, %v", homeless, problems)
	}
}

// A file in the place of the state folder is said once, with what names it; one that
// takes the place of the folder later does not concern a program that runs.
func TestStateDirIsAFile(t *testing.T) {
	w := newWorld(t)
	file := w.file("state", "")
	cfg := w.load(`{}`)
	for hint, sources := range map[string]Sources{
		"Correct --state-dir: ":       {Overlay: flags(t, "stateDir", file)},
		"Correct METAMCP_STATE_DIR: ": {Environ: []string{"METAMCP_STATE_DIR=" + file}},
		"metamcp.stateDir":            {Files: []string{w.file("a.json", `{"metamcp": {"stateDir": "./state"}}`)}, Environ: []string{}},
	} {
		sources.Home, sources.Cwd = w.home, w.cwd
		_, err := Load(sources)
		var failure *messages.Error
		if !errors.As(err, &failure) || !strings.Contains(failure.Message, file+" is not a folder") || !strings.Contains(failure.Hint, hint) {
			t.Errorf("%v, want the hint %s", err, hint)
		}
	}
	if err := os.WriteFile(filepath.Join(w.home, ".metamcp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Reload(w.sources(), cfg); err != nil {
		t.Error(err)
	}
	w.overlay = flags(t, "stateDir", filepath.Join(file, "below"))
	w.load(`{}`)
}

// flags are settings by path and text as the command line sets them.
func flags(t *testing.T, pairs ...string) *Overlay {
	t.Helper()
	o := NewOverlay()
	for pair := range slices.Chunk(pairs, 2) {
		path, text := pair[0], pair[1]
		if err := o.set(path, text, "--"+keyIndex[path].Flag); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// What flags or variables clash about stops the start; what files do is reported.
func TestClashesOfFlagsStopTheStart(t *testing.T) {
	set := func(pairs ...string) *Overlay { return flags(t, pairs...) }
	for _, tt := range []struct {
		overlay *Overlay
		env     string
		want    string // in the error; "": it starts
	}{
		{set("exposeOnly", "true"), "", "Correct --expose-only"},
		{nil, "METAMCP_EXPOSE_ONLY=1", "Correct METAMCP_EXPOSE_ONLY"},
		{set("exposeOnly", "true", "expose", "tools"), "", ""},
		{set("exposeOnly", "true"), "METAMCP_EXPOSE=tools", ""},
		{set("pool.minPoolSize", "21"), "", "Correct --min-pool-size"},
		{set("pool.poolSize", "5"), "METAMCP_POOL_MIN_POOL_SIZE=9", "Correct --pool-size"},
		{nil, "METAMCP_EXPOSE=foo", "METAMCP_EXPOSE"},
	} {
		w := newWorld(t, tt.env)
		w.overlay = tt.overlay
		_, err := Load(w.sources(w.file("a.json", `{"mcpServers": {}}`)))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%q: %v", tt.env, err)
		case tt.want != "":
			var e *messages.Error
			if !errors.As(err, &e) || e.Code != messages.CodeConfiguration || !strings.Contains(e.Message+e.Hint, tt.want) {
				t.Errorf("%q: %v, want %q", tt.env, err, tt.want)
			}
		}
	}
}

// What settings clash about, and a rule for a server that there is not, is reported where
// it stands, in the file that counts.
func TestClashesHaveAPlace(t *testing.T) {
	w := newWorld(t)
	a := w.file("a.json", `{"mcpServers": {}, "metamcp": {"toolRules": [{"pattern": "x"}], "exposeOnly": true, "pool": {"poolSize": 2}}}`)
	b := w.file("b.json", "{\"mcpServers\": {}, \"metamcp\": {\n  \"pool\": {\"minPoolSize\": 3},\n  \"toolRules\": [{\"pattern\": \"y\"},\n    {\"pattern\": \"z\", \"server\": \"none\"}]}}")
	cfg, err := Load(w.sources(a, b))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, texts(cfg.Problems), b+":2:27: pool.minPoolSize (3) is more than pool.poolSize (2)")
	contains(t, texts(cfg.Problems), a+":1:79: exposeOnly needs expose with tools")
	contains(t, texts(cfg.Warnings), b+":4:5: metamcp.toolRules: rule 2 is for the server")
	if at := cfg.RuleAt(0); at != b+":3:17" {
		t.Errorf("the first rule is at %s", at)
	}
	w.overlay = NewOverlay()
	if err := w.overlay.set("toolRules", `[{"pattern": "y", "server": "none"}]`, "--tool-rules"); err != nil {
		t.Fatal(err)
	}
	cfg, err = Load(w.sources(a, b))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, texts(cfg.Warnings), "metamcp.toolRules: rule 1 is for the server")
	if at := cfg.RuleAt(0); at != "--tool-rules" || slices.ContainsFunc(cfg.Warnings, func(p Problem) bool { return p.Line != 0 && strings.Contains(p.Message, "for the server") }) {
		t.Errorf("a rule of a flag is at %s: %v", at, cfg.Warnings)
	}
}

// Settings beside "metamcp" do nothing, and that is said, unless they may well be
// another program's.
func TestMisplacedSettings(t *testing.T) {
	for text, want := range map[string]bool{
		`"http": {"address": "127.0.0.1:8090"}`: true, `"pool": {"poolSize": 9, "x": 1}`: true, `"drainTimeoutMs": 9`: true,
		`"http": {"proxy": "x"}`: false, `"attach": "never"`: false, `"search": 5`: false, `"projects": {}`: false,
	} {
		cfg := newWorld(t).load(`{"mcpServers": {}, ` + text + `}`)
		said := slices.ContainsFunc(cfg.Warnings, func(p Problem) bool {
			return strings.Contains(p.Message, "is ignored here") && strings.Contains(p.Hint, `"metamcp": {`)
		})
		if said != want {
			t.Errorf("%s: %v", text, cfg.Warnings)
		}
	}
}
