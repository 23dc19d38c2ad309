package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

func TestBrokenEntries(t *testing.T) {
	tests := []struct{ name, entry, message, hint string }{
		{"no object", `17`, "the entry: expected an object, found a number", ""},
		{"nothing", `{}`, "neither a command nor a url", `"command"`},
		{"both", `{"command": "x", "url": "https://x.example"}`, "both a command and a url", ""},
		{"number as command", `{"command": 1}`, "command: expected a string, found a number", "quotes"},
		{"blank command", `{"command": " "}`, "command is empty", ""},
		{"args string", `{"command": "x", "args": "-y"}`, "args: expected an array of strings, found a string", ""},
		{"args element", `{"command": "x", "args": ["a", {}]}`, "args[1]: expected a string, found an object", ""},
		{"env number", `{"command": "x", "env": {"PORT": 8080}}`, "env.PORT: expected a string, found a number", "quotes"},
		{"env name", `{"command": "x", "env": {"A=B": ""}}`, "no name for a variable", ""},
		{"env array", `{"command": "x", "env": []}`, "env: expected an object of strings, found an array", ""},
		{"nul", `{"command": "x\u0000y"}`, "NUL", ""},
		{"cwd", `{"command": "x", "cwd": []}`, "cwd: expected a string, found an array", ""},
		{"url kind", `{"url": "ftp://s3cret@x"}`, "url: expected an absolute http or https URL", ""},
		{"url host", `{"url": "/mcp"}`, "url: expected an absolute http or https URL", ""},
		{"type", `{"url": "https://x.example", "type": "htp"}`, `type: expected stdio, http, streamable-http or sse, found "htp"`, "Did you mean http?"},
		{"type of command", `{"command": "x", "type": "sse"}`, "its type is sse, but it has a command", ""},
		{"type of url", `{"url": "https://x.example", "transportType": "stdio"}`, "its type is stdio, but it has a url", ""},
		{"two types", `{"url": "https://x.example", "type": "sse", "transportType": "http"}`, "contradict", ""},
		{"header name", `{"url": "https://x.example", "headers": {"a b": "c"}}`, "no name for a header", ""},
		{"no tls", `{"url": "https://x.example", "tls": "x"}`, "tls", ""},
		{"relative ca", `{"url": "https://x.example", "tls": {"ca": "ca.pem"}}`, "tls.ca: expected the full path", ""},
		{"cert without key", `{"url": "https://x.example", "tls": {"cert": "/c.pem"}}`, "without the other", ""},
		{"header value", `{"url": "https://x.example", "headers": {"a": "s3cret\n"}}`, "line break", ""},
		{"oauth", `{"url": "https://x.example", "oauth": "x"}`, "oauth: expected an object, found a string", ""},
		{"oauth variable", `{"url": "https://x.example", "oauth": {"clientId": "${NONE}"}}`, "oauth.clientId: the environment variable NONE is not set", ""},
		{"oauth secret", `{"url": "https://x.example", "oauth": {"clientSecret": "s3cret"}}`, "oauth: it has a secret, but no clientId", ""},
		{"oauth secrets", `{"url": "https://x.example", "oauth": {"clientId": "a", "clientSecret": "s3cret", "privateKey": "s3cret"}}`, "both a clientSecret and a privateKey", ""},
		{"oauth grant", `{"url": "https://x.example", "oauth": {"grant": "client_credential"}}`, "oauth.grant: expected", "Did you mean client_credentials?"},
		{"oauth client", `{"url": "https://x.example", "oauth": {"grant": "client_credentials", "clientId": "a"}}`, "needs the credentials of a client", ""},
		{"oauth port", `{"url": "https://x.example", "oauth": {"redirectPort": 0}}`, "oauth.redirectPort: 0 is not in the range from 1 to 65535", ""},
		{"oauth scope", `{"url": "https://x.example", "oauth": {"scopes": ["a b"]}}`, `"a b" is no scope`, "each scope"},
		{"oauth document", `{"url": "https://x.example", "oauth": {"clientMetadataUrl": "http://x.example/a"}}`, "cannot be the id of a client", "https"},
		{"oauth issuer", `{"url": "https://x.example", "oauth": {"issuer": "x.example"}}`, "oauth.issuer: expected an absolute http or https URL", ""},
		{"disabled", `{"command": "x", "disabled": "yes"}`, "disabled: expected a boolean, found a string", ""},
		{"timeout zero", `{"command": "x", "timeoutMs": 0}`, "timeoutMs: 0 is not in the range from 1 to", ""},
		{"timeout text", `{"command": "x", "timeoutMs": "1m"}`, "timeoutMs: expected a whole number, found a string", ""},
		{"timeout fraction", `{"command": "x", "timeoutMs": 1.5}`, "timeoutMs: expected a whole number, found 1.5", ""},
		{"timeout huge", `{"command": "x", "timeoutMs": 1e300}`, "expected a whole number", ""},
		{"grace", `{"command": "x", "stopGraceMs": -1}`, "stopGraceMs: -1 is not in the range", ""},
		{"instances", `{"command": "x", "maxInstances": 1001}`, "maxInstances: 1001 is not in the range from 1 to 1000", ""},
		{"lifecycle", `{"command": "x", "lifecycle": "keepalive"}`, `lifecycle: expected keep-alive or ephemeral, found "keepalive"`, "Did you mean keep-alive?"},
		{"lifecycle kind", `{"command": "x", "lifecycle": 1}`, "lifecycle: expected", ""},
		{"lifecycle mode", `{"command": "x", "lifecycle": {"idleTimeoutMs": 1}}`, "mode is missing", ""},
		{"lifecycle idle", `{"command": "x", "lifecycle": {"mode": "keep-alive", "idleTimeoutMs": -1}}`, "lifecycle.idleTimeoutMs: -1", ""},
		{"retry", `{"command": "x", "retry": "save"}`, `retry: expected safe, always or never, found "save"`, "Did you mean safe?"},
		{"scope", `{"command": "x", "scope": "sesion"}`, `scope: expected shared or session, found "sesion"`, "Did you mean session?"},
		{"scope kind", `{"command": "x", "scope": true}`, "scope: expected a string", ""},
		{"in flight", `{"command": "x", "maxInFlight": 0}`, "maxInFlight: 0 is not in the range from 1 to 65536", ""},
		{"health", `{"command": "x", "healthIntervalMs": -1}`, "healthIntervalMs: -1 is not in the range", ""},
		{"limits", `{"command": "x", "limits": 5}`, "limits: expected an object", ""},
		{"limits name", `{"command": "x", "limits": {"memoryMb": 5}}`, "limits.memoryMb is not known", "Did you mean memoryMB?"},
		{"limits range", `{"command": "x", "limits": {"memoryMB": 0}}`, "limits.memoryMB: 0 is not in the range", ""},
		{"limits processes", `{"command": "x", "limits": {"processes": 4194305}}`, "limits.processes: 4194305 is not in the range", ""},
		{"limits time", `{"command": "x", "limits": {"cpuSeconds": "1"}}`, "limits.cpuSeconds: expected a whole number", ""},
		{"inheritEnv", `{"command": "x", "inheritEnv": "PATH"}`, "inheritEnv: expected a boolean or an array of names", ""},
		{"ask", `{"command": "x", "ask": ["fom"]}`, `ask: expected form, url and sampling, found "fom"`, "Did you mean form?"},
		{"ask kind", `{"command": "x", "ask": "form"}`, "ask: expected a boolean or an array of form, url and sampling", ""},
		{"roots", `{"command": "x", "roots": "yes"}`, "roots: expected a boolean", ""},
		{"inheritEnv pattern", `{"command": "x", "inheritEnv": ["["]}`, `"[" is not a pattern`, ""},
		{"description", `{"command": "x", "description": 1}`, "description: expected a string", ""},
		{"tags", `{"command": "x", "tags": ["a", 1]}`, "tags[1]: expected a string", ""},
		{"variable", `{"command": "x", "args": ["a", "--k=${NONE}"]}`, "args[1]: the environment variable NONE is not set", "${NONE:-default}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := newWorld(t).load("{\"mcpServers\": {\n\"good\": {\"command\": \"x\"},\n\"bad\": " + tt.entry + "}}")
			if s := cfg.Server("good"); s.Err != nil {
				t.Fatalf("the good one is broken: %v", s.Err)
			}
			s := cfg.Server("bad")
			if s.Err == nil || s.Err.Code != messages.CodeConfiguration || s.Err.Server != "bad" || s.Err.Hint == "" || s.Hash == "" {
				t.Fatalf("bad is %+v", s)
			}
			contains(t, s.Err.Message, "test.json:3:", tt.message)
			contains(t, s.Err.Hint, tt.hint)
			if len(cfg.Problems) != 1+len(s.Err.Details) || cfg.Problems[0].Server != "bad" || cfg.Problems[0].Line != 3 {
				t.Errorf("problems are %s", texts(cfg.Problems))
			}
			if strings.Contains(texts(cfg.Problems)+s.Err.Message, "s3cret") {
				t.Error("a value is repeated")
			}
		})
	}
}

func TestEntryMembers(t *testing.T) {
	tests := []struct {
		name, entry string
		check       func(s *messages.ServerSpec) bool
	}{
		{"timeouts", `"timeoutMs": 5, "maxTimeoutMs": 7, "startupTimeoutMs": 9, "stopGraceMs": 11`, func(s *messages.ServerSpec) bool {
			return s.Timeout == 5*time.Millisecond && s.MaxTimeout == 7*time.Millisecond && s.StartupTimeout == 9*time.Millisecond && s.StopGrace == 11*time.Millisecond
		}},
		{"claude's timeout", `"timeout": 5000`, func(s *messages.ServerSpec) bool { return s.Timeout == 5*time.Second }},
		{"both timeouts", `"timeoutMs": 7, "timeout": 5000`, func(s *messages.ServerSpec) bool { return s.Timeout == 7*time.Millisecond }},
		{"long timeout", `"timeoutMs": 3600000`, func(s *messages.ServerSpec) bool { return s.MaxTimeout == time.Hour }},
		{"exponent", `"timeoutMs": 6e3`, func(s *messages.ServerSpec) bool { return s.Timeout == 6*time.Second }},
		{"keep-alive", `"lifecycle": "keep-alive"`, func(s *messages.ServerSpec) bool {
			return s.Lifecycle == messages.LifecycleKeepAlive && s.IdleTimeout == 0
		}},
		{"lifecycle object", `"lifecycle": {"mode": "keep-alive", "idleTimeoutMs": 9}`, func(s *messages.ServerSpec) bool {
			return s.Lifecycle == messages.LifecycleKeepAlive && s.IdleTimeout == 9*time.Millisecond
		}},
		{"ephemeral", `"lifecycle": {"mode": "ephemeral"}`, func(s *messages.ServerSpec) bool { return s.Lifecycle == messages.LifecycleEphemeral }},
		{"retry", `"retry": "always"`, func(s *messages.ServerSpec) bool { return s.Retry == messages.RetryAlways }},
		{"instances", `"maxInstances": 4`, func(s *messages.ServerSpec) bool { return s.MaxInstances == 4 }},
		{"words", `"description": "d", "tags": ["a", "b"]`, func(s *messages.ServerSpec) bool { return s.Description == "d" && len(s.Tags) == 2 }},
		{"nulls", `"env": null, "args": null, "timeoutMs": null, "url": null`, func(s *messages.ServerSpec) bool { return s.Timeout == defaultTimeout }},
		{"stdio twice", `"type": "stdio", "transportType": "stdio"`, func(s *messages.ServerSpec) bool { return s.Transport == messages.TransportStdio }},
		{"asks", `"args": []`, func(s *messages.ServerSpec) bool { return s.Asks == defaultAsks() && !s.Asks.Roots }},
		{"asks nothing", `"ask": false`, func(s *messages.ServerSpec) bool { return s.Asks == messages.ClientCan{} }},
		{"asks for roots alone", `"ask": [], "roots": true`, func(s *messages.ServerSpec) bool { return s.Asks == messages.ClientCan{Roots: true} }},
		{"asks by form", `"ask": ["form"]`, func(s *messages.ServerSpec) bool { return s.Asks == messages.ClientCan{Form: true} }},
		{"escapes", `"args": ["\u00e9\"\\", "$HOME", "$${X}"]`, func(s *messages.ServerSpec) bool {
			return s.Args[0] == `é"\` && s.Args[1] == "$HOME" && s.Args[2] == "${X}"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := newWorld(t).load(`{"mcpServers": {"a": {"command": "x", ` + tt.entry + `}}}`)
			clean(t, cfg)
			if s := cfg.Server("a"); !tt.check(s) {
				t.Errorf("got %+v", s)
			}
		})
	}
	for kind, want := range map[string]messages.Transport{"http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"} {
		cfg := newWorld(t).load(fmt.Sprintf(`{"mcpServers": {"a": {"url": "https://x.example", "transportType": %q}}}`, kind))
		clean(t, cfg)
		if got := cfg.Server("a").Transport; got != want {
			t.Errorf("%s is %s", kind, got)
		}
	}
}

func TestEntryWarnings(t *testing.T) {
	tests := []struct{ entry, want string }{
		{`"comand": "y"`, "did you mean command?"},
		{`"Args": []`, "did you mean args?"},
		{`"timeoutms": 1`, "did you mean timeoutMs?"},
		{`"serverUrl": "x"`, "metamcp calls it url"},
		{`"qqqqqqqqqqqq": 1`, "is not known and ignored"},
		{`"timeoutMs": 10, "maxTimeoutMs": 5`, "maxTimeoutMs is less than timeoutMs"},
		{`"lifecycle": {"mode": "ephemeral", "idleTimeout": 5}`, "did you mean idleTimeoutMs?"},
	}
	for _, tt := range tests {
		cfg := newWorld(t).load(`{"mcpServers": {"a": {"command": "x", ` + tt.entry + `}}}`)
		if len(cfg.Problems) > 0 || len(cfg.Warnings) != 1 || cfg.Warnings[0].Server != "a" || cfg.Server("a").Err != nil {
			t.Errorf("%s: %s%s", tt.entry, texts(cfg.Problems), texts(cfg.Warnings))
		}
		contains(t, texts(cfg.Warnings), tt.want)
	}
}

// TestTheLastMemberCounts: nothing is left of one of the same name before it.
func TestTheLastMemberCounts(t *testing.T) {
	w := newWorld(t, "OTHER=1")
	read := func(entry string) *messages.ServerSpec {
		cfg := w.load(`{"mcpServers": {"a": {` + entry + `}}}`)
		s := *cfg.Server("a")
		s.Source = ""
		if s.Err != nil {
			t.Errorf("%s: %v", entry, s.Err)
		}
		if twice := strings.Count(texts(cfg.Warnings), "written twice"); twice != strings.Count(entry, "/**/") {
			t.Errorf("%s: warnings %s", entry, texts(cfg.Warnings))
		}
		return &s
	}
	for _, tt := range []struct{ member, first, last string }{
		{"inheritEnv", "true", "false"},
		{"inheritEnv", `["OTHER"]`, "false"},
		{"inheritEnv", "true", "[]"},
		{"ask", "true", `["form"]`},
		{"ask", `["url"]`, "false"},
		{"limits", `{"memoryMB": 5, "processes": 7}`, `{"processes": 8}`},
		{"lifecycle", `{"mode": "keep-alive", "idleTimeoutMs": 9}`, `"ephemeral"`},
		{"scope", `"session"`, `"shared"`},
		{"timeoutMs", `"broken"`, "7"},
		{"transportType", `"sse"`, `"stdio"`},
	} {
		const command = `"command": "x", `
		want := read(command + `"` + tt.member + `": ` + tt.last)
		got := read(command + `"` + tt.member + `": ` + tt.first + `, "` + tt.member + `": ` + tt.last + "/**/")
		if !sameSpec(got, want) || got.Hash != want.Hash {
			t.Errorf("%s: %s and then %s is %+v, want %+v", tt.member, tt.first, tt.last, got, want)
		}
	}
}

// TestHeadersThatAreOne: HTTP tells no capitals apart, so one of two has to count, and
// always the same.
func TestHeadersThatAreOne(t *testing.T) {
	cfg := newWorld(t).load("{\"mcpServers\": {\"a\": {\"url\": \"https://x.example\", \"headers\": {\"authorization\": \"1\", \"X\": \"2\",\n\"AUTHORIZATION\": \"3\",\n\"Authorization\": \"4\"}}}}")
	if h := cfg.Server("a").Headers; len(h) != 2 || h["Authorization"] != "4" || h["X"] != "2" {
		t.Errorf("headers %v", h)
	}
	if len(cfg.Problems) != 0 || len(cfg.Warnings) != 2 || cfg.Warnings[0].Line != 2 || cfg.Warnings[1].Line != 3 || cfg.Warnings[0].Server != "a" {
		t.Errorf("problems %v, warnings %v", cfg.Problems, cfg.Warnings)
	}
	contains(t, texts(cfg.Warnings), "authorization and AUTHORIZATION are one header", "AUTHORIZATION and Authorization are one header", "the last one counts")
}

func TestDisabledEntryOnlyWarns(t *testing.T) {
	cfg := newWorld(t).load(`{"mcpServers": {"a": {"command": "${NONE}", "disabled": true}}}`)
	if len(cfg.Problems) != 0 || len(cfg.Warnings) != 1 || cfg.Server("a").Err == nil {
		t.Errorf("problems %s, warnings %s", texts(cfg.Problems), texts(cfg.Warnings))
	}
}

func TestHash(t *testing.T) {
	w := newWorld(t, "V=1", "TOK=1")
	hash := func(entry string) string { return w.load(`{"mcpServers": {"a": {` + entry + `}}}`).Server("a").Hash }
	base := `"command": "x", "args": ["a", "b"], "env": {"A": "1", "B": "2"}`
	same := []string{
		base, `"env": {"B": "2", "A": "1"}, "args": ["a", "b"], "command": "x"`, base + `, "timeoutMs": 5`, base + `, "description": "d"`,
		base + `, "lifecycle": "ephemeral"`, base + `, "ask": true, "roots": false`, base + `, "maxInstances": 2`, base + `, "disabled": true`, `"command": "x", "args": ["a", "b"], "env": {"A": "${V}", "B": "2"}`,
	}
	for _, e := range same {
		if hash(e) != hash(base) {
			t.Errorf("hash of %s differs", e)
		}
	}
	seen := map[string]string{hash(base): base}
	for _, e := range []string{
		`"command": "y", "args": ["a", "b"], "env": {"A": "1", "B": "2"}`, `"command": "x", "args": ["a b"], "env": {"A": "1", "B": "2"}`,
		`"command": "x", "args": ["ab"]`, `"command": "xa", "args": ["b"]`, `"command": "x", "args": ["a", "b"], "env": {"A": "1", "B": "3"}`,
		base + `, "ask": false`, base + `, "roots": true`, base + `, "cwd": "/"`, base + `, "inheritEnv": true`, base + `, "inheritEnv": ["V"]`, `"url": "https://x.example"`,
		`"url": "https://x.example", "type": "sse"`, `"url": "https://x.example", "tls": {"ca": "/ca.pem"}`, `"url": "https://x.example", "tls": {"ca": "/other.pem"}`, `"url": "https://x.example", "headers": {"a": "b"}`, `"url": "https://x.example", "headers": {"a": "${TOK}"}`,
		`"url": "https://x.example", "oauth": {"a": "b"}`, `"command": 1`, `"command": 2`,
	} {
		if other, twice := seen[hash(e)]; twice {
			t.Errorf("%s and %s have one hash", e, other)
		}
		seen[hash(e)] = e
	}
	// What the host happens to have around it does not count.
	before := hash(base)
	w.env = append(w.env, "LANG=de_DE.UTF-8", "XDG_SESSION_ID=7")
	if hash(base) != before {
		t.Error("the hash depends on the host's environment")
	}
}

func TestIsolationOfAnEntry(t *testing.T) {
	cfg := newWorld(t).load(`{"mcpServers": {
"plain": {"command": "x", "scope": "shared"},
"own": {"command": "x", "scope": "session", "maxInFlight": 4, "healthIntervalMs": 5000, "limits": {"memoryMB": 512, "processes": 64, "cpuSeconds": 60}}}}`)
	plain, own := cfg.Server("plain"), cfg.Server("own")
	if plain.Err != nil || plain.Scope != messages.ScopeShared || plain.Limits != (messages.Limits{}) || plain.MaxInFlight != 0 || plain.HealthEvery != 0 {
		t.Errorf("plain: %+v", plain)
	}
	if own.Err != nil || own.Scope != messages.ScopeSession || own.Limits != (messages.Limits{MemoryMB: 512, Processes: 64, CPUSeconds: 60}) || own.MaxInFlight != 4 || own.HealthEvery != 5*time.Second {
		t.Errorf("own: %+v", own)
	}
	if plain.Hash == own.Hash {
		t.Error("a running child would keep its old limits")
	}
}
