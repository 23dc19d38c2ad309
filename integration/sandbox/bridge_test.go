package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// What servers, discover, results, sleep and console do; each script returns
// true, or what was wrong.
func TestBridge(t *testing.T) {
	t.Parallel()
	// These do several things at once, so their worker has the race detector.
	atOnce := []string{"call", "race", "allSettled", "many at once", "sleeps end in order"}
	tests := []struct{ name, code, want string }{
		{"call", `const r = await servers.files.call("read_file", {path: "/a"}); return [r.server, r.tool, r.args]`, `["files","read_file",{"path":"/a"}]`},
		{"a tool by name", `return (await servers.files.read_file({n: 1})).args`, `{"n":1}`},
		{"no arguments", `return (await servers.files.read_file()).args`, `{}`},
		{"any server name", `return (await servers["my server/2"].x({})).server`, `"my server/2"`},
		{"a server's name as identifier", `return (await servers.my_server_2.x({})).server`, `"my server/2"`},
		{"a tool's name as identifier", `return (await servers.files.write_file({})).tool`, `"write-file"`},
		{"an unknown tool is the host's to judge", `return (await servers.files.nope({})).tool`, `"nope"`},
		{"options", `const r = await servers.files.read_file({}, {raw: true, timeoutMs: 1500}); return [r.raw, r.timeoutMs]`, `[true,1500]`},
		{"an unknown option", `try { await servers.files.read_file({}, {timeout: 1}) } catch (e) { return [e.code, e.message.includes("timeout")] }`, `["VALIDATION_ERROR",true]`},
		{"arguments that are no object", `const out = []; for (const a of [1, "x", [1], true]) try { await servers.files.read_file(a) } catch (e) { out.push(e.code) } return out`, `["VALIDATION_ERROR","VALIDATION_ERROR","VALIDATION_ERROR","VALIDATION_ERROR"]`},
		{"circular arguments", `const a = {}; a.b = {c: [a]}; try { await servers.files.read_file(a) } catch (e) { return [e.code, e.message.includes(".b.c[0]")] }`, `["NOT_JSON",true]`},
		{"no tool", `try { await servers.files.call(undefined, {}) } catch (e) { return e.code }`, `"VALIDATION_ERROR"`},
		{"BigInt and dates in arguments", `return (await servers.files.read_file({n: 5n, d: new Date(0), u: undefined})).args`, `{"n":"5","d":"1970-01-01T00:00:00.000Z"}`},
		{"an unknown server is the host's to judge", `const r = await servers.fils.read_file({n: 1}); return [r.server, r.tool, r.args]`, `["fils","read_file",{"n":1}]`},
		{"an unknown server by any name", `return (await servers["no such/one\ud800"].call("x")).server`, "\"no such/one\ufffd\""},
		{"boxed values", `return [new Number(3), Object("s"), Object(true), Object(1n), {n: new Number(1)}]`, `[3,"s",true,"1",{"n":1}]`},
		{"a clone of a boxed value", `return structuredClone(Object(1)) + 1`, `2`},
		{"list", `return servers.list().map(s => s.name)`, `["files","my server/2","list","__proto__","quiet","many"]`},
		{"list has what is known", `const s = servers.list()[0]; return [s.title, s.state, s.tools.length]`, `["Files","IDLE",3]`},
		{"list has an array of tools of every server", `return servers.list().filter(s => s.tools.includes("a") || s.toolsOmitted).map(s => s.name)`, `["__proto__","many"]`},
		{"list says whose tools it leaves out", `return servers.list().slice(-2).map(s => [s.name, s.tools, s.toolsOmitted ?? false])`, `[["quiet",[],false],["many",[],true]]`},
		{"list is new every time", `servers.list()[0].name = "x"; return servers.list()[0].name`, `"files"`},
		{"a server called list", `return [(await servers.list.list({})).server, servers.list().length]`, `["list",6]`},
		{"a server called __proto__", `return (await servers["__proto__"].a({})).server`, `"__proto__"`},
		{"tools with names of methods", `const s = servers.list; return [(await s.constructor({})).tool, (await s.toString({})).tool, (await s["__proto__"]({})).tool]`, `["constructor","toString","__proto__"]`},
		{"a tool called call", `return (await servers.list.call("call", {})).tool`, `"call"`},
		{"a tool called then", `return (await servers.list.call("then", {})).tool`, `"then"`},
		{"tools of other names need not be known", `const s = servers.many; return [(await s.inspect({})).tool, (await s.nodeType({})).tool, (await servers.inspect.x({})).server]`, `["inspect","nodeType","inspect"]`},
		{"a server is no thenable", `const s = await servers.list; return typeof s.call`, `"function"`},
		{"servers is no thenable", `return typeof (await servers).list`, `"function"`},
		{"a server has no constructor", `return [servers.files.constructor, servers.constructor, servers.files.toJSON]`, `[null,null,null]`},
		{"a server as text", "return `${servers.files}`", `"[server files]"`},
		{"in", `return ["files" in servers, "nope" in servers, "read_file" in servers.files, "nope" in servers.files]`, `[true,false,true,false]`},
		{"keys", `return Object.keys(servers)`, `["files","my server/2","list","__proto__","quiet","many"]`},
		{"discover", `return (await discover("read files", {limit: 3})).args`, `{"limit":3,"query":"read files"}`},
		{"discover an object", `return (await discover({query: "x"})).args`, `{"query":"x"}`},
		{"discover nothing", `try { await discover() } catch (e) { return e.code }`, `"VALIDATION_ERROR"`},
		{"a result", `return [(await results.r1).args, (await results.r1).kind]`, `[{"id":"r1"},"result"]`},
		{"an unknown result", `try { await results.r2 } catch (e) { return [e.code, e.hint] }`, `["RESULT_NOT_FOUND","kept are \"r1\""]`},
		{"an unknown result is caught as a promise's", `return await results.r2.catch(e => e.code)`, `"RESULT_NOT_FOUND"`},
		{"sleep", `const t = Date.now(); await sleep(20); return Date.now() - t >= 19`, `true`},
		{"a sleep too long", `const out = []; for (const ms of [30001, -1, NaN, "x"]) try { await sleep(ms) } catch (e) { out.push(e.code) } return out`, `["VALIDATION_ERROR","VALIDATION_ERROR","VALIDATION_ERROR","VALIDATION_ERROR"]`},
		{"sleeps end in order", `const out = []; await Promise.all([600, 1, 300].map(async ms => { await sleep(ms); out.push(ms) })); return out`, `[1,300,600]`},
		{"an error of a call", `try { await servers.files.fail() } catch (e) { return [e.name, e.code, e.server, e.tool, e.class, e.retryable, e.hint, e.message, e.retryAfterMs] }`,
			`["Error","TOOL_EXECUTION_ERROR","files","fail","TOOL",true,"try another","the tool says no",5]`},
		{"race", `return (await Promise.race([sleep(30000), servers.files.read_file({a: 1})])).args`, `{"a":1}`},
		{"allSettled", `return (await Promise.allSettled([servers.files.fail(), servers.files.read_file()])).map(x => x.status)`, `["rejected","fulfilled"]`},
		{"many at once", `return (await Promise.all(Array.from({length: 200}, (_, i) => servers.files.read_file({i})))).map(r => r.args.i).join()===Array.from({length: 200}, (_, i) => i).join()`, `true`},
		{"tools can be handed on", `const {read_file: f} = servers.files; return (await f({a: 1})).args`, `{"a":1}`},
		{"an empty value", `return typeof (await servers.quiet.nothing())`, `"undefined"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			start := launch
			if slices.Contains(atOnce, tt.name) {
				start = launchSelf
			}
			h := start(t, func(a *sandbox.Ask) *sandbox.Reply {
				if a.Tool == "nothing" {
					return &sandbox.Reply{}
				}
				return echo(a)
			})
			o := h.run(t, &sandbox.Script{Code: tt.code, Servers: testServers(), Results: []string{"r1"}})
			if o.Failure != nil || string(o.Value) != tt.want {
				t.Errorf("%v\n got %s\nwant %s", o.Failure, o.Value, tt.want)
			}
		})
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	o, h := js(t, `
console.log("a", 1, {b: [true, null, undefined, 5n, () => 1, Symbol("s")]}, new Map([[1, 2]]))
const c = {}; c.c = c
console.info(c)
console.warn(new TypeError("bad"), {get x() { throw 1 }})
console.error("a\ud800", "x".repeat(20000))
console.debug()
console.assert(false, "really")
console.assert(true, "no")
console.count(); console.count()
console.log(new Proxy({}, {ownKeys() { throw new Error("trap") }}), servers, servers.files)
return 1`)
	if o.Failure != nil {
		t.Fatal(o.Failure)
	}
	want := []string{
		`log: a 1 {"b":[true,null,undefined,5n,[Function],Symbol(s)]} [[1,2]]`,
		`info: {"c":[Circular]}`,
		`warn: TypeError: bad {"x":[Throws]}`,
		"error: a\ufffd " + strings.Repeat("x", 9997) + "… (10003 characters more)",
		"debug: ",
		"error: Assertion failed really",
		"log: default: 1", "log: default: 2",
		`log: [cannot be shown] `,
	}
	got := strings.Split(strings.TrimSuffix(h.text(), "\n"), "\n")
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			t.Errorf("line %d: %.200q, want %.200q", i, got[min(i, len(got)-1)], w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines: %.2000q", len(got), got)
	}
}

// A console that never stops is cut, and the value is not lost.
func TestConsoleFlood(t *testing.T) {
	t.Parallel()
	o, h := js(t, `for (let i = 0; i < 5000; i++) console.log(i); return "done"`)
	if string(o.Value) != `"done"` || o.Dropped != 4000 || strings.Count(h.text(), "\n") != 1000 {
		t.Errorf("value %s, dropped %d, lines %d", o.Value, o.Dropped, strings.Count(h.text(), "\n"))
	}
}

// Calls run side by side, no more than the limit at once, and all get through.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	var h *host
	held := make(chan *sandbox.Ask, 100)
	h = launch(t, func(a *sandbox.Ask) *sandbox.Reply { held <- a; return nil })
	if err := h.w.Run(7, &sandbox.Script{
		Code: `const r = await Promise.all(Array.from({length: 10}, (_, i) => servers.files.x({i}))); return r`, Servers: testServers(),
		Limits: sandbox.Limits{Concurrent: 4},
	}); err != nil {
		t.Fatal(err)
	}
	next := func() *sandbox.Ask {
		select {
		case a := <-held:
			return a
		case err := <-h.gone:
			h.gone <- err
			t.Fatal("the worker has ended: ", err)
		case <-time.After(patience):
			t.Fatal("no ask")
		}
		return nil
	}
	var under []*sandbox.Ask
	for range 4 {
		under = append(under, next())
	}
	for answered := range 10 {
		a := under[0]
		under = under[1:]
		h.w.Reply(7, &sandbox.Reply{ID: a.ID, Value: json.RawMessage(fmt.Sprint(answered))})
		h.w.Reply(7, &sandbox.Reply{ID: a.ID, Value: json.RawMessage("99")}) // a second answer is nobody's
		h.w.Reply(8, &sandbox.Reply{ID: a.ID, Value: json.RawMessage("99")}) // nor is one to another run
		if answered < 6 {
			under = append(under, next())
		}
	}
	o, err := h.await(t, "an outcome", h.finished, nil)
	if err != nil || o.Failure != nil || string(o.Value) != "[0,1,2,3,4,5,6,7,8,9]" {
		t.Errorf("%v %v %s", err, o.Failure, o.Value)
	}
}

// What the script does not wait for is cancelled, and said.
func TestUnawaited(t *testing.T) {
	t.Parallel()
	h := launch(t, func(*sandbox.Ask) *sandbox.Reply { return nil })
	o := h.run(t, &sandbox.Script{Code: `servers.files.a(); servers.files.b(); sleep(10000); await null; return 1`, Servers: testServers()})
	if string(o.Value) != "1" || o.Cancelled != 2 {
		t.Errorf("value %s, cancelled %d", o.Value, o.Cancelled)
	}
}

// A rejection that nobody sees is told of, and does not cost the value.
func TestRejectionsAreTold(t *testing.T) {
	t.Parallel()
	o, h := js(t, "const a = 1;\n(async () => {\n  await null;\n  throw new Error('lost')\n})();\nPromise.reject(new Error('caught')).catch(() => {});\nawait sleep(5);\nreturn a")
	if string(o.Value) != "1" || h.text() != "warn: a promise was rejected and nobody awaited it: Error: lost (line 4)\n" {
		t.Errorf("value %s, failure %v, console %q", o.Value, o.Failure, h.text())
	}
}

func TestPeakIsTold(t *testing.T) {
	t.Parallel()
	if o, _ := js(t, `return 1`); o.PeakBytes < 1<<20 {
		t.Errorf("the process has taken %d bytes", o.PeakBytes)
	}
}

// A run is one at a time, and a process that is gone takes none.
func TestBusyAndGone(t *testing.T) {
	t.Parallel()
	h := launch(t, nil)
	if err := h.w.Run(1, &sandbox.Script{Code: `await sleep(30000)`}); err != nil {
		t.Fatal(err)
	}
	if err := h.w.Run(2, &sandbox.Script{Code: `return 1`}); !errors.Is(err, sandbox.ErrBusy) {
		t.Errorf("a second run: %v", err)
	}
	h.w.Kill()
	_, err := h.await(t, "the end", h.finished, h.gone)
	if err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("gone: %v", err)
	}
	h.gone <- err
	if err := h.w.Run(3, &sandbox.Script{Code: `return 1`}); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("a run of one that is gone: %v", err)
	}
	h.w.Reply(1, &sandbox.Reply{ID: 1})
	h.w.Kill()
}
