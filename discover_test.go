package metamcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

func TestDiscoverShapes(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"one": nil, "two": {"--tools", "30"}, "dead": {"--exit-at-start", "3"}}, nil)

	a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Servers) != 3 || a.Servers[0].Tools != nil {
		t.Errorf("without arguments: %+v; want three servers whose tools are not known", a.Servers)
	}

	a, err = e.Discover(t.Context(), metamcp.DiscoverRequest{Query: "add two numbers"})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Matches) == 0 || a.Matches[0].Tool != "add" {
		t.Fatalf("query: %+v; want add first", a.Matches)
	}
	if len(a.Matches[0].Schema) == 0 || !a.Matches[0].Connected {
		t.Errorf("the best match has schema %s, connected %v", a.Matches[0].Schema, a.Matches[0].Connected)
	}
	if len(a.Failed) != 1 || a.Failed[0].Server != "dead" || a.Failed[0].Class != string(messages.ClassStdioExit) {
		t.Errorf("failed: %+v; want the dead server with its class", a.Failed)
	}

	a, err = e.Discover(t.Context(), metamcp.DiscoverRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range a.Servers {
		if s.Name == "dead" && (s.State != "FAILED" || s.Error == "" || s.Class != string(messages.ClassStdioExit)) || s.Name != "dead" && (s.Tools == nil || *s.Tools == 0) {
			t.Errorf("after a query: %+v", s)
		}
	}

	// A list that is cut keeps what is wrong, though others are connected.
	switch cut, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Limit: 1}); {
	case err != nil:
		t.Fatal(err)
	case len(cut.Servers) != 1 || cut.Servers[0].Name != "dead" || cut.Omitted != 2:
		t.Errorf("a list of one is %+v, with %d left out; want the dead server", cut.Servers, cut.Omitted)
	}

	// It is put off for longer with each failure, until its circuit opens.
	retry := int64(0)
	for try := 0; retry == 0 && try < 20; try++ {
		if _, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "dead"}); err == nil {
			t.Fatal("a dead server lists its tools")
		}
		if a, err = e.Discover(t.Context(), metamcp.DiscoverRequest{}); err != nil {
			t.Fatal(err)
		}
		for _, s := range a.Servers {
			if s.Name == "dead" {
				retry = s.RetryInMs
			}
		}
	}
	if retry <= 0 || retry > 60_000 {
		t.Errorf("the dead server is tried again in %d ms; want it within the cooldown", retry)
	}

	a, err = e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "two", Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Tools) != 5 || a.Omitted < 25 || len(a.Notes) == 0 {
		t.Errorf("five of two's tools: %d, omitted %d, notes %q", len(a.Tools), a.Omitted, a.Notes)
	}

	a, err = e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "one", Tool: "add"})
	if err != nil {
		t.Fatal(err)
	}
	var def struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal(a.Tool.Definition, &def); err != nil || def.Name != "add" || len(def.Schema) == 0 {
		t.Errorf("one tool whole: %s (%v)", a.Tool.Definition, err)
	}
}

func TestDiscoverKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	const budget = 500
	e := open(t, map[string][]string{"big": {"--tools", "500"}}, map[string]any{"search": map[string]any{"budgetTokens": budget}})
	for _, ask := range []metamcp.DiscoverRequest{
		{Server: "big"},
		{Server: "big", Detail: "full"},
		{Query: "tool", Limit: 100, Detail: "full"},
	} {
		a, err := e.Discover(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		// The frame around the items, with its notes, is not counted.
		if most := 4*budget + 600; len(raw) > most {
			t.Errorf("%+v: %d bytes for %d tokens; want at most %d", ask, len(raw), budget, most)
		}
		if a.Omitted == 0 || len(a.Notes) == 0 {
			t.Errorf("%+v: what was left out is not said: %s", ask, raw)
		}
	}
}

// What is said of servers that take no calls is paid for like all else: of those that
// were searched and those that never told of their tools.
func TestServersThatTakeNoCallsKeepToTheBudget(t *testing.T) {
	t.Parallel()
	const budget, many = 500, 30
	settings := map[string]any{
		"pool": map[string]any{"failureThreshold": 1, "cooldownMs": 3_600_000}, "search": map[string]any{"budgetTokens": budget},
	}
	ask := func(e *metamcp.Engine, query string) (a *metamcp.DiscoverAnswer, said []string) {
		t.Helper()
		a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Query: query})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if n := index.EstimateTokens(raw); n > budget {
			t.Errorf("%q: the answer costs %d tokens of %d: %s", query, n, budget, raw)
		}
		for _, note := range a.Notes {
			if rest, told := strings.CutPrefix(note, "Do not call "); told {
				name, _, _ := strings.Cut(rest, " ")
				said = append(said, name)
			}
		}
		return a, said
	}
	away := func(e *metamcp.Engine) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			for _, s := range e.ListServers() {
				if s.RetryAt.Before(time.Now()) {
					return fmt.Errorf("%s takes calls", s.Name)
				}
			}
			return nil
		})
	}
	more := func(a *metamcp.DiscoverAnswer) bool {
		return slices.ContainsFunc(a.Notes, func(note string) bool { return strings.Contains(note, "more servers take no calls for now") })
	}

	crashing, dead := map[string][]string{}, map[string][]string{}
	for i := range many {
		crashing[fmt.Sprintf("crashes-%02d", i)] = nil
		dead[fmt.Sprintf("dead-%02d", i)] = []string{"--exit-at-start=3", "--exit-text", strings.Repeat("the reason why it cannot start, ", 10)}
	}
	e := open(t, crashing, settings)
	for name := range crashing {
		if _, err := e.Execute(t.Context(), name, "crash", nil, metamcp.ExecuteOptions{}); err == nil {
			t.Fatal("a server that crashes has answered")
		}
	}
	away(e)
	a, said := ask(e, "zzqx")
	if len(a.Matches) != 0 || len(said) == 0 || !more(a) {
		t.Errorf("a query that fits nothing: %+v", a)
	}
	a, said = ask(e, "echo")
	if len(a.Matches) == 0 || a.Omitted == 0 {
		t.Errorf("a query that fits a tool of each: %+v", a)
	}
	for _, m := range a.Matches {
		if !slices.Contains(said, m.Server) {
			t.Errorf("a match is of %s, and the notes are %q", m.Server, a.Notes)
		}
	}

	e = open(t, dead, settings)
	ask(e, "zzqx") // contacts them
	away(e)
	a, said = ask(e, "zzqx")
	if len(a.Failed) == 0 || a.Failed[0].RetryInMs <= 0 || len(said) != 0 || more(a) {
		t.Errorf("servers that never told of their tools: %+v", a)
	}
}

// Code can be written from what full details say: every tool comes as it is
// called in TypeScript, in every shape of the answer that shows schemas, and in
// no other.
func TestDiscoverShowsSignatures(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"one": nil}, nil)
	const want = "/** Adds two numbers. */\nservers.one.add(args: { a: number; b: number }): Promise<{ sum: number }>"
	for _, c := range []struct {
		ask  metamcp.DiscoverRequest
		want string
	}{
		{metamcp.DiscoverRequest{Server: "one", Tool: "add"}, want},
		{metamcp.DiscoverRequest{Server: "one", Detail: "full"}, want},
		{metamcp.DiscoverRequest{Query: "add two numbers", Detail: "full", Limit: 1}, want},
		{metamcp.DiscoverRequest{Server: "one"}, ""},
		{metamcp.DiscoverRequest{Server: "one", Detail: "brief"}, ""},
		{metamcp.DiscoverRequest{Query: "add two numbers", Limit: 1}, ""},
	} {
		a, err := e.Discover(t.Context(), c.ask)
		if err != nil {
			t.Fatal(err)
		}
		got, found := "", false
		switch {
		case a.Tool != nil:
			got, found = a.Tool.Signature, true
		case len(a.Matches) > 0 && a.Matches[0].Tool == "add":
			got, found = a.Matches[0].Signature, true
		}
		for _, l := range a.Tools {
			if l.Name == "add" {
				got, found = l.Signature, true
			}
		}
		if !found || got != c.want {
			t.Errorf("%+v: the signature is %q; want %q", c.ask, got, c.want)
		}
	}
}

func schemasLeftOut(a *metamcp.DiscoverAnswer) bool {
	return slices.ContainsFunc(a.Notes, func(note string) bool { return strings.Contains(note, "Some schemas are left out") })
}

// Where schema and signature do not both fit, the shorter one stays, and the answer
// says that something is missing.
func TestSignaturesKeepToTheBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		budget            int
		schema, signature bool
	}{{400, true, true}, {290, false, true}, {200, false, false}} {
		e := open(t, map[string][]string{"one": nil}, map[string]any{"search": map[string]any{"budgetTokens": c.budget}})
		a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Query: "Sends a request to the client and returns what came back", Detail: "full", Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Matches) != 1 || a.Matches[0].Tool != "ask" || (a.Matches[0].Schema != nil) != c.schema || (a.Matches[0].Signature != "") != c.signature {
			t.Errorf("with %d tokens: %s", c.budget, raw)
		}
		if schemasLeftOut(a) == c.schema {
			t.Errorf("with %d tokens the notes are %q", c.budget, a.Notes)
		}
	}
}

// Tools whose schemas find no room are listed without, where others and what was left
// out of them are told too.
func TestToolsWithoutRoomForTheirSchemasAreListed(t *testing.T) {
	t.Parallel()
	for _, budget := range []int{200, 1_000_000} {
		e := open(t, map[string][]string{"one": nil}, map[string]any{"search": map[string]any{"budgetTokens": budget}})
		a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "one", Detail: "full"})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		bare := slices.ContainsFunc(a.Tools, func(l metamcp.ToolLine) bool { return l.Schema == nil })
		if len(a.Tools) == 0 || bare != (budget < 1000) || schemasLeftOut(a) != bare || (a.Omitted > 0) != bare {
			t.Errorf("with %d tokens: %.3000s", budget, raw)
		}
		if n := index.EstimateTokens(raw); n > budget {
			t.Errorf("the answer costs %d tokens of %d: %s", n, budget, raw)
		}
		if a, err = e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "one"}); err != nil || schemasLeftOut(a) {
			t.Errorf("a list without schemas: %+v, %v", a, err)
		}
	}
}

func TestDiscoverRefusesBadInput(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"one": nil}, nil)
	for _, c := range []struct {
		ask  metamcp.DiscoverRequest
		code messages.Code
		says string
	}{
		{metamcp.DiscoverRequest{Tool: "add"}, messages.CodeValidation, "without server"},
		{metamcp.DiscoverRequest{Limit: 101}, messages.CodeValidation, "101"},
		{metamcp.DiscoverRequest{Detail: "most"}, messages.CodeValidation, "most"},
		{metamcp.DiscoverRequest{Server: "on"}, messages.CodeServerNotFound, `"one"`},
		{metamcp.DiscoverRequest{Server: "on", Query: "x"}, messages.CodeServerNotFound, `"one"`},
		{metamcp.DiscoverRequest{Server: "one", Tool: "ad"}, messages.CodeToolNotFound, `"add"`},
	} {
		_, err := e.Discover(t.Context(), c.ask)
		var failure *metamcp.Error
		if !errors.As(err, &failure) || failure.Code != c.code || !strings.Contains(failure.Message, c.says) {
			t.Errorf("%+v: %v; want %s with %s", c.ask, err, c.code, c.says)
		}
	}
}

func TestExecuteRefusesBadInput(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"one": nil}, nil)
	for _, c := range []struct {
		server, tool, args string
		code               messages.Code
	}{
		{"", "add", `{}`, messages.CodeValidation},
		{"one", "", `{}`, messages.CodeValidation},
		{"one", "add", `{"a":`, messages.CodeValidation},
		{"one", "add", `[1]`, messages.CodeValidation},
		{"one", "add", `{"a":"x","b":1}`, messages.CodeValidation},
		{"two", "add", `{}`, messages.CodeServerNotFound},
	} {
		_, err := e.Execute(t.Context(), c.server, c.tool, json.RawMessage(c.args), metamcp.ExecuteOptions{})
		var failure *metamcp.Error
		if !errors.As(err, &failure) || failure.Code != c.code || failure.Hint == "" {
			t.Errorf("%+v: %v (%+v); want %s with a hint", c, err, failure, c.code)
		}
	}
}

func TestReloadTakesTheDifferenceOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openIn(t, dir, map[string][]string{"stays": nil, "goes": nil})
	if _, err := e.Execute(t.Context(), "goes", "echo", json.RawMessage(`{"text":"x"}`), metamcp.ExecuteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := writeConfig(dir, children(map[string][]string{"stays": nil, "comes": nil}, nil)); err != nil {
		t.Fatal(err)
	}
	if err := e.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Execute(t.Context(), "comes", "echo", json.RawMessage(`{"text":"x"}`), metamcp.ExecuteOptions{}); err != nil {
		t.Errorf("the new server: %v", err)
	}
	_, err := e.Execute(t.Context(), "goes", "echo", json.RawMessage(`{"text":"x"}`), metamcp.ExecuteOptions{})
	var failure *metamcp.Error
	if !errors.As(err, &failure) || failure.Code != messages.CodeServerNotFound {
		t.Errorf("the removed server: %v", err)
	}
	names := ""
	for _, s := range e.ListServers() {
		names += fmt.Sprint(s.Name, " ")
	}
	if names != "comes stays " {
		t.Errorf("servers after the reload: %s", names)
	}
}

func TestHiddenTextIsRemovedAndSaid(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"odd": {"--hidden-text"}}, nil)
	hidden := func(text string) bool { return strings.ContainsAny(text, "\u200b\x1b\U000e0041") }
	for name, ask := range map[string]metamcp.DiscoverRequest{
		"a query":  {Query: "weather", Limit: 1},
		"a server": {Server: "odd", Detail: "full"},
		"a tool":   {Server: "odd", Tool: "weather_report"},
	} {
		a, err := e.Discover(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		var plain any
		if err := json.Unmarshal(raw, &plain); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "servers.odd.weather_report(args?: { city?: string /* Where */ })") != (a.Tools != nil || a.Tool != nil) {
			t.Errorf("%s: the signature: %s", name, raw)
		}
		if text := fmt.Sprint(plain); hidden(text) || !strings.Contains(text, "Tells the weather.") || !strings.Contains(text, "hiddenText:true") || len(a.Notes) == 0 {
			t.Errorf("%s: %s", name, text)
		}
	}
	tool, err := e.ToolDetails(t.Context(), "odd", "weather_report")
	if err != nil || !tool.HiddenText || !strings.Contains(string(tool.Definition), `\u200b`) {
		t.Errorf("the child's own definition: %+v, %v", tool, err)
	}
}

// TestBothSayWhatKeepsAToolClosed: who looks at a tool that is held back is told the
// same reason as who calls it.
func TestBothSayWhatKeepsAToolClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	accepted := pins.NewStore(filepath.Join(dir, ".metamcp")).Path("x")
	if err := os.MkdirAll(filepath.Dir(accepted), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(accepted, []byte("not what was written"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := openConfig(t, dir, children(map[string][]string{"x": nil}, map[string]any{"trust": map[string]any{"pins": "hold"}}))
	_, err := e.Execute(t.Context(), "x", "add", json.RawMessage(`{"a":1,"b":2}`), metamcp.ExecuteOptions{})
	var refusal *metamcp.Error
	if !errors.As(err, &refusal) || refusal.Code != messages.CodeToolDisabled {
		t.Fatalf("the call: %v; want it refused", err)
	}
	_, why, _ := strings.Cut(refusal.Message, " is held back: ")
	if !strings.Contains(why, accepted) {
		t.Errorf("the call is told %q, want the file that cannot be read", why)
	}
	a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "x", Tool: "add"})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Notes) != 1 || !strings.HasPrefix(a.Notes[0], "The tool is held back: "+why+". ") {
		t.Errorf("mcp_discover says %q, mcp_call %q", a.Notes, why)
	}
}

func TestPendingServersKeepToTheBudget(t *testing.T) {
	t.Parallel()
	const budget = 300
	servers := map[string][]string{"one": nil}
	for i := range 40 {
		servers[fmt.Sprintf("%s-%02d", strings.Repeat("hangs", 12), i)] = []string{"--silent"}
	}
	e := open(t, servers, map[string]any{"discoverTimeoutMs": 300, "search": map[string]any{"budgetTokens": budget}})
	a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Query: "add"})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if n := index.EstimateTokens(string(raw)); n > budget || !strings.Contains(string(raw), "more servers are pending") {
		t.Errorf("the answer costs %d tokens of %d: %s", n, budget, raw)
	}
}

// A search waits for a server that hangs, but not for long where others have
// answers, in a program that searches once as well.
func TestSearchDoesNotWaitForOneThatHangs(t *testing.T) {
	t.Parallel()
	const never = 3_600_000
	e := open(t, map[string][]string{"one": nil, "hangs": {"--silent"}}, map[string]any{"discoverTimeoutMs": never})
	if _, err := e.ListTools(t.Context(), "one", false); err != nil {
		t.Fatal(err)
	}
	for _, settle := range []time.Duration{0, time.Millisecond} {
		found, err := e.Search(t.Context(), "add", metamcp.SearchOptions{Limit: 1, Settle: settle})
		if err != nil || len(found.Matches) != 1 || len(found.Pending) != 1 {
			t.Errorf("settle %v: %+v, %v", settle, found, err)
		}
	}
}

// A server whose starts fail, and whose next start is put off, is not waited for.
func TestSearchDoesNotWaitForAStartThatIsPutOff(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"one": nil, "dead": {"--exit-at-start=1"}}, map[string]any{
		"discoverTimeoutMs": 1, "pool": map[string]any{"failureThreshold": 100},
	})
	if _, err := e.ListTools(t.Context(), "one", false); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := e.ListTools(t.Context(), "dead", false); err == nil {
			t.Fatal("it has started")
		}
	}
	for _, server := range []string{"", "dead"} {
		testkit.Eventually(t, time.Minute, func() error { // each failure puts the next start off for longer
			if _, err := e.ListTools(t.Context(), "dead", false); err == nil {
				t.Fatal("it has started")
			}
			found, err := e.Search(t.Context(), "add", metamcp.SearchOptions{Server: server})
			if err != nil {
				t.Fatal(err)
			}
			if why := found.Failed["dead"]; why == nil || why.Class != messages.ClassStdioExit || len(found.Pending) != 0 {
				return fmt.Errorf("of %q: failed %v, pending %v", server, found.Failed, found.Pending)
			}
			return nil
		})
	}
}

// A program that asks once waits for the one server that it names as long as
// that may take to start.
func TestOneServerIsWaitedForInTheShell(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"slow": {"--start-delay=300ms"}}, map[string]any{"discoverTimeoutMs": 1})
	if _, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "slow"}); err == nil {
		t.Error("a host waits longer than discoverTimeoutMs")
	}
	for _, ask := range []metamcp.DiscoverRequest{{Server: "slow"}, {Server: "slow", Tool: "add"}, {Server: "slow", Query: "add"}} {
		slow := open(t, map[string][]string{"slow": {"--start-delay=300ms"}}, map[string]any{"discoverTimeoutMs": 1})
		ask.Settle = time.Millisecond
		a, err := slow.Discover(t.Context(), ask)
		if err != nil || len(a.Tools) == 0 && a.Tool == nil && len(a.Matches) == 0 {
			t.Errorf("%+v: %+v, %v", ask, a, err)
		}
	}
}
