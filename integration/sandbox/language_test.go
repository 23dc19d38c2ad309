package sandbox_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// What the language of 2023 has, a script has: one value each.
func TestLanguage(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, code, want string }{
		{"a number", `return 1+1`, `2`},
		{"nothing", `1+1`, ``},
		{"undefined", `return undefined`, ``},
		{"null", `return null`, `null`},
		{"top-level await", `const x = await Promise.resolve(3); return x`, `3`},
		{"a promise returned", `return Promise.resolve([1])`, `[1]`},
		{"a string of every kind", `return "\u2028é😀\n\"<>&"`, `"` + "\u2028" + `é😀\n\"<>&"`},
		{"private fields", `class A { #x = 1; static #n = 0; get x() { A.#n++; return this.#x + A.#n } has(o) { return #x in o } } const a = new A(); return [a.x, a.has(a), a.has({})]`, `[2,true,false]`},
		{"static blocks", `class A { static v; static { A.v = 5 } } return A.v`, `5`},
		{"generators", `function* g() { const x = yield 1; yield x * 2 } const i = g(); i.next(); return i.next(21).value`, `42`},
		{"async iterators", `async function* g() { for (let i = 0; i < 3; i++) { await null; yield i } } const out = []; for await (const x of g()) out.push(x); return out`, `[0,1,2]`},
		{"Map and Set", `return [new Map([["a", 1]]), new Set([1, 1, 2]), new Map([[{}, 1]])]`, `[{"a":1},[1,2],[[{},1]]]`},
		{"BigInt", `return 2n ** 70n`, `"1180591620717411303424"`},
		{"named groups", `return "2026-11-28".match(/(?<y>\d+)-(?<m>\d+)/).groups.m`, `"11"`},
		{"look-behind", `return "a1b2".replace(/(?<=b)\d/, "X")`, `"a1bX"`},
		{"unicode properties", `return "äb1".match(/\p{L}+/u)[0]`, `"äb"`},
		{"at", `return [1,2,3].at(-1)`, `3`},
		{"findLast", `return [1,2,3].findLast(x => x < 3)`, `2`},
		{"toSorted and with", `const a = [3,1,2]; return [a.toSorted(), a.toReversed(), a.with(0, 9), a.toSpliced(0, 1), a]`, `[[1,2,3],[2,1,3],[9,1,2],[1,2],[3,1,2]]`},
		{"flatMap", `return [[1],[2]].flatMap(x => x)`, `[1,2]`},
		{"groupBy", `return Object.groupBy([1,2,3], x => x % 2 ? "odd" : "even")`, `{"odd":[1,3],"even":[2]}`},
		{"fromEntries", `return Object.fromEntries(Object.entries({a: 1}).map(([k, v]) => [k + k, v]))`, `{"aa":1}`},
		{"optional chaining", `const o = {a: {b: null}}; return [o?.a?.b?.c ?? "none", o.x?.()]`, `["none",null]`},
		{"logical assignment", `let a = null; a ??= 4; a ||= 5; a &&= 6; return a`, `6`},
		{"destructuring", `const {a, ...rest} = {a: 1, b: 2}; const [x = 7, , y] = [undefined, 1, 2]; return {a, rest, x, y}`, `{"a":1,"rest":{"b":2},"x":7,"y":2}`},
		{"template literals", "return `a${1 + 1}b`", `"a2b"`},
		{"tagged templates", "const t = (s, ...v) => s.raw.join('|') + v; return t`a${1}\\n`", `"a|\\n1"`},
		{"labels and switch", `let n = 0; outer: for (;;) { for (;;) { switch (++n) { case 3: break outer } } } return n`, `3`},
		{"errors and cause", `try { throw new Error("x", {cause: 1}) } catch (e) { return [e.message, e.cause, e instanceof Error] } finally { }`, `["x",1,true]`},
		{"an aggregate error", `try { await Promise.any([Promise.reject(new Error("a"))]) } catch (e) { return e.errors.length }`, `1`},
		{"allSettled", `return (await Promise.allSettled([1, Promise.reject(new Error("no"))])).map(x => x.status)`, `["fulfilled","rejected"]`},
		{"symbols", `const s = Symbol("d"); return [s.description, {[s]: 1}[s]]`, `["d",1]`},
		{"Proxy and Reflect", `return new Proxy({}, {get: (_, k) => k + "!"}).hi`, `"hi!"`},
		{"typed arrays", `return new Uint8Array([1,2,300])`, `[1,2,44]`},
		{"dates", `return new Date(0)`, `"1970-01-01T00:00:00.000Z"`},
		{"WeakMap", `const k = {}; const w = new WeakMap([[k, 1]]); return w.get(k)`, `1`},
		{"numbers that JSON lacks", `return [NaN, Infinity, -0]`, `[null,null,0]`},
		{"numeric separators", `return 1_000`, `1000`},
		{"exponent", `return 2 ** 3 ** 2`, `512`},
		{"getters", `return {get a() { return 1 }}`, `{"a":1}`},
		{"toJSON", `return {toJSON: () => ({b: 1})}`, `{"b":1}`},
		{"functions are left out", `return {f() {}, g: () => 1, s: Symbol("x"), u: undefined, a: [undefined, () => 1]}`, `{"a":[null,null]}`},
		{"an error as value", `const e = new TypeError("x"); e.code = 5; return e`, `{"name":"TypeError","message":"x","code":5}`},
		{"structuredClone", `const a = {m: new Map([[1, new Set([2])]]), d: new Date(5)}; a.self = a; const b = structuredClone(a); return [b !== a, b.self === b, b.m.get(1).has(2), b.d.getTime()]`, `[true,true,true,5]`},
		{"queueMicrotask", `let x = 0; queueMicrotask(() => { x = 1 }); await null; await null; return x`, `1`},
		{"strict mode", `try { undeclared = 1 } catch (e) { return e.name }`, `"ReferenceError"`},
		{"this", `return this === globalThis`, `true`},
		{"no arguments", `return typeof globalThis.arguments`, `"undefined"`},
		{"a hashbang is no code", "return 1 //#!", `1`},
		{"a comment at the end", "return 1 // the end", `1`},
		{"a lone surrogate", `return "a\ud800b"`, `"a` + "\ufffd" + `b"`},
		{"a lone surrogate as a name", `return {"\udc00": 1}`, `{"` + "\ufffd" + `":1}`},
		{"a member called typed", `return {typed: new Uint8Array([1])}`, `{"typed":[1]}`},
		{"the same object twice", `const a = [1]; return [a, a]`, `[[1],[1]]`},
		{"an own member __proto__", `return JSON.parse('{"__proto__": 1}')`, `{"__proto__":1}`},
		{"a class's own prototype", `class P { x = 1; get y() { return 2 } } return new P()`, `{"x":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := value(t, tt.code); got != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.code, got, tt.want)
			}
		})
	}
}

func TestTypeScript(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, code, want string }{
		{"annotations", `const a: number = 1; function f<T>(x: T): T { return x } return f<number>(a)`, `1`},
		{"interfaces and types", "interface A { x: number }\ntype B = A & { y?: string }\nconst b: B = { x: 1 };\nreturn b", `{"x":1}`},
		{"as, satisfies and !", `const a = ({x: 1} as any) satisfies object; return a!.x`, `1`},
		{"enums", `enum E { A = 1, B } return E.B`, `2`},
		{"parameter properties", `class A { constructor(private x: number) {} get() { return this.x } } return new A(4).get()`, `4`},
		{"await", `const x: number = await Promise.resolve(1); return x`, `1`},
		{"abstract classes", `abstract class A { abstract f(): number } class B extends A { f() { return 2 } } return new B().f()`, `2`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, lang := range []sandbox.Language{sandbox.Auto, sandbox.TypeScript} {
				h := launch(t, nil)
				o := h.run(t, &sandbox.Script{Code: tt.code, Language: lang})
				if o.Failure != nil || string(o.Value) != tt.want {
					t.Errorf("%s: %v, got %s, want %s", lang, o.Failure, o.Value, tt.want)
				}
			}
			o := launch(t, nil).run(t, &sandbox.Script{Code: tt.code, Language: sandbox.JavaScript})
			if o.Failure == nil || o.Failure.Kind != sandbox.FailSyntax {
				t.Errorf("as JavaScript: %v", o.Failure)
			}
		})
	}
}

// A call with types is JavaScript too, of which nobody means what it says there.
func TestGenericCalls(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`return [...new Set<string>(["a", "b", "a"])]`:                                                   `["a","b"]`,
		"const id = <T,>(x: T): T => x;\nreturn id<number>(5)":                                           `5`,
		"function id(x) { return x }\nreturn id<number>(5)":                                              `5`,
		`return (await Promise.all<string>([servers.files.read_file({}).then(() => "x")])).length`:       `1`,
		`return [1, 2].reduce<Record<string, number>>((all, n) => { all["k" + n] = n; return all }, {})`: `{"k1":1,"k2":2}`,
		`const a = 1, b = 2; return a<b && b>(a) ? "<x>(y)" : 0`:                                         `"<x>(y)"`,
	} {
		if got := value(t, code); got != want {
			t.Errorf("%s gives %s, want %s", code, got, want)
		}
	}
}

// A brace that a string holds closes nothing, whatever else stands in the text.
func TestBracesInStrings(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`const s = "}"; function f() { return 1 } function f() { return 2 } return s + f()`: `"}2"`,
		`const s = "})"; var f = 1; function g() { return f } return [s, g()]`:              `["})",1]`,
		"const a: string = `}}`; return a":                                                  `"}}"`,
	} {
		if got := value(t, code); got != want {
			t.Errorf("%s gives %s, want %s", code, got, want)
		}
	}
}

// What models get wrong most often is told with what to write instead.
func TestHints(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`const g = servers.files.read({path: "x"}); return g.entities.map(e => e)`: "perhaps an await is missing: files.read had no answer yet",
		`const found = discover("read"); return found.map(m => m.tool)`:            "perhaps an await is missing: discover",
		`return results.r1.rows.length`:                                            "perhaps an await is missing",
		`return null.x`:                                                            "",
		`throw new TypeError("own")`:                                               "",
		"```js\nreturn 1\n```":                                                     "send the code alone",
		"```js\nif (true) {\n```":                                                  "send the code alone",
		`return await files.read({path: "x"})`:                                     "write servers.files",
		`return await mcp_call({server: "files", tool: "read"})`:                   "use servers.<name>.<tool>(args)",
		`return await results.r9`:                                                  `kept are "r1"`,
	} {
		o, _ := js(t, code)
		if f := o.Failure; f == nil || !strings.Contains(f.Hint, want) || want == "" && f.Hint != "" {
			t.Errorf("%s: %+v, want the hint %q", code, f, want)
		}
	}
	for code, want := range map[string]string{`const a: number = 1; return a`: "this is TypeScript", `const a = ; return a`: "correct the code"} {
		o := launch(t, nil).run(t, &sandbox.Script{Code: code, Language: sandbox.JavaScript})
		if f := o.Failure; f == nil || f.Kind != sandbox.FailSyntax || !strings.Contains(f.Hint, want) {
			t.Errorf("%s as JavaScript: %+v, want the hint %q", code, f, want)
		}
	}
	o := launch(t, nil).run(t, &sandbox.Script{Code: `return await results.r1`, Args: []string{}})
	if f := o.Failure; f == nil || !strings.Contains(f.Hint, "metamcp exec keeps no results") {
		t.Errorf("a kept result in a shell: %+v", f)
	}
}

// The engine has no locales: what asks for one is refused, and does not do
// something else.
func TestLocales(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`return (1234.5).toLocaleString()`:                                      `"1234.5"`,
		`return ["b", "a"].sort((x, y) => x.localeCompare(y))`:                  `["a","b"]`,
		`return "a".localeCompare("b", undefined)`:                              `-1`,
		`return typeof new Date(0).toLocaleDateString()`:                        `"string"`,
		`return [Number.prototype.toLocaleString.name, "toLocaleString" in {}]`: `["toLocaleString",true]`,
	} {
		if got := value(t, code); got != want {
			t.Errorf("%s gives %s, want %s", code, got, want)
		}
	}
	for _, code := range []string{
		`return (1234.5).toLocaleString("en-US")`, `return 5n.toLocaleString("de")`, `return [1].toLocaleString("de")`,
		`return "a".localeCompare("b", "de")`, `return "a".localeCompare("b", undefined, {numeric: true})`,
		`return new Date(0).toLocaleDateString("en-US", {month: "long"})`, `return new Date(0).toLocaleTimeString("de")`,
		`return new Date(0).toLocaleString(undefined, {timeZone: "UTC"})`, `return new Intl.NumberFormat("de").format(1)`,
	} {
		o, _ := js(t, code)
		if f := o.Failure; f == nil || f.Kind != sandbox.FailUnsupported || f.Hint == "" || f.Line != 1 {
			t.Errorf("%s: %+v, value %s", code, f, o.Value)
		}
	}
}

// A loop without anything in it that can fail has no place in the engine.
func TestPlacesOfLoops(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		"for (;;);": 1, "\n\n// a note\nwhile (true) {}": 4, "do {\n} while (true)": 1,
	} {
		o := launch(t, nil).run(t, &sandbox.Script{Code: code, Limits: sandbox.Limits{Wall: 200 * time.Millisecond}})
		if f := o.Failure; f == nil || f.Kind != sandbox.FailTimeout || f.Line != want || f.Excerpt == "" {
			t.Errorf("%q: %+v", code, f)
		}
	}
}

// What a script sees of an error's stack is its own: no line of the bridge.
func TestStacks(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"its own":          `const f = () => { throw new Error("x") }; try { f() } catch (e) { return e.stack }`,
		"of a call":        `try { await servers.files.fail() } catch (e) { return e.stack }`,
		"of bad arguments": `try { await servers.files.fail(1) } catch (e) { return e.stack }`,
		"of the bridge":    `try { servers.files = 1 } catch (e) { return e.stack }`,
		"of a sleep":       `try { await sleep(-1) } catch (e) { return e.stack }`,
		"of discover":      `try { await discover(1) } catch (e) { return e.stack }`,
		"after an await":   `await null; try { await servers.files.fail() } catch (e) { return e.stack }`,
	} {
		got := value(t, code)
		if lines := regexp.MustCompile(`:(\d+):\d+\)`).FindAllStringSubmatch(got, -1); len(lines) == 0 || slices.ContainsFunc(lines, func(l []string) bool { return l[1] != "1" }) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// Where something fails is told in the author's lines and columns.
func TestPlaces(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, code   string
		kind         sandbox.FailureKind
		line, column int
		message      string // a part
		caret        string // the text from the caret on
	}{
		{"syntax in the first line", `return 1 +* 2`, sandbox.FailSyntax, 1, 11, "Unexpected \"*\"", "* 2"},
		{"syntax in a later line", "const a = 1;\n  foo( ;\n", sandbox.FailSyntax, 2, 8, "Unexpected \";\"", ";"},
		{"a bracket too many", "if (1) {\n}\n}\nreturn 1", sandbox.FailSyntax, 3, 1, "closes nothing", "}"},
		{"a brace alone", "}", sandbox.FailSyntax, 1, 1, "closes nothing", "}"},
		{"two braces too many", "if (1) {\n  return 2\n}}", sandbox.FailSyntax, 3, 2, "closes nothing", "}"},
		{"a bracket too few", "if (1) {\n  return 1\n", sandbox.FailSyntax, 2, 11, "not closed", ""},
		{"a wrapper that was closed", "})\n(async () => {", sandbox.FailSyntax, 1, 1, "closes nothing", "}"},
		{"a wrapper that was closed and called", "return})(); console.log(1); throw new SyntaxError(\"z\"); (async()=>{", sandbox.FailSyntax, 1, 7, "closes nothing", "}"},
		{"a line behind others of TypeScript", "const a: string = \"x\u2028y\";\nconst b = 2;\nnope();\nconst d = 4", sandbox.FailException, 3, 1, "nope", "nope();"},
		{"a line behind a lone CR", "const a: string = `x\ry`;\nconst b = 2;\nnope();\nconst d = 4", sandbox.FailException, 3, 1, "nope", "nope();"},
		{"syntax behind another end of a line", "const a = \"x\u2028y\";\nconst b = ;\nreturn 1", sandbox.FailSyntax, 2, 11, "", ";"},
		{"lines with CR and LF", "const a: number = 1;\r\nnope();\r\nreturn 1", sandbox.FailException, 2, 1, "nope", "nope();"},
		{"thrown in the first line", `const x = null; x.y.z`, sandbox.FailException, 1, 18, "null", ".y.z"},
		{"thrown in a later line", "const a = 1\n\nfunction g() {\n\tthrow new TypeError('hey')\n}\ng()", sandbox.FailException, 4, 21, "TypeError: hey", "('hey')"},
		{"thrown after an await", "await null;\nawait null;\nnull.x", sandbox.FailException, 3, 5, "TypeError", ".x"},
		{"thrown in TypeScript", "interface A {\n  a: number\n}\nconst b: A = null as any;\nreturn b.a.c", sandbox.FailException, 5, 8, "TypeError", "b.a.c"},
		{"thrown in TypeScript, first line", "const b: any = null; return b.x", sandbox.FailException, 1, 29, "TypeError", "b.x"},
		{"no such name", "let x = 1;\nreturn y + 1", sandbox.FailException, 2, 8, "'y' is not defined", "y + 1"},
		{"a failed call", "const a = 1;\nawait servers.files.fail()", sandbox.FailException, 2, 25, "the tool says no", "()"},
		{"an import", "const a = 1\nimport fs from 'fs'\n", sandbox.FailUnsupported, 2, 8, "imports a module", "fs from"},
		{"an import of types", "import type {A} from 'x'\nreturn 1", sandbox.FailUnsupported, 1, 8, "imports types", "type {A}"},
		{"a namespace", "namespace A { export const b = 1 }\nreturn A.b", sandbox.FailUnsupported, 1, 11, "declares a namespace", "A {"},
		{"below a line for shells", "#!/usr/bin/env -S metamcp exec\nnull.x", sandbox.FailException, 2, 5, "TypeError", ".x"},
		{"an export", "export const a = 1", sandbox.FailUnsupported, 1, 1, "exports", "export"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, _ := js(t, tt.code)
			f := o.Failure
			if f == nil {
				t.Fatalf("no failure, but %s", o.Value)
			}
			if f.Kind != tt.kind || f.Line != tt.line || f.Column != tt.column || !strings.Contains(f.Message, tt.message) {
				t.Errorf("%s %d:%d %q\n%s\n%s", f.Kind, f.Line, f.Column, f.Message, f.Excerpt, f.Stack)
			}
			source, caret, ok := strings.Cut(f.Excerpt, "\n")
			if !ok {
				t.Fatalf("excerpt %q", f.Excerpt)
			}
			if at := strings.IndexByte(caret, '^'); at < 0 || !strings.HasPrefix(string([]rune(source + " ")[at:]), tt.caret) {
				t.Errorf("the caret is not at %q:\n%s", tt.caret, f.Excerpt)
			}
		})
	}
}
