package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// Each hostile script ends with its own failure, soon enough, and the process
// is gone after it.
func TestHostile(t *testing.T) {
	t.Parallel()
	const anyLine = -1
	// Its text is too long, and needs more than the heap has: how the engine collects
	// decides which of the two is met first.
	const eitherBound = "more than the heap holds as text"
	const soon = 700 * time.Millisecond // the wall time where it is what ends the script
	deep := strings.Repeat("[", 60000) + strings.Repeat("]", 60000)
	tests := []struct {
		name, code string
		kind       sandbox.FailureKind
		message    string // a part
		line       int    // 0: not told; anyLine: as it comes
	}{
		// Loops.
		{"an endless loop", "let i = 0;\nfor (;;) f();\nfunction f() { return i++ }", sandbox.FailTimeout, "about line ", anyLine},
		{"a loop that catches everything", "for (;;) {\n  try { for (;;); } catch { } finally { continue }\n}", sandbox.FailTimeout, "did not end within", anyLine},
		{"an endless async loop", `for (;;) await null`, sandbox.FailTimeout, "did not end within", anyLine},
		{"an endless microtask loop", `(function f() { Promise.resolve().then(f) })(); await new Promise(() => {})`, sandbox.FailTimeout, "did not end within", anyLine},
		{"an endless generator", `function* g() { for (;;) yield 1 } for (const x of g()); return 1`, sandbox.FailTimeout, "did not end within", anyLine},
		{"an endless iterator in a builtin", `return Array.from({[Symbol.iterator]: () => ({next: () => ({done: false, value: null})}), length: 1}).length`, sandbox.FailTimeout, "did not end within", anyLine},
		{"endless sleeps", `for (;;) await sleep(10)`, sandbox.FailTimeout, "waited for 1 sleep(s)", 0},
		{"an endless await of a call", `await servers.files.never()`, sandbox.FailTimeout, "waited for files.never", 0},
		{"a regex bomb", "const x = 1;\n/(a+)+b/.test('a'.repeat(60))", sandbox.FailTimeout, "did not end within", anyLine},
		{"a regex bomb with look-behind", `return /^(?:(?<a>x+)+)(?<!x{3}z)$/.test("x".repeat(60) + "z")`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a native loop", `const a = []; a.length = 4294967295; return a.indexOf(1)`, sandbox.FailTimeout, "could not be interrupted", 0},
		{"a native loop over no array", `return Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)`, sandbox.FailTimeout, "could not be interrupted", 0},
		{"a native join", `const a = []; a.length = 4294967295; return a.join("").length`, sandbox.FailTimeout, "could not be interrupted", 0},
		{"a DAG as JSON", `let a = [1, 2]; for (let i = 0; i < 40; i++) a = [a, a]; return JSON.stringify(a).length`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in a getter of the value", `return {get a() { for (;;); }}`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in toJSON", `return {toJSON() { for (;;); }}`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in a trap of the value", `return new Proxy({}, {ownKeys() { for (;;); }})`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in a message", `throw {get message() { for (;;); }, toString() { for (;;); }}`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in a console argument", `console.log({get a() { for (;;); }})`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in then", `return {then() { for (;;); }}`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in an argument", `await servers.files.read_file({get a() { for (;;); }})`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in a sort", `[3, 1, 2].sort(() => { for (;;); })`, sandbox.FailTimeout, "did not end within", anyLine},
		{"a loop in valueOf of sleep", `await sleep({valueOf() { for (;;); }})`, sandbox.FailTimeout, "did not end within", anyLine},
		// Memory.
		{"an array that grows", "const a = [];\nfor (;;) a.push({a: 1, b: [2]})", sandbox.FailMemory, "out of memory", anyLine},
		{"strings that grow", `const a = []; for (;;) a.push("x".repeat(1e5) + a.length)`, sandbox.FailMemory, "out of memory", anyLine},
		{"one huge string", `return "x".repeat(2 ** 29).length`, sandbox.FailMemory, "out of memory", anyLine},
		{"a string that doubles", `let s = "abc"; for (;;) s += s`, sandbox.FailMemory, "out of memory", anyLine},
		{"a string padded", `return "x".padEnd(2 ** 29).length`, sandbox.FailMemory, "out of memory", anyLine},
		{"a typed array", `return new Float64Array(2 ** 27).length`, sandbox.FailMemory, "out of memory", anyLine},
		{"an array filled", `return new Array(2 ** 31).fill(0).length`, sandbox.FailMemory, "out of memory", anyLine},
		{"a Map that grows", `const m = new Map(); for (let i = 0; ; i++) m.set(i, {i})`, sandbox.FailMemory, "out of memory", anyLine},
		{"closures", `let f = () => 0; for (;;) { const g = f, a = [1, 2, 3]; f = () => g() + a[0] }`, sandbox.FailMemory, "out of memory", anyLine},
		{"promises", `const a = []; for (;;) a.push(new Promise(() => {}))`, sandbox.FailMemory, "out of memory", anyLine},
		{"a BigInt", `let x = 2n ** 1000n; for (;;) x = x * x`, sandbox.FailException, "BigInt is too large", 1},
		{"a replace that grows", `let s = "aaaaaaaaaa"; for (;;) s = s.replace(/a/g, "$&$&$&")`, sandbox.FailMemory, "out of memory", anyLine},
		{"split", `return "x".repeat(5e6).split("").map(x => ({x})).length`, sandbox.FailMemory, "out of memory", anyLine},
		{"a flat bomb", `let a = [1, 2]; for (let i = 0; i < 30; i++) a = [a, a]; return a.flat(Infinity).length`, 0, "", 0},
		// The stack.
		{"a recursion", "function f() {\n  return f() + 1\n}\nf()", sandbox.FailStack, "stack overflow", 2},
		{"a recursion in two", `const a = () => b(), b = () => a(); a()`, sandbox.FailStack, "stack overflow", 1},
		{"a recursion through a getter", `const o = {get a() { return this.a }}; return o.a`, sandbox.FailStack, "stack overflow", 1},
		{"a recursion through a Proxy", `let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x`, sandbox.FailStack, "stack overflow", 1},
		{"a recursion through toString", `const o = {toString() { return "" + this }}; return "" + o`, sandbox.FailStack, "stack overflow", 1},
		{"a recursion through replace", `const f = () => "a".replace(/a/, f); f()`, sandbox.FailStack, "stack overflow", 1},
		{"an async recursion", `async function f() { await f() } await f()`, sandbox.FailStack, "stack overflow", 1},
		{"JSON.stringify 60,000 deep", `let o = []; for (let i = 0; i < 60000; i++) o = [o]; return JSON.stringify(o).length`, sandbox.FailStack, "stack overflow", 1},
		{"String of an array 60,000 deep", `let o = []; for (let i = 0; i < 60000; i++) o = [o]; return String(o).length`, sandbox.FailStack, "stack overflow", 1},
		{"JSON.parse 60,000 deep", `return JSON.parse("[".repeat(60000) + "]".repeat(60000)).length`, sandbox.FailException, "stack overflow", 1},
		{"an answer 60,000 deep", `return (await servers.files.deep()).length`, sandbox.FailException, "cannot be read", 1},
		{"a source nested 20,000 deep", `return ` + strings.Repeat("(", 20000) + "1" + strings.Repeat(")", 20000), 0, "", 0},
		// Values.
		{"a value 60,000 deep", `let o = []; for (let i = 0; i < 60000; i++) o = [o]; return o`, sandbox.FailOutput, "nested more than 1000 levels", 0},
		{"a circular value", `const a = {b: [{}]}; a.b[0].c = a; return a`, sandbox.FailOutput, "circular at .b[0].c", 0},
		{"a Map that holds itself", `const m = new Map(); m.set("a", [m]); return {m}`, sandbox.FailOutput, "circular at .m.a[0]", 0},
		{"an error that is its own cause", `const e = new Error("x"); e.cause = e; return e`, sandbox.FailOutput, "circular at .cause", 0},
		{"a Set of itself", `const s = new Set(); s.add(s); return s`, sandbox.FailOutput, "circular at [0]", 0},
		{eitherBound, `return new Array(3e6).fill([])`, sandbox.FailMemory, "", 0},
		{"a circular value through toJSON", `const a = {toJSON() { return {a} }}; return a`, sandbox.FailOutput, "nested more than", 0},
		{"a console without an end", `for (;;) console.log("x")`, sandbox.FailOutput, "wrote more than 1 MiB to its console", 0},
		{"an empty console without an end", `for (;;) { try { console.log() } catch {} }`, sandbox.FailOutput, "wrote more than 1 MiB to its console", 0},
		{"a console that waits without an end", `for (;;) { console.log("x"); await null }`, sandbox.FailOutput, "wrote more than 1 MiB to its console", 0},
		{"a console without an end, in functions", `const f = async () => { for (;;) console.log("x") }; for (;;) f()`, sandbox.FailOutput, "wrote more than 1 MiB to its console", 0},
		{"a console without an end, behind calls", `for (;;) { await servers.files.read_file(); for (let i = 0; i < 5000; i++) console.log("x") }`, sandbox.FailOutput, "wrote more than 1 MiB to its console", 0},
		{"a value and a console too large", `console.log("x".repeat(9000)); for (let i = 0; i < 110; i++) console.log("x".repeat(9000)); return "y".repeat(9e5)`, sandbox.FailOutput, "the value and the console together", 0},
		{"a value too large", `return "x".repeat(11e6)`, sandbox.FailOutput, "more than 1048576", 0},
		{"a value that grows as it is read", `return new Proxy([], {get: (t, k) => k === "length" ? 1e9 : "x".repeat(1e4)})`, sandbox.FailOutput, "more than 1048576", 0},
		{"a sparse array", `const a = []; a[4294967290] = 1; return a`, sandbox.FailOutput, "more than 1048576", 0},
		{"a DAG as value", `let a = [1, 2]; for (let i = 0; i < 40; i++) a = [a, a]; return a`, sandbox.FailOutput, "more than 1048576", 0},
		{"a large argument", `await servers.files.read_file({a: "x".repeat(11e6)})`, sandbox.FailOutput, "files.read_file: more than 1048576", 1},
		{"a getter that throws", `return {get a() { throw new Error("no peeking") }}`, sandbox.FailException, "no peeking", 1},
		{"toJSON that throws", `return {toJSON() { throw new RangeError("no JSON") }}`, sandbox.FailException, "no JSON", 1},
		{"a trap that throws", `return new Proxy({}, {ownKeys() { throw new Error("trapped") }})`, sandbox.FailException, "trapped", 1},
		{"a revoked Proxy", `const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); return proxy`, sandbox.FailException, "revoked", 0},
		// What is thrown.
		{"a string thrown", `throw "just text"`, sandbox.FailException, "just text", 0},
		{"null thrown", `throw null`, sandbox.FailException, "null", 0},
		{"undefined thrown", `throw undefined`, sandbox.FailException, "undefined", 0},
		{"an object thrown", `throw {a: 1}`, sandbox.FailException, `{"a":1}`, 0},
		{"a Proxy thrown", `throw new Proxy(new Error("x"), {get() { throw 1 }, getPrototypeOf() { throw 2 }})`, sandbox.FailException, "the script threw", 0},
		{"an error whose members throw", `const e = new Error("m"); for (const k of ["message", "stack", "name", "code", "cause", "hint"]) Object.defineProperty(e, k, {get() { throw e }}); throw e`, sandbox.FailException, "without a message", 0},
		{"an error whose members lie", `const e = new Error("m"); e.stack = {}; e.code = {}; e.name = []; throw e`, sandbox.FailException, "m", 0},
		{"an aggregate", `await Promise.any([Promise.reject(new Error("one")), Promise.reject(new Error("two"))])`, sandbox.FailException, "one; two", 1},
		{"a cause", `throw new Error("outer", {cause: new Error("inner")})`, sandbox.FailException, "caused by: inner", 1},
		{"a rejection with nobody to see it", "const p = new Promise(() => {});\n(async () => { throw new Error('lost') })();\nawait p", sandbox.FailRejection, "lost", 2},
		// Nothing left.
		{"a promise that never settles", `await new Promise(() => {})`, sandbox.FailDeadlock, "nothing can settle", 0},
		{"promises that wait for each other", `let a; const b = new Promise(r => { a = async () => { await b; r() } }); await a()`, sandbox.FailDeadlock, "nothing can settle", 0},
		{"a thenable that never calls", `await {then() {}}`, sandbox.FailDeadlock, "nothing can settle", 0},
		// Too many.
		{"too many calls", `for (let i = 0; i < 2000; i++) await servers.files.read_file()`, sandbox.FailCalls, "made 1000 calls", 1},
		{"too many calls at once", `await Promise.all(Array.from({length: 5000}, () => servers.files.read_file()))`, sandbox.FailCalls, "made 1000 calls", 1},
		{"too many sleeps at once", `await Promise.all(Array.from({length: 20000}, () => sleep(30000)))`, sandbox.FailCalls, "10000 sleeps", 1},
		{"too much waiting for a place", `await Promise.all(Array.from({length: 300}, () => servers.files.never({a: "x".repeat(1e5)})))`, sandbox.FailCalls, "arguments of calls that wait are over 1 MiB", 1},
		{"unawaited promises by the thousand", `for (let i = 0; i < 50000; i++) (async () => { await null; throw new Error("x" + i) })(); await sleep(1); return "fine"`, 0, "", 0},
		// Sources.
		{"a source too long", "return 1 //" + strings.Repeat("x", 60000), sandbox.FailCode, "is 60011 bytes long; the limit is 50 KB", 0},
		{"invalid UTF-8", "return '\xff'", 0, "", 0}, // JSON has made it U+FFFD
		{"a NUL", "return '\x00'", sandbox.FailSyntax, "NUL", 0},
		{"2,000 nested arrow functions in TypeScript", "const x: any = " + strings.Repeat("() => (", 2000) + "1" + strings.Repeat(")", 2000) + "; return 1", sandbox.FailSyntax, "nested too deeply", 1},
		{"garbage", strings.Repeat("\x01{[(`${", 2000), sandbox.FailSyntax, "syntax error", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limits := sandbox.Limits{Wall: 60 * time.Second, OutputBytes: 1 << 20}
			if tt.kind == sandbox.FailTimeout {
				limits.Wall = soon
			}
			h := launch(t, func(a *sandbox.Ask) *sandbox.Reply {
				switch a.Tool {
				case "never":
					return nil
				case "deep":
					return &sandbox.Reply{Value: json.RawMessage(deep[51000:69000])} // what Go's encoder passes
				}
				return echo(a)
			})
			began := time.Now()
			o := h.run(t, &sandbox.Script{Code: tt.code, Servers: testServers(), Limits: limits})
			f := o.Failure
			if f == nil {
				if tt.kind != 0 {
					t.Fatalf("no failure, but %.200s", o.Value)
				}
				return
			}
			if tt.kind == 0 {
				t.Logf("%s: %s", f.Kind, f.Message)
				return
			}
			if tt.name == eitherBound && f.Kind == sandbox.FailOutput {
				return
			}
			if f.Kind != tt.kind || !strings.Contains(f.Message, tt.message) || (f.Line != tt.line && tt.line != anyLine) {
				t.Errorf("after %s: %s, line %d: %.1000s\nhint: %s\n%.500s\n%.500s", time.Since(began), f.Kind, f.Line, f.Message, f.Hint, f.Excerpt, f.Stack)
			}
			if f.Message == "" || len(f.Message) > 20000 || len(f.Stack) > 10000 || len(f.Excerpt) > 2000 {
				t.Errorf("sizes: message %d, stack %d, excerpt %d", len(f.Message), len(f.Stack), len(f.Excerpt))
			}
			if o.PeakBytes > 1<<30 {
				t.Errorf("the process grew to %d MiB", o.PeakBytes>>20)
			}
		})
	}
}

// A script that had to wait for its worker has less than what was asked, which
// is what its failure tells of.
func TestTimeoutTellsTheAskedTime(t *testing.T) {
	t.Parallel()
	for _, code := range []string{`for (;;);`, `await servers.files.never()`} {
		h := launch(t, func(*sandbox.Ask) *sandbox.Reply { return nil })
		o := h.run(t, &sandbox.Script{Code: code, Servers: testServers(), Limits: sandbox.Limits{Wall: 300 * time.Millisecond, Asked: 77 * time.Second}})
		if o.Failure == nil || o.Failure.Kind != sandbox.FailTimeout || !strings.Contains(o.Failure.Message, "within 1m17s") {
			t.Errorf("%s: %+v, want a timeout within 1m17s", code, o.Failure)
		}
	}
}
