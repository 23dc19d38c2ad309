package config

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestDefaults(t *testing.T) {
	for _, k := range Keys() {
		var s Settings
		if k.Default == "" {
			continue
		}
		if err := k.Set(&s, k.Default); err != nil {
			t.Errorf("%s: %v", k.Path, err)
		}
	}
	want := Settings{
		Pool: PoolSettings{PoolSize: 20, SessionCalls: 4096, MemoryPercent: 90, FlapRestarts: 20, FlapWindow: 10 * time.Minute, ResPoolTimeout: 5 * time.Second, IdleTimeout: 5 * time.Minute, AcquireTimeout: 30 * time.Second,
			MaxWaiters: 1024, FailureThreshold: 5, Cooldown: 30 * time.Second},
		Search:          SearchSettings{Ranking: "hybrid", Embedder: "auto", KeyVariable: "OPENAI_API_KEY", Limit: 20, BudgetTokens: 4000},
		DiscoverTimeout: 10 * time.Second, DrainTimeout: 5 * time.Second,
		Catalog: CatalogSettings{TTL: time.Hour, Cleanup: 5 * time.Minute}, CacheEnabled: true,
		RegistryURL: "https://registry.modelcontextprotocol.io", ExposePrefix: "server", Pins: "warn", Scrub: true, Skills: true, StateDir: "~/.metamcp", AutoProvision: true, Attach: "auto",
		Telemetry: TelemetrySettings{ToolLimit: 200},
		HTTP: HTTPSettings{
			MaxBodyKB: 16384, MaxSessions: 2000, MaxSessionsEach: 1000, MaxRate: 500, MaxConcurrent: 256,
			IdleTimeout: 30 * time.Minute, KeepAlive: 15 * time.Second,
		},
		Execute: ExecuteSettings{Timeout: 2 * time.Minute, MemoryMB: 64, MaxCalls: 1000, CodeKB: 50, OutputMB: 10, MaxConcurrent: 8},
	}
	if got := DefaultSettings(); !reflect.DeepEqual(got, want) {
		t.Errorf("defaults are\n%+v\nwant\n%+v", got, want)
	}
}

func TestKeysAreUnique(t *testing.T) {
	flags, envs, targets := map[string]bool{}, map[string]bool{}, map[any]bool{}
	var s Settings
	for _, k := range Keys() {
		for _, f := range append([]string{k.Flag}, k.Aliases...) {
			if f == "" || flags[f] {
				t.Errorf("flag %q of %s is empty or taken", f, k.Path)
			}
			flags[f] = true
		}
		if !strings.HasPrefix(k.Env, "METAMCP_") || envs[k.Env] || k.Env == FilesVariable {
			t.Errorf("variable %q of %s is wrong or taken", k.Env, k.Path)
		}
		envs[k.Env] = true
		if targets[k.ref(&s)] {
			t.Errorf("%s shares its field", k.Path)
		}
		targets[k.ref(&s)] = true
		if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s has no proper text", k.Path)
		}
	}
	for _, f := range []string{"max-connections", "idle-timeout", "failure-threshold", "cooldown"} {
		if !flags[f] {
			t.Errorf("the seed's --%s is missing", f)
		}
	}
	if got := envName("pool.idleTimeoutMs"); got != "METAMCP_POOL_IDLE_TIMEOUT_MS" {
		t.Errorf("got %s", got)
	}
}

// TestEveryFieldHasAKey finds a field of Settings that nobody can set.
func TestEveryFieldHasAKey(t *testing.T) {
	var s Settings
	known := map[any]bool{}
	for _, k := range Keys() {
		known[k.ref(&s)] = true
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			f, name := v.Field(i), path+"."+v.Type().Field(i).Name
			if f.Kind() == reflect.Struct {
				walk(name, f)
			} else if !known[f.Addr().Interface()] {
				t.Errorf("%s has no key", name)
			}
		}
	}
	walk("Settings", reflect.ValueOf(&s).Elem())
}

func TestSet(t *testing.T) {
	tests := []struct{ path, text, err string }{
		{"pool.poolSize", "1", ""},
		{"pool.poolSize", "0", `"0" is not allowed; expected a whole number from 1 to 100000`},
		{"pool.poolSize", "x", "expected a whole number"},
		{"pool.poolSize", "99999999999999999999", "expected a whole number"},
		{"pool.idleTimeoutMs", "250", ""},
		{"pool.idleTimeoutMs", "5m", ""},
		{"pool.idleTimeoutMs", "0", ""},
		{"pool.idleTimeoutMs", "-5m", "expected milliseconds from 0 to"},
		{"pool.idleTimeoutMs", "10us", "less than a millisecond"},
		{"pool.idleTimeoutMs", "soon", "expected milliseconds"},
		{"scrub", "off", ""},
		{"scrub", "maybe", "expected true or false"},
		{"search.ranking", "classic", ""},
		{"search.ranking", "best", "expected one of hybrid, classic"},
		{"registry.url", "http://127.0.0.1:9/x", ""},
		{"registry.url", "registry", "expected an absolute http or https URL"},
		{"registry.url", "https://", "expected an absolute http or https URL"},
		{"stateDir", "a\x00b", "NUL"},
		{"expose", "tools, prompts", ""},
		{"expose", `["resources"]`, ""},
		{"expose", "tools,tols", `"tols" is not allowed; expected a list of tools, prompts, resources; did you mean tools?`},
		{"expose", `["tools", 1]`, "list[1]: expected a string"},
		{"expose", `["tools"`, "not JSON"},
		{"trust.autoProvisionClients", "a/*, b", ""},
		{"trust.autoProvisionClients", "a[", `"a[" is no pattern`},
		{"http.allowedHosts", "proxy.example.com, [fe80::1]", ""},
		{"http.allowedHosts", "https://proxy.example.com", "without http:// and a path"},
		{"http.allowedOrigins", "https://example.com, vscode-webview://x, null", ""},
		{"http.allowedOrigins", "example.com", "such as https://example.com"},
		{"http.allowedOrigins", "https://example.com/app", "such as https://example.com"},
		{"telemetry.metricsAddr", "9464", ""},
		{"telemetry.metricsAddr", ":0", ""},
		{"telemetry.metricsAddr", "[::1]:9464", ""},
		{"telemetry.metricsAddr", "on", `"on" is no PORT`},
		{"http.allowedHosts", "mcp.example.com,proxy:8443", ""},
		{"http.allowedHosts", "*.example.com", "names are compared whole"},
		{"http.allowedHosts", ":8090", "no name of a host"},
		{"http.allowedOrigins", "https://example.com", ""},
		{"http.allowedOrigins", "https://*.example.com", "origins are compared whole"},
		{"http.allowedOrigins", "https://example.com/app", "is no origin"},
		{"telemetry.metricsAddr", "127.0.0.1:http", "no PORT"},
		{"traceFilter", "server=a, errors, request=#3", ""},
		{"traceFilter", "sever=a", "use server=NAME"},
		{"traceFilter", "request=x", "a request is a number"},
		{"toolRules", `[{"pattern": ["*"], "enabled": false}]`, ""},
		{"toolRules", `[{"pattern": []}]`, "pattern is missing or empty"},
		{"toolRules", `[{"pattern": [""]}]`, "a pattern is empty"},
		{"toolRules", `nope`, "not JSON: column 1"},
		{"trace", "true", ""},
		{"pool.maxWaiters", "0", "from 1 to"}, // even who gets a place at once is a waiter before
	}
	for _, tt := range tests {
		before := DefaultSettings()
		s := DefaultSettings()
		err := keyIndex[tt.path].Set(&s, tt.text)
		switch {
		case tt.err == "" && err != nil:
			t.Errorf("%s=%s: %v", tt.path, tt.text, err)
		case tt.err != "" && err == nil:
			t.Errorf("%s=%s was accepted", tt.path, tt.text)
		case err != nil:
			contains(t, err.Error(), tt.err)
			if !reflect.DeepEqual(s, before) {
				t.Errorf("%s=%s: settings changed in spite of the error", tt.path, tt.text)
			}
		case reflect.DeepEqual(s, before) && tt.text != "5m":
			t.Errorf("%s=%s changed nothing", tt.path, tt.text)
		}
	}
}

func TestPrecedence(t *testing.T) {
	w := newWorld(t, "METAMCP_POOL_POOL_SIZE=3", "METAMCP_POOL_MAX_WAITERS=4", "METAMCP_POOL_COOLDOWN_MS=", "METAMCP_TRACE=on", "METAMCP_EXPOSE=tools,prompts,tools")
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	w.overlay = RegisterFlags(fs)
	if err := fs.Parse([]string{"--max-connections", "2", "--idle-timeout=5m", "--scrub=false", "--cache"}); err != nil {
		t.Fatal(err)
	}
	s := w.load(`{"mcpServers": {}, "metamcp": {"pool": {"poolSize": 9, "maxWaiters": 9, "cooldownMs": 9, "idleTimeoutMs": 9}, "cache": {"enabled": false}}}`).Settings
	if s.Pool.PoolSize != 2 || s.Pool.MaxWaiters != 4 || s.Pool.Cooldown != 9*time.Millisecond || s.Pool.IdleTimeout != 5*time.Minute ||
		s.Scrub || !s.CacheEnabled || s.Trace != "stderr" || len(s.Expose) != 2 {
		t.Errorf("settings are %+v", s)
	}
}

func TestFlags(t *testing.T) {
	tests := []struct {
		args []string
		path string
		want any
		err  string
	}{
		{[]string{"--max-connections=7"}, "pool.poolSize", 7, ""},
		{[]string{"--max-connections=7", "--pool-size=8"}, "pool.poolSize", 8, ""},
		{[]string{"--pool-size=8", "--max-connections=7"}, "pool.poolSize", 7, ""},
		{[]string{"--idle-timeout", "1500"}, "pool.idleTimeoutMs", 1500 * time.Millisecond, ""},
		{[]string{"--failure-threshold=2"}, "pool.failureThreshold", 2, ""},
		{[]string{"--cooldown=2s"}, "pool.cooldownMs", 2 * time.Second, ""},
		{[]string{"--trace"}, "trace", "stderr", ""},
		{[]string{"--trace=/x.jsonl"}, "trace", "/x.jsonl", ""},
		{[]string{"--max-connections=0"}, "", nil, "--max-connections"},
		{[]string{"--cooldown=x"}, "", nil, "--cooldown"},
	}
	for _, tt := range tests {
		fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
		o := RegisterFlags(fs)
		err := fs.Parse(tt.args)
		if tt.err != "" {
			if err == nil {
				t.Errorf("%v was accepted", tt.args)
				continue
			}
			contains(t, err.Error(), tt.err, "expected")
			continue
		}
		s := DefaultSettings()
		if err == nil {
			err = o.apply(&s)
		}
		if err != nil {
			t.Errorf("%v: %v", tt.args, err)
			continue
		}
		if got := reflect.ValueOf(keyIndex[tt.path].ref(&s)).Elem().Interface(); got != tt.want {
			t.Errorf("%v: got %v", tt.args, got)
		}
	}
	fs := pflag.NewFlagSet("t", pflag.ContinueOnError)
	RegisterFlags(fs)
	usage := fs.FlagUsages()
	for _, k := range Keys() {
		contains(t, usage, "--"+k.Flag, k.Env)
	}
	contains(t, usage, "Same as --pool-size", strconv.Quote("hybrid")[1:7])
}

// TestGiven: who reads them elsewhere knows one spelling of a boolean.
func TestGiven(t *testing.T) {
	w := newWorld(t, "METAMCP_TRUST_AUTO_PROVISION=No", "METAMCP_SCRUB=ON", "METAMCP_POOL_POOL_SIZE=1", "METAMCP_TRACE=no")
	w.overlay = NewOverlay()
	must(t, w.overlay.Set("scrub", "0"))
	must(t, w.overlay.Set("search.embedderModel", "yes"))
	want := map[string]string{"trust.autoProvision": "false", "scrub": "false", "pool.poolSize": "1", "trace": "no", "search.embedderModel": "yes"}
	if got := Given(w.sources()); !maps.Equal(got, want) {
		t.Errorf("given are %v", got)
	}
}

// Nobody is warned of variables by which the program itself tells its processes
// something: those that its sources name and that are no settings.
func TestOwnVariablesAreNoSlips(t *testing.T) {
	named := regexp.MustCompile(`"(METAMCP_[A-Z_]+)"`)
	known := map[string]bool{FilesVariable: true}
	for _, k := range Keys() {
		known[k.Env] = true
	}
	var own []string
	sources := os.DirFS(filepath.Join("..", ".."))
	must(t, fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || path != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(sources, path)
		for _, found := range named.FindAllSubmatch(text, -1) {
			if name := string(found[1]); !known[name] && !strings.HasPrefix(name, "METAMCP_TEST_") {
				own = append(own, name)
			}
		}
		return err
	}))
	slices.Sort(own)
	own = slices.Compact(own)
	if want := slices.Sorted(slices.Values(ownVariables)); !slices.Equal(own, want) {
		t.Errorf("the sources name %q, known are %q", own, want)
	}
	for _, name := range own {
		if cfg := newWorld(t, name+"=x").load(`{"servers": {}}`); len(cfg.Warnings) > 0 {
			t.Errorf("%s: %s", name, texts(cfg.Warnings))
		}
	}
}

func TestBadVariableAndOverlay(t *testing.T) {
	w := newWorld(t, "METAMCP_POOL_POOL_SIZE=many")
	contains(t, failing(t, w.sources()).Message, "METAMCP_POOL_POOL_SIZE", `"many"`, "from 1 to 100000")
	w = newWorld(t, "METAMCP_POOL_SIZES=1", "METAMCP_POOL_POOL_SIZ=1", "METAMCP_SOMETHING_ELSE=1")
	cfg := w.load(`{"servers": {}}`)
	if len(cfg.Warnings) != 1 {
		t.Errorf("warnings are %s", texts(cfg.Warnings))
	}
	contains(t, texts(cfg.Warnings), "METAMCP_POOL_POOL_SIZ ", "did you mean METAMCP_POOL_POOL_SIZE?")
	for name, meant := range map[string]string{
		"METAMCP_CONFG": "METAMCP_CONFIG", "METAMCP_POOL_SIZE": "METAMCP_POOL_POOL_SIZE", "METAMCP_MAX_CONNECTIONS": "METAMCP_POOL_POOL_SIZE", "METAMCP_POOL_IDLE_TIMEOUT": "METAMCP_POOL_IDLE_TIMEOUT_MS",
	} {
		contains(t, texts(newWorld(t, name+"=7").load(`{"servers": {}}`).Warnings), name+" is not known", "did you mean "+meant+"?")
	}

	o := NewOverlay()
	if err := o.Set("pool.poolSiz", "1"); err == nil {
		t.Error("an unknown key was accepted")
	} else {
		contains(t, err.Error(), "did you mean pool.poolSize?")
	}
	if err := o.Set("pool.poolSize", "0"); err == nil {
		t.Error("0 was accepted")
	}
}
