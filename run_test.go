package metamcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/messages"
)

// hostile each break another bound.
var hostile = []string{
	`for (;;) {}`, `const f = n => f(n + 1) + 1; return f(0)`, `for (;;) await null`, `return "x".repeat(2 ** 29)`,
	`return await new Promise(() => {})`, `for (;;) await servers.demo.echo({text: "x"})`, `throw new Error("no")`,
}

func runScript(t testing.TB, e *metamcp.Engine, req metamcp.RunRequest) *metamcp.RunResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := e.Run(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Hostile scripts leave nothing behind in the program that runs them: no
// goroutine, and no memory to speak of.
func TestHostileScriptsLeaveNothing(t *testing.T) {
	hostileRuns(t, 28, 0)
}

// hostileRuns runs that many hostile scripts and holds goroutines, and the
// heap where within is not 0, to what they were before.
func hostileRuns(t testing.TB, runs int, within float64) (before, after uint64) {
	e := open(t, map[string][]string{"demo": nil}, map[string]any{"execute": map[string]any{"timeoutMs": 200, "maxCalls": 20}})
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // what finalizers let go
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for i := range len(hostile) {
		runScript(t, e, metamcp.RunRequest{Code: hostile[i]})
	}
	settled := func() bool {
		st, err := e.HostStatus(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range st.Actors {
			if strings.Contains(a.ID, "/run~") {
				return false
			}
		}
		return st.Calls.InFlight == 0 && len(st.Sandbox.Workers) > 0 && !slices.ContainsFunc(st.Sandbox.Workers, func(w messages.SandboxWorker) bool { return w.State != "ready" })
	}
	await := func(what string, so func() bool) {
		t.Helper()
		limit := time.Now().Add(time.Minute)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ; !so(); <-tick.C {
			if time.Now().After(limit) {
				st, err := e.HostStatus(t.Context(), true)
				t.Fatalf("it never happened: %s; %+v, %v, %d goroutines", what, st, err, runtime.NumGoroutine())
			}
		}
	}
	await("the sandbox is at rest", settled)
	goroutines := runtime.NumGoroutine()
	before = heap()
	for i := range runs {
		if r := runScript(t, e, metamcp.RunRequest{Code: hostile[i%len(hostile)]}); r.Failure == nil {
			t.Fatalf("%s gives %s", hostile[i%len(hostile)], r.Value)
		}
	}
	await("the sandbox is at rest again", settled)
	// A worker more or less is some goroutines; a leak would be some for each run.
	await("no goroutine is left", func() bool { return runtime.NumGoroutine() < goroutines+runs/2 })
	after = heap()
	if within > 0 && float64(after) > float64(before)*within {
		t.Errorf("the heap has %d bytes after %d hostile scripts, %d before", after, runs, before)
	}
	return before, after
}

func BenchmarkHostileScripts(b *testing.B) {
	for b.Loop() {
		before, after := hostileRuns(b, 1000, 1.1)
		b.ReportMetric(float64(before)/1024, "KiB-before")
		b.ReportMetric(float64(after)/1024, "KiB-after")
	}
}

func TestRunRequests(t *testing.T) {
	e := open(t, map[string][]string{"demo": nil}, nil)
	for name, c := range map[string]struct {
		req  metamcp.RunRequest
		code messages.Code
	}{
		"no code":    {metamcp.RunRequest{}, messages.CodeValidation},
		"a language": {metamcp.RunRequest{Code: "return 1", Language: "python"}, messages.CodeValidation},
		"a server":   {metamcp.RunRequest{Code: "return 1", Servers: []string{"demoo"}}, messages.CodeServerNotFound},
		"too long":   {metamcp.RunRequest{Code: strings.Repeat(" ", 50_001)}, messages.CodeValidation},
	} {
		_, err := e.Run(t.Context(), c.req)
		var own *metamcp.Error
		if !errors.As(err, &own) || own.Code != c.code || own.Hint == "" {
			t.Errorf("%s: %v, want %s with a hint", name, err, c.code)
		}
	}
}

// The console is heard while the script runs; its context ends it.
func TestRunIsHeardAndCancelled(t *testing.T) {
	e := open(t, map[string][]string{"demo": nil}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := e.Run(ctx, metamcp.RunRequest{
		Code:    `console.log("begun"); await servers.demo.slow({ms: 600000})`,
		Console: func(metamcp.ConsoleLine) { cancel() },
	})
	var own *metamcp.Error
	if !errors.As(err, &own) || own.Code != messages.CodeCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if r := runScript(t, e, metamcp.RunRequest{Code: `return [1]`}); string(r.Value) != "[1]" {
		t.Errorf("value %s", r.Value)
	}
}

// A script of some servers finds and reaches no others, and starts none.
func TestRunOfSomeServers(t *testing.T) {
	e := open(t, map[string][]string{"a": nil, "b": nil}, nil)
	r := runScript(t, e, metamcp.RunRequest{
		Code:    `return [servers.list().map(s => s.name), [...new Set((await discover("echo a text")).map(m => m.server))]]`,
		Servers: []string{"a"},
	})
	if want := `[["a"],["a"]]`; string(r.Value) != want {
		t.Errorf("value %s (%+v), want %s", r.Value, r.Failure, want)
	}
	st, err := e.HostStatus(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range st.Servers {
		if s.Name == "b" && s.Counts.Spawns > 0 {
			t.Error("a server that the script may not reach was started")
		}
	}
	var none json.RawMessage
	if r := runScript(t, e, metamcp.RunRequest{Code: `1`}); string(r.Value) != string(none) {
		t.Errorf("undefined is %s", r.Value)
	}
}

// Few calls are told one by one; many do not drown the value.
func TestCallsOfAScriptAreTold(t *testing.T) {
	e := open(t, map[string][]string{"demo": nil}, nil)
	r := runScript(t, e, metamcp.RunRequest{Code: `for (let i = 0; i < 20; i++) await servers.demo.add({a: i, b: 1})`})
	if lines, totals := metamcp.TellCalls(r); len(lines) != 20 || totals != nil || lines[0].Server != "demo" || lines[0].Tool != "add" {
		t.Errorf("20 calls are told as %+v, %+v", lines, totals)
	}
	r = runScript(t, e, metamcp.RunRequest{Code: `
		await Promise.allSettled(Array.from({length: 8}, () => servers.demo.fail()));
		for (let i = 0; i < 5; i++) await servers.demo.add({a: "x"}).catch(() => {});
		return (await Promise.all(Array.from({length: 300}, (_, i) => servers.demo.add({a: i, b: 1})))).length`})
	lines, totals := metamcp.TellCalls(r)
	if string(r.Value) != "300" || lines != nil || len(totals) != 2 {
		t.Fatalf("value %s, calls %+v, totals %+v", r.Value, lines, totals)
	}
	add, fail := totals[0], totals[1]
	if add.Tool != "add" || add.Count != 305 || add.SlowestMs <= 0 || add.TotalMs < add.SlowestMs || !maps.Equal(add.Failed, map[string]int{"VALIDATION_ERROR": 5}) {
		t.Errorf("total %+v", add)
	}
	if fail.Tool != "fail" || fail.Count != 8 || !maps.Equal(fail.Failed, map[string]int{"TOOL_EXECUTION_ERROR": 8}) {
		t.Errorf("total %+v", fail)
	}
}

// Calls that a script leaves behind are told for what they are: forgotten where
// it returned, cut off where it failed.
func TestCallsThatAScriptLeaves(t *testing.T) {
	e := open(t, map[string][]string{"demo": nil}, map[string]any{"execute": map[string]any{"maxCalls": 3}})
	const slow = `servers.demo.slow({ms: 600000})`
	for name, c := range map[string]struct {
		code                  string
		timeout               time.Duration
		notAwaited, cancelled int
		note                  string
	}{
		"it returned":               {slow + `; ` + slow + `; return 1`, 0, 2, 0, "2 calls were not awaited"},
		"its time was over":         {`await ` + slow, 3 * time.Second, 0, 1, "1 call was under way when the script ended"},
		"it made too many":          {slow + `; ` + slow + `; await sleep(1); await Promise.all([1, 2].map(() => ` + slow + `))`, 0, 0, 2, "2 calls were under way when the script ended"},
		"it threw":                  {slow + `; await sleep(1); throw new Error("no")`, 0, 0, 1, "1 call was under way when the script ended"},
		"its function did not end":  {`const main = async () => { await ` + slow + `; return 5 }; main()`, 0, 1, 0, "returned nothing while calls (1) and sleeps (0) were under way"},
		"its function slept":        {`const main = async () => { await sleep(30000); return 5 }; main()`, 0, 0, 0, "returned nothing while calls (0) and sleeps (1) were under way"},
		"it waited for all of them": {`await servers.demo.add({a: 1, b: 2}); return 1`, 0, 0, 0, ""},
	} {
		r := runScript(t, e, metamcp.RunRequest{Code: c.code, Timeout: c.timeout})
		notes := strings.Join(r.Notes, "\n")
		if r.NotAwaited != c.notAwaited || r.Cancelled != c.cancelled || (c.note == "") != (notes == "") || !strings.Contains(notes, c.note) {
			t.Errorf("%s: %d not awaited, %d cancelled, notes %q, failure %+v", name, r.NotAwaited, r.Cancelled, r.Notes, r.Failure)
		}
		if failed := c.cancelled > 0; (r.Failure != nil) != failed || failed && strings.Contains(notes, "await") {
			t.Errorf("%s: failure %+v, notes %q", name, r.Failure, notes)
		}
	}
}

// Whose time was over is told apart from the time of a call, and so is who can
// give more; a timeout that is not kept to is told.
func TestTimeOfAScript(t *testing.T) {
	e := open(t, map[string][]string{"demo": nil}, map[string]any{"execute": map[string]any{"timeoutMs": 5000}})
	const most = "up to 5000 (metamcp.execute.timeoutMs)"
	for name, c := range map[string]struct {
		code       string
		timeout    time.Duration
		hint, note string
	}{
		"it waits":        {`await servers.demo.slow({ms: 600000})`, 300 * time.Millisecond, "300 ms, was over: a longer timeoutMs, " + most, ""},
		"it loops":        {`for (;;) {}`, 300 * time.Millisecond, "300 ms, was over: a longer timeoutMs, " + most, ""},
		"the setting":     {`for (;;) {}`, 0, "5000 ms, was over, and no timeoutMs may be longer (metamcp.execute.timeoutMs)", ""},
		"it wanted more":  {`await sleep(30000)`, 999_999 * time.Millisecond, "no timeoutMs may be longer", "timeoutMs 999999 is over the most, 5000 (metamcp.execute.timeoutMs), which was used."},
		"it needed less":  {`return 1`, 999_999 * time.Millisecond, "", "timeoutMs 999999 is over the most, 5000"},
		"time of a call":  {`await servers.demo.slow({ms: 600000}, {timeoutMs: 50})`, 0, "", ""},
		"it is just long": {`return 1`, 5 * time.Second, "", ""},
	} {
		r := runScript(t, e, metamcp.RunRequest{Code: c.code, Timeout: c.timeout})
		hint, notes := "", strings.Join(r.Notes, "\n")
		if r.Failure != nil && r.Failure.Kind == messages.FailureTimeout {
			hint = r.Failure.Hint
		}
		if (c.hint == "") != (hint == "") || !strings.Contains(hint, c.hint) {
			t.Errorf("%s: hint %q, want %q (%+v)", name, hint, c.hint, r.Failure)
		}
		if over := strings.Contains(notes, "is over the most"); over != (c.note != "") || !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", name, notes, c.note)
		}
	}
}

// A number that a script cannot hold is told of, since nothing else shows it.
func TestLongNumbersAreTold(t *testing.T) {
	e := open(t, map[string][]string{"demo": nil}, nil)
	for code, want := range map[string]string{
		`return await servers.demo.echo({text: '{"id": 9007199254740993}'})`:                                      "A result of demo.echo holds the number 9007199254740993",
		`return JSON.parse((await servers.demo.echo({text: '[9007199254740993]'}, {raw: true})).content[0].text)`: "A result of demo.echo holds the number 9007199254740993",
		`await servers.demo.add({a: 9007199254740993, b: 1}); return 1`:                                           "Arguments of demo.add held the number 9007199254740992",
		`return await servers.demo.echo({text: '{"id": 900719925474099}'})`:                                       "",
	} {
		r := runScript(t, e, metamcp.RunRequest{Code: code})
		if notes := strings.Join(r.Notes, "\n"); r.Failure != nil || (want == "") != (notes == "") || !strings.Contains(notes, want) {
			t.Errorf("%s: notes %q (%+v), want %q", code, r.Notes, r.Failure, want)
		}
	}
}

// A search of one server that is still starting tells a script so, which may ask again.
func TestScriptSearchesAServerThatStarts(t *testing.T) {
	e := open(t, map[string][]string{"starts": {"--silent"}}, map[string]any{"discoverTimeoutMs": 1})
	r := runScript(t, e, metamcp.RunRequest{Code: `return await discover("add", {server: "starts"}).catch(e => [e.code, e.server, e.retryable, e.message.includes("still being started")])`})
	if string(r.Value) != `["SERVER_CONNECTION_ERROR","starts",true,true]` {
		t.Errorf("%s (%+v)", r.Value, r.Failure)
	}
	if r = runScript(t, e, metamcp.RunRequest{Code: `return await discover("add")`}); string(r.Value) != `[]` {
		t.Errorf("of all servers: %s (%+v)", r.Value, r.Failure)
	}
}

// What a script asks of a server that it cannot reach is an error of that call,
// which says why.
func TestServersThatAScriptCannotReach(t *testing.T) {
	cfg := children(map[string][]string{"demo": nil, "other": nil, "off": nil}, nil)
	cfg["mcpServers"].(map[string]any)["off"].(map[string]any)["disabled"] = true
	cfg["mcpServers"].(map[string]any)["broken"] = map[string]any{"command": "no-such-command-anywhere"}
	e := openConfig(t, t.TempDir(), cfg)
	const told = `.catch(e => [e.code, e.message, e.hint, e.retryable].join(" | "))`
	for code, want := range map[string]string{
		`return await servers.demoo.add()` + told:                                          `SERVER_NOT_FOUND | there is no server "demoo": no such name in the configuration; nearest: "demo" | servers.list()`,
		`return await servers.zanzibar.add()` + told:                                       `SERVER_NOT_FOUND | there is no server "zanzibar": no such name in the configuration | servers.list()`,
		`return await servers.off.add()` + told:                                            `CONFIGURATION_ERROR | "off" is disabled in the configuration`,
		`return await servers.other.add()` + told:                                          `SERVER_NOT_FOUND | "other" is not one of the servers that this script may reach | Use one of those that servers.list() names`,
		`return await discover("add", {server: "other"})` + told:                           `SERVER_NOT_FOUND | "other" is not one of the servers that this script may reach | Use one of those that servers.list() names`,
		`return await discover("add", {server: "off"})` + told:                             `SERVER_NOT_FOUND | "off" is not one of the servers`,
		`return await discover("add", {server: "nowhere"})` + told:                         `SERVER_NOT_FOUND | there is no server "nowhere"`,
		`return await discover("add", {server: "broken"})` + told:                          `SERVER_CONNECTION_ERROR | `,
		`return await discover("add", {sever: "demo"})` + told:                             `VALIDATION_ERROR | discover has no option "sever"; there are server and limit`,
		`return await discover("add", {limit: "5"})` + told:                                `VALIDATION_ERROR | the option limit of discover is "5"; it must be a number from 1 to`,
		`return await discover("add", {limit: 0})` + told:                                  `VALIDATION_ERROR | the option limit of discover is 0`,
		`return await discover("add", {server: 7})` + told:                                 `VALIDATION_ERROR | the option server of discover is no string`,
		`return await discover("add", {server: "demo", limit: null}).then(m => m[0].tool)`: `add`,
	} {
		only := []string{"demo"}
		if strings.Contains(code, "servers.off") || strings.Contains(code, "demoo") || strings.Contains(code, "broken") {
			only = nil
		}
		r := runScript(t, e, metamcp.RunRequest{Code: code, Servers: only})
		var got string
		if err := json.Unmarshal(r.Value, &got); err != nil || !strings.HasPrefix(got, want) {
			t.Errorf("%s gives %s (%+v), want %s", code, r.Value, r.Failure, want)
		}
	}
}
