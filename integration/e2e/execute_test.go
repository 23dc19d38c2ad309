package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/npmservers"
	"github.com/metamcp/metamcp/integration/testkit"
)

// sandboxName is what processes of the sandbox are started as.
const sandboxName = "metamcp-sandbox"

// executed is what mcp_execute says.
type executed struct {
	Value          json.RawMessage
	ValueBeginning string
	ValueOutline   json.RawMessage
	Result         string
	Console        []string
	Calls          []struct {
		Server, Tool, Error string
		Ms                  float64
	}
	CallTotals []struct {
		Server, Tool       string
		Count              int
		TotalMs, SlowestMs float64
		Failed             map[string]int
	}
	Notes []string
	Error *struct {
		refused
		Kind, Excerpt, Stack string
		Line, Column         int
	}
	raw string
}

func (x executed) calls() []string {
	var out []string
	for _, c := range x.Calls {
		out = append(out, strings.TrimSpace(c.Server+"/"+c.Tool+" "+c.Error))
	}
	return out
}

func executeParams(code string, more ...string) string {
	return `{"name":"mcp_execute","arguments":{"code":` + quote(code) + strings.Join(more, "") + `}}`
}

// script begins a script and returns the request's id.
func (c *client) script(code string, more ...string) string {
	c.t.Helper()
	return c.request("tools/call", executeParams(code, more...))
}

func (c *client) executedBy(id string) executed {
	c.t.Helper()
	result := c.resultOf(id)
	var outer struct{ IsError bool }
	var x executed
	x.raw = textOf(c.t, result)
	if err := json.Unmarshal(result, &outer); err != nil {
		c.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(x.raw), &x); err != nil {
		c.t.Fatalf("mcp_execute says %.500s: %v", x.raw, err)
	}
	if outer.IsError != (x.Error != nil) {
		c.t.Errorf("isError is %v in %.500s", outer.IsError, result)
	}
	return x
}

// execute runs a script and wants a value.
func (c *client) execute(code string, more ...string) executed {
	c.t.Helper()
	x := c.executedBy(c.script(code, more...))
	if x.Error != nil {
		c.t.Fatalf("the script failed: %s\n%s", x.raw, code)
	}
	return x
}

// value runs a script and wants this value.
func (c *client) value(code, want string) executed {
	c.t.Helper()
	x := c.execute(code)
	if got := canonical(c.t, x.Value); got != canonical(c.t, json.RawMessage(want)) {
		c.t.Errorf("%s\ngives %s, want %s", code, got, want)
	}
	return x
}

// canonical is a JSON text that others of the same value equal.
func canonical(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	if raw == nil {
		return "undefined"
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fails runs a script and wants it to fail.
func (c *client) fails(code, errorCode, kind string, more ...string) executed {
	c.t.Helper()
	x := c.executedBy(c.script(code, more...))
	if x.Error == nil || x.Error.Code != errorCode || x.Error.Kind != kind {
		c.t.Fatalf("%s\ngives %s, want %s of kind %s", code, x.raw, errorCode, kind)
	}
	return x
}

// workers are the live processes of a host's sandbox.
func workers(t testing.TB, host int) []testkit.Proc {
	t.Helper()
	procs, err := sandboxes(host)
	if err != nil {
		t.Fatal(err)
	}
	return procs
}

func sandboxes(host int) ([]testkit.Proc, error) {
	procs, err := testkit.Descendants(host)
	var found []testkit.Proc
	for _, p := range testkit.Live(procs) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID)) // it may be gone
		if strings.HasPrefix(string(line), sandboxName+"\x00") {
			found = append(found, p)
		}
	}
	return found, err
}

// running waits until a script's process is there besides the spare one.
func (c *client) running(calls string, n int) []testkit.Proc {
	c.t.Helper()
	eventually(c.t, "the calls of the script arrive", func() bool { return len(records(c.t, calls)) == n })
	return workers(c.t, c.p.PID)
}

// The work that the tool is for: read a tree of files, keep what is wanted,
// write a graph of it, and return a few words.
func TestExecuteWorkflow(t *testing.T) {
	t.Parallel()
	node := npmservers.Node(t)
	npm := func(s npmservers.Server, args ...string) map[string]any {
		return nodeEntry(node, append([]string{npmservers.Entry(t, s)}, args...)...)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"readme.md": "# Top\nSee sub/guide.md.", "sub/guide.md": "# Guide\nNothing.", "sub/deep/notes.md": "no heading", "sub/data.json": `{"a":1}`, "sub/deep/code.go": "package deep",
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	memory := npm(npmservers.Memory)
	memory["env"] = map[string]string{"MEMORY_FILE_PATH": tempFile(t, "memory.jsonl")}
	c := plainHost(t, servers{"filesystem": npm(npmservers.Filesystem, folder), "memory": memory, "everything": npm(npmservers.Everything, "stdio")}, nil)

	x := c.execute(`
		const root: string = ` + quote(folder) + `;
		interface Node { name: string; type: "file" | "directory"; children?: Node[] }
		const { content } = await servers.filesystem.directory_tree({ path: root });
		const files: string[] = [];
		const walk = (nodes: Node[], at: string) => {
			for (const n of nodes) {
				if (n.type === "directory") walk(n.children ?? [], at + "/" + n.name);
				else if (n.name.endsWith(".md")) files.push(at + "/" + n.name);
			}
		};
		walk(JSON.parse(content), root);
		const texts = await Promise.all(files.map(path => servers.filesystem.read_text_file({ path })));
		const titles = new Map(files.map((f, i) => [f.slice(root.length + 1), /^# (.*)$/m.exec(texts[i].content)?.[1] ?? null]));
		console.log(titles.size, "documents");
		await servers.memory.create_entities({ entities: [...titles].map(([name, title]) => ({ name, entityType: "document", observations: title ? [title] : [] })) });
		await servers.memory.call("create_relations", { relations: [{ from: "readme.md", to: "sub/guide.md", relationType: "mentions" }] });
		const sum = await servers.everything.get_sum({ a: titles.size, b: 39 });
		return { titles: Object.fromEntries([...titles].sort()), sum };
	`)
	if want := `{"titles":{"readme.md":"Top","sub/deep/notes.md":null,"sub/guide.md":"Guide"},"sum":"The sum of 3 and 39 is 42."}`; string(x.Value) != want {
		t.Errorf("value %s, want %s", x.Value, want)
	}
	if !slices.Equal(x.Console, []string{"3 documents"}) {
		t.Errorf("console %q", x.Console)
	}
	if got, want := len(x.Calls), 7; got != want {
		t.Errorf("%d calls, want %d: %q", got, want, x.calls())
	}
	for _, call := range x.Calls {
		if call.Ms <= 0 {
			t.Errorf("%s/%s took no time", call.Server, call.Tool)
		}
	}
	// Not by what the script says of it, but by who has it.
	graph := string(c.call("memory", "read_graph", `{}`))
	for _, want := range []string{"sub/deep/notes.md", "Guide", "mentions"} {
		if !strings.Contains(graph, want) {
			t.Errorf("the graph has no %q: %s", want, graph)
		}
	}
}

func TestExecuteValues(t *testing.T) {
	t.Parallel()
	c := plainHost(t, servers{"demo": testkit.DemoServer(t)}, nil)
	c.value(`return 1 + 1`, `2`)
	c.value(`return (await servers.demo.add({a: 19, b: 23})).sum`, `42`)
	c.value(`return await servers.demo.echo({text: "<b>&\u2028ü😀"})`, quote("<b>&\u2028ü😀"))
	c.value(`return await servers.demo.echo({text: '{"a": [1, null]}'})`, `{"a":[1,null]}`)
	c.value(`return (await servers.demo.image()).mimeType`, `"image/png"`)
	c.value(`return await servers.demo.raw({result: {content: [{type: "text", text: "x"}, {type: "text", text: "[2]"}]}})`, `["x",[2]]`)
	c.value(`return (await servers.demo.add({a: 1, b: 2}, {raw: true})).structuredContent`, `{"sum":3}`)
	c.value(`return (await servers.demo.fail({message: "no"}, {raw: true})).isError`, `true`)
	c.value(`return servers.list().map(s => s.name)`, `["demo"]`)
	c.value(`const [best] = await discover("add two numbers"); return [best.server, best.tool, typeof best.inputSchema]`, `["demo","add","object"]`)
	if x := c.execute(`async function main() { return 5 } main()`); x.Value != nil || len(x.Notes) != 1 || !strings.Contains(x.Notes[0], "return await main()") {
		t.Errorf("a function that nobody awaits is told as %s", x.raw)
	}
	if x := c.execute(`return null`); x.Notes != nil {
		t.Errorf("null is told as %s", x.raw)
	}
	if x := c.execute(`console.warn("hm"); await servers.demo.echo({text: "x"})`); x.Value != nil || !slices.Equal(x.Console, []string{"warn: hm"}) {
		t.Errorf("undefined is told as %s", x.raw)
	}
}

// What a failed call throws, and what a script says that fails, tells what
// happened, where, and what was done before.
func TestExecuteErrors(t *testing.T) {
	t.Parallel()
	off := false
	c := plainHost(t, servers{"demo": testkit.DemoServer(t), "broken": {"command": "no-such-command-anywhere"}}, map[string]any{
		"toolRules": []map[string]any{{"pattern": []string{"notes_*"}, "enabled": off}},
	})
	catch := func(call string) string {
		return `try { await ` + call + `; return "nothing was thrown" } catch (e) { return [e instanceof Error, e.code, e.server, e.tool, e.message.length > 5] }`
	}
	for call, want := range map[string]string{
		`servers.demo.add({a: "x"})`:                                           `[true,"VALIDATION_ERROR","demo","add",true]`,
		`servers.demo.ad({})`:                                                  `[true,"TOOL_NOT_FOUND","demo","ad",true]`,
		`servers.demo.notes_list()`:                                            `[true,"TOOL_DISABLED","demo","notes_list",true]`,
		`servers.demo.fail({message: "the tool says no"})`:                     `[true,"TOOL_EXECUTION_ERROR","demo","fail",true]`,
		`servers.demo.refuse({message: "the server says no"})`:                 `[true,"TOOL_EXECUTION_ERROR","demo","refuse",true]`,
		`servers.demo.slow({ms: 600000}, {timeoutMs: 50})`:                     `[true,"TOOL_EXECUTION_TIMEOUT","demo","slow",true]`,
		`servers.broken.call("x")`:                                             `[true,"SERVER_CONNECTION_ERROR","broken","x",true]`,
		`Promise.any([servers.demo.fail()]).catch(e => { throw e.errors[0] })`: `[true,"TOOL_EXECUTION_ERROR","demo","fail",true]`,
	} {
		c.value(catch(call), want)
	}
	x := c.fails("console.log('before')\nawait servers.demo.echo({text: 'x'})\nreturn await servers.demo.fail({message: 'the tool says no'})", "TOOL_EXECUTION_ERROR", "exception")
	if e := x.Error; e.Server != "demo" || e.Tool != "fail" || !strings.Contains(e.Message, "the tool says no") || e.Line != 3 || !strings.Contains(e.Excerpt, "servers.demo.fail") {
		t.Errorf("error %s", x.raw)
	}
	if !slices.Equal(x.Console, []string{"before"}) || !slices.Equal(x.calls(), []string{"demo/echo", "demo/fail TOOL_EXECUTION_ERROR"}) {
		t.Errorf("console %q, calls %q", x.Console, x.calls())
	}
	x = c.fails("const a = 1;\nconst b = = 2;", "SANDBOX_ERROR", "syntax")
	if e := x.Error; e.Line != 2 || e.Column == 0 || !strings.Contains(e.Excerpt, "const b = = 2;") || !strings.Contains(e.Excerpt, "^") {
		t.Errorf("error %s", x.raw)
	}
	x = c.fails("for (;;) {}", "SANDBOX_ERROR", "timeout", `,"timeoutMs":3000`)
	// What the script waited for its process is not in the message's time.
	if said := x.Error.Message + x.Error.Hint; !strings.Contains(said, "3s") && !strings.Contains(said, "3000 ms") || x.Error.Hint == "" {
		t.Errorf("error %s", x.raw)
	}
	c.fails("await new Promise(() => {})", "SANDBOX_ERROR", "deadlock")
	c.prompt("demo")
	for arguments, want := range map[string]string{
		`{}`:                                   `code: the script is required, a string`,
		`{"code":7}`:                           `code: the script is expected, a string, not a number`,
		`{"code":""}`:                          `there is no code`,
		`{"code":null}`:                        `code: the script is required, a string`,
		`{"script":"return 1"}`:                `script: no such argument; there are code, timeoutMs and language, and the script goes into "code"`,
		`{"code":"return 1","more":1}`:         `more: no such argument; there are code, timeoutMs and language`,
		`{"code":"return 1","timeoutMs":-1}`:   `timeoutMs: a whole number of milliseconds from 1 on is expected, not -1`,
		`{"code":"return 1","timeoutMs":"5s"}`: `timeoutMs: a whole number of milliseconds from 1 on is expected, not a string: write 5000`,
		`{"code":"return 1","timeoutMs":{}}`:   `timeoutMs: a whole number of milliseconds from 1 on is expected, not an object`,
		`{"code":"return 1","language":1}`:     `language: "javascript" or "typescript" is expected, not a number`,
		`{"code":"return 1","language":"go"}`:  `the language "go" is not known`,
		`["return 1"]`:                         `arguments: an object is expected, not an array`,
	} {
		r := refusal(t, c.resultOf(c.request("tools/call", toolParams("mcp_execute", arguments))))
		if r.Code != "VALIDATION_ERROR" || r.Hint == "" || !strings.Contains(r.Message, want) || strings.Contains(r.Message, "json:") {
			t.Errorf("%s: %+v, want %s", arguments, r, want)
		}
	}
	if r := refusal(t, c.resultOf(c.script(strings.Repeat(" ", 60_000)))); r.Code != "VALIDATION_ERROR" || !strings.Contains(r.Message, "50000") {
		t.Errorf("code that is too long: %+v", r)
	}
}

// Calls of one script run side by side; the client's cancellation ends them,
// the script and its process, and nobody else notices.
func TestExecuteInParallelAndCancelled(t *testing.T) {
	t.Parallel()
	calls, cancels := tempFile(t, "calls"), tempFile(t, "cancels")
	c := plainHost(t, servers{"demo": testkit.DemoServer(t, "--calls-file", calls, "--cancels-file", cancels)}, nil)
	id := c.script(`await Promise.all(Array.from({length: 10}, () => servers.demo.slow({ms: 600000})))`)
	before := c.running(calls, 10) // none is answered for minutes, so all ten are under way at once
	if len(before) == 0 {
		t.Fatal("no process of the sandbox is there")
	}
	c.Send(cancelled(id))
	testkit.AwaitGone(t, instantly, func() ([]testkit.Proc, error) {
		// One is kept ready for the next script.
		now, err := sandboxes(c.p.PID)
		if len(now) <= 1 {
			return nil, err
		}
		return now, err
	})
	eventually(t, "the child hears of the cancellation", func() bool { return len(records(t, cancels)) == 10 })
	c.prompt("demo")
	c.value(`return 1`, `1`)
	noLines(t, c)
}

// More scripts than may run at once all come to their end.
func TestExecuteManyAtOnce(t *testing.T) {
	t.Parallel()
	c := plainHost(t, servers{"demo": testkit.DemoServer(t)}, map[string]any{"execute": map[string]any{"maxConcurrent": 4}})
	var ids []string
	for i := range 24 {
		ids = append(ids, c.script(fmt.Sprintf(`const {sum} = await servers.demo.add({a: %d, b: 1}); return sum`, i)))
	}
	c.prompt("demo")
	most := 0
	for i, id := range ids {
		if x := c.executedBy(id); string(x.Value) != fmt.Sprint(i+1) {
			t.Errorf("script %d gives %s", i, x.raw)
		}
		most = max(most, len(workers(t, c.p.PID)))
	}
	// Those that run, those that end, and one that is ready.
	if most > 9 {
		t.Errorf("%d processes at once for 4 scripts at once", most)
	}
}

// A script that does all it can to be in the way is not.
func TestExecuteHostileScripts(t *testing.T) {
	t.Parallel()
	c := plainHost(t, servers{"demo": testkit.DemoServer(t)}, map[string]any{"execute": map[string]any{"maxCalls": 50, "outputMb": 1}})
	hostile := map[string]string{
		`for (;;) {}`:                                   "timeout",
		`return "x".repeat(2 ** 29).length`:             "memory",
		`const f = n => f(n + 1) + 1; return f(0)`:      "stack",
		`return "x".repeat(1_100_000)`:                  "output",
		`for (;;) await servers.demo.echo({text: "x"})`: "calls",
		`for (;;) await null`:                           "timeout",
		`return await new Promise(() => {})`:            "deadlock",
		`return require("fs")`:                          "unsupported",
		`await import("fs")`:                            "",
		`let s = "x"; for (;;) s += s`:                  "",
		`/(a+)+$/.test("a".repeat(40) + "b")`:           "timeout",
		`const o = {}; o.o = o; return o`:               "output",
	}
	ids := map[string]string{}
	for code, kind := range hostile {
		more := `,"timeoutMs":30000`
		if kind == "timeout" {
			more = `,"timeoutMs":1000`
		}
		ids[code] = c.script(code, more)
		c.prompt("demo")
	}
	for code, kind := range hostile {
		x := c.executedBy(ids[code])
		if x.Error == nil || x.Error.Code != "SANDBOX_ERROR" || kind != "" && x.Error.Kind != kind || x.Error.Hint == "" {
			t.Errorf("%s\ngives %.500s, want kind %s and a hint", code, x.raw, kind)
		}
	}
	c.value(`return 1`, `1`)
}

// However a host ends, no process of its sandbox outlives it.
func TestExecuteEndsWithItsHost(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, c *client){
		"the client goes": func(t *testing.T, c *client) {
			c.p.CloseStdin()
			c.p.Wait(t, patience)
		},
		"it is terminated": func(t *testing.T, c *client) {
			c.p.Signal(t, os.Interrupt)
			c.p.Wait(t, patience)
		},
		"it is killed": func(t *testing.T, c *client) {
			c.p.Signal(t, os.Kill)
			c.p.Wait(t, patience)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := tempFile(t, "calls")
			c := plainHost(t, servers{"demo": testkit.DemoServer(t, "--calls-file", calls)}, map[string]any{"drainTimeoutMs": 100})
			c.script(`servers.demo.slow({ms: 600000}); await sleep(5); for (;;) {}`)
			c.script(`await servers.demo.slow({ms: 600000})`)
			procs := c.running(calls, 2)
			if len(procs) < 2 {
				t.Fatalf("the sandbox has the processes %v", procs)
			}
			end(t, c)
			testkit.AwaitGone(t, goneWithin, func() ([]testkit.Proc, error) {
				all, err := testkit.Processes()
				return slices.DeleteFunc(testkit.Live(all), func(p testkit.Proc) bool {
					return !slices.ContainsFunc(procs, func(q testkit.Proc) bool { return p.PID == q.PID })
				}), err
			})
		})
	}
}

// A client that asks for it hears how far a long script is.
func TestExecuteProgress(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			t.Parallel()
			start := host
			if modern {
				start = func(t testing.TB, e servers, s map[string]any, _ ...string) *client { return modernHost(t, e, s) }
			}
			c := start(t, servers{"demo": testkit.DemoServer(t)}, nil)
			meta := `"_meta":{"progressToken":"p"}`
			if modern {
				meta = strings.Replace(modernMeta, `{`, `{"progressToken":"p",`, 1)
			}
			id := c.id()
			c.Send([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"mcp_execute","arguments":{"code":` +
				quote(`for (let i = 1; i <= 60; i++) { await servers.demo.echo({text: "x"}); console.log("page " + i); await sleep(50) } return "done"`) +
				`},` + meta + `}}`))
			var p struct {
				Params struct {
					ProgressToken, Message string
					Progress               float64
				}
			}
			last := 0.0
			for !strings.Contains(p.Params.Message, "; page ") {
				if err := json.Unmarshal(c.Notification("notifications/progress"), &p); err != nil {
					t.Fatal(err)
				}
				if p.Params.ProgressToken != "p" || p.Params.Progress <= last || !regexp.MustCompile(`^(1 call|\d+ calls) done`).MatchString(p.Params.Message) {
					t.Errorf("progress %+v after %v", p.Params, last)
				}
				last = p.Params.Progress
			}
			if x := c.executedBy(id); string(x.Value) != `"done"` || len(x.Console) != 60 {
				t.Errorf("answer %s", x.raw)
			}
		})
	}
}

// A value that is too long for an answer is cut, and a later script of the
// same client reads it whole.
func TestExecuteLongResults(t *testing.T) {
	t.Parallel()
	c := plainHost(t, servers{"demo": testkit.DemoServer(t)}, map[string]any{"search": map[string]any{"budgetTokens": 1000}})
	x := c.execute(`console.log("made"); return Array.from({length: 5000}, (_, i) => ({id: i, text: "item " + i}))`)
	if x.Value != nil || x.Result != "r1" || !strings.HasPrefix(string(x.ValueOutline), `[{"id":0,`) || len(x.raw) > 4000 {
		t.Fatalf("answer of %d bytes: %.300s", len(x.raw), x.raw)
	}
	if len(x.Notes) != 1 || !strings.Contains(x.Notes[0], "an array of 5000 items") || !strings.Contains(x.Notes[0], "await results.r1") || !slices.Equal(x.Console, []string{"made"}) {
		t.Errorf("notes %q, console %q", x.Notes, x.Console)
	}
	c.value(`const all = await results.r1; return [all.length, all[4999]]`, `[5000,{"id":4999,"text":"item 4999"}]`)
	x = c.execute(`for (let i = 0; i < 3000; i++) console.log("line " + i); await Promise.all(Array.from({length: 200}, () => servers.demo.echo({text: "x"}))); return 7`)
	if string(x.Value) != "7" || len(x.raw) > 4000 || x.Console[0] != "line 0" || !slices.Contains(x.Console, "…") || x.Console[len(x.Console)-1] == "…" || len(x.CallTotals) != 1 || x.CallTotals[0].Count != 200 || len(x.Notes) != 1 {
		t.Errorf("answer of %d bytes: %s", len(x.raw), x.raw)
	}
	x = c.fails(`throw new Error("x".repeat(100000))`, "SANDBOX_ERROR", "exception")
	if len(x.raw) > 6000 {
		t.Errorf("a long error makes an answer of %d bytes", len(x.raw))
	}
}

// An error is cut like everything else, and an answer without a value keeps
// none: not even with the smallest budget and texts that grow when escaped.
func TestExecuteErrorsKeepToTheSmallestBudget(t *testing.T) {
	t.Parallel()
	c := plainHost(t, servers{"demo": testkit.DemoServer(t)}, map[string]any{"search": map[string]any{"budgetTokens": 200}})
	c.fails(`await servers.demo.ad({a: 1})`, "TOOL_NOT_FOUND", "exception")
	c.fails(`await servers.demo.add({a: "x"})`, "VALIDATION_ERROR", "exception")
	x := c.fails(`const e = new Error("\u0001".repeat(8000)); e.hint = "\u0001".repeat(4000); throw e`, "SANDBOX_ERROR", "exception")
	if len(x.raw) > 4000 {
		t.Errorf("a long error makes an answer of %d bytes", len(x.raw))
	}
	c.value(`return Object.keys(results)`, `[]`)
}

// A script has an entry of its own in the audit log, without its code, and so
// has each of its calls.
func TestExecuteIsOnRecord(t *testing.T) {
	t.Parallel()
	trace := tempFile(t, "trace.jsonl")
	c := plainHost(t, servers{"demo": testkit.DemoServer(t)}, map[string]any{"audit": map[string]any{"plainArgs": true}}, "--trace="+trace)
	c.execute(`const secretOfTheCode = 1; await servers.demo.echo({text: "argument of the call"}); return 1`)
	c.fails(`await servers.demo.fail()`, "TOOL_EXECUTION_ERROR", "exception")
	c.p.CloseStdin()
	c.p.Wait(t, patience)
	var entries []string
	requests := map[string][]uint64{}
	log := readFile(t, filepath.Join(c.p.StateDir(), "audit.jsonl"))
	for line := range strings.Lines(log) {
		var e struct {
			Kind, Server, Tool, Outcome, ArgsHash string
			Request                               uint64
			Args                                  json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case "execute":
			if e.ArgsHash == "" || e.Args != nil {
				t.Errorf("the code is not hashed: %s", line)
			}
		case "call":
			if e.Args == nil && e.Tool == "echo" {
				t.Errorf("the arguments are missing: %s", line)
			}
		default:
			continue
		}
		entries = append(entries, strings.TrimPrefix(e.Server+"/"+e.Tool+" "+e.Outcome, "/"))
		requests[e.Kind] = append(requests[e.Kind], e.Request)
	}
	want := []string{"demo/echo ok", "mcp_execute ok", "demo/fail tool-error", "mcp_execute TOOL_EXECUTION_ERROR"}
	if !slices.Equal(entries, want) || !slices.Equal(requests["call"], requests["execute"]) {
		t.Errorf("on record is %q of the requests %v, want %q", entries, requests, want)
	}
	if strings.Contains(log, "secretOfTheCode") {
		t.Error("the log holds the code")
	}
	traced := readFile(t, trace)
	for _, part := range []string{`"kind":"call"`, `"kind":"return"`, `"tool":"mcp_execute"`, `metamcp/sandbox/run~1`, `"type":"scriptAsked"`} {
		if !strings.Contains(traced, part) {
			t.Errorf("the trace has no %s", part)
		}
	}
	if strings.Contains(traced, "secretOfTheCode") || strings.Contains(traced, "argument of the call") {
		t.Error("the trace holds the code, or arguments")
	}
}

// The limits of the configuration hold, also those that change while the host
// runs.
func TestExecuteLimitsChange(t *testing.T) {
	t.Parallel()
	entries := servers{"demo": testkit.DemoServer(t)}
	p := testkit.StartHost(t, testkit.Host{Servers: entries, Settings: map[string]any{"execute": map[string]any{"maxCalls": 2}}})
	c := &client{Lines: p.Lines(t), p: p, t: t}
	c.Handshake()
	three := `for (let i = 0; i < 3; i++) await servers.demo.echo({text: "x"}); return "three"`
	if x := c.fails(three, "SANDBOX_ERROR", "calls"); !strings.Contains(x.Error.Message, "2") {
		t.Errorf("error %s", x.raw)
	}
	testkit.WriteConfig(t, p.ConfigFile(), p.Mark, entries, map[string]any{"execute": map[string]any{"maxCalls": 3}})
	eventually(t, "the new limit holds", func() bool { return string(c.executedBy(c.script(three)).Value) == `"three"` })
}

// From the shell, calls that nobody awaited are told and are no success.
func TestExecOfCallsThatNobodyAwaits(t *testing.T) {
	t.Parallel()
	c := plainHost(t, servers{"demo": testkit.DemoServer(t)}, nil)
	for code, want := range map[string]struct {
		status      int
		out, stderr string
	}{
		`return await servers.demo.add({a: 1, b: 2})`:               {0, `"sum": 3`, ""},
		`servers.demo.slow({ms: 600000}); return "here"`:            {1, "here", "--timeout 999000 is over the most, 120000"},
		`(async () => { await servers.demo.slow({ms: 600000}) })()`: {1, "", "returned nothing while calls (1)"},
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			cmd := exec.CommandContext(t.Context(), testkit.PlainBinary(t), append([]string{"exec", "--timeout", "999s", "--config", c.p.ConfigFile(), "--state-dir", t.TempDir(), "-"}, more...)...)
			var stdout, stderr strings.Builder
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(code), &stdout, &stderr
			err := cmd.Run()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != want.status || !strings.Contains(stdout.String(), want.out) || !strings.Contains(stderr.String(), want.stderr) || strings.Contains(stderr.String(), " await") != (want.status != 0) {
				t.Errorf("%s %q: status %d, says\n%s\n%s", code, more, got, stdout.String(), stderr.String())
			}
		}
	}
}
