package sandbox_test

import (
	"strings"
	"testing"
)

// What a getter says is read once, whatever else the value has: it may do something,
// or say something else another time.
func TestGettersAreReadOnce(t *testing.T) {
	t.Parallel()
	const begin = `let n = 0; const read = () => { console.log("read"); return ++n };`
	const say = `log: read` + "\n"
	for _, tt := range []struct{ name, code, want, text string }{
		{"of a value", `return {get a() { return read() }}`, `{"a":1}`, say},
		{"of a value with an object", `return {get a() { return read() }, b: {}}`, `{"a":1,"b":{}}`, say},
		{"of a value with a long text", `return {get a() { return read() }, b: "x".repeat(4097)}.a`, `1`, say},
		{"within a value", `return {b: {get a() { return read() }}}`, `{"b":{"a":1}}`, say},
		{"of a value that has many", `const o = {}; for (let i = 0; i < 17; i++) Object.defineProperty(o, "a" + i, {get: read, enumerable: true}); return Object.keys(o).length + JSON.parse(JSON.stringify(o)).a16`, `34`, strings.Repeat(say, 17)},
		{"of arguments", `return [(await servers.files.read_file({get a() { return read() }})).args, n]`, `[{"a":1},1]`, say},
		{"of arguments with an object", `return [(await servers.files.read_file({get a() { return read() }, b: {}})).args, n]`, `[{"a":1,"b":{}},1]`, say},
		{"of arguments of call", `return [(await servers.files.call("read_file", {get a() { return read() }})).args, n]`, `[{"a":1},1]`, say},
		{"of arguments with options", `return [(await servers.files.read_file({get a() { return read() }, b: []}, {raw: true})).args, n]`, `[{"a":1,"b":[]},1]`, say},
		{"of arguments of discover", `return [(await discover({query: "x", get a() { return read() }})).args, n]`, `[{"query":"x","a":1},1]`, say},
		{"that throws", `try { await servers.files.read_file({get a() { read(); throw 1 }}) } catch (e) { return [e, n] }`, `[1,1]`, say},
		{"that throws, within", `try { await servers.files.read_file({b: {get a() { read(); throw 1 }}}) } catch (e) { return [e, n] }`, `[1,1]`, say},
		{"toJSON that throws", `try { await servers.files.read_file({b: {toJSON() { read(); throw 1 }}}) } catch (e) { return [e, n] }`, `[1,1]`, say},
		{"that grows", `return {get a() { return read() > 1 ? "x".repeat(9e6) : "small" }}`, `{"a":"small"}`, say},
		{"of arguments, that grows", `return (await servers.files.read_file({get a() { return read() > 1 ? "x".repeat(9e6) : "small" }})).args`, `{"a":"small"}`, say},
		{"that is no JSON the second time", `return {get a() { return read() > 1 ? 1n : 1 }}`, `{"a":1}`, say},
		{"that takes others away", `const o = {get a() { read(); delete o.b; return 1 }, b: 2}; return o`, `{"a":1}`, say},
		{"of a proxy", `return new Proxy({a: 0}, {get: (_, k) => k === "a" ? read() : undefined})`, `{"a":1}`, say},
		{"of an error", `const e = new Error("x"); Object.defineProperty(e, "cause", {get: read}); return e`, `{"name":"Error","message":"x","cause":1}`, say},
		{"toJSON on the console", `console.log({get toJSON() { read(); return () => 1 }}); return n`, `1`, say + "log: 1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, h := js(t, begin+tt.code)
			if o.Failure != nil || string(o.Value) != tt.want || h.text() != tt.text {
				t.Errorf("%v\n got %.200s, said %q\nwant %s", o.Failure, o.Value, h.text(), tt.want)
			}
		})
	}
}

// A call that a getter makes is made once.
func TestCallOfAGetter(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{
		`await servers.files.read_file({get a() { return servers.files.read_file({}) }})`:                                      2,
		`await servers.files.read_file({get a() { servers.files.read_file({}); return 1 }, b: []})`:                            2,
		`try { await servers.files.read_file({get a() { servers.files.read_file({}); throw new Error("x") }}) } catch {}`:      1,
		`try { await servers.files.read_file({b: {get a() { servers.files.read_file({}); throw new Error("x") }}}) } catch {}`: 1,
	} {
		_, h := js(t, code+"; await sleep(1)")
		h.mu.Lock()
		if n := len(h.asks); n != want {
			t.Errorf("%s: %d calls, want %d", code, n, want)
		}
		h.mu.Unlock()
	}
}

// What the engine's writer has no part in is written as it would write it, whatever
// the prototypes are.
func TestSmallValuesAreWrittenAsOthers(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		`return Object.setPrototypeOf([1, 2], Object.prototype)`:                                                                                                   `[1,2]`,
		`try { await servers.files.read_file(Object.setPrototypeOf([1], Object.prototype)) } catch (e) { return e.code }`:                                          `"VALIDATION_ERROR"`,
		`return {2: "b", 1: "a", z: 1, a: 2}`:                                                                                                                      `{"1":"a","2":"b","z":1,"a":2}`,
		`return {a: -0, b: NaN, c: 1e21, d: 0.1, e: false, f: null, "g\ud800\"": "\u2028\ud800\""}`:                                                                `{"a":0,"b":null,"c":1e+21,"d":0.1,"e":false,"f":null,"g` + "\ufffd" + `\"":"` + "\u2028\ufffd" + `\""}`,
		`return {a: NaN, b: "\ud800", c: null, d: true, ["e".repeat(65)]: -1, __proto__: null, f: [], g: "x", h: undefined}`:                                       `{"a":null,"b":"` + "\ufffd" + `","c":null,"d":true,"` + strings.Repeat("e", 65) + `":-1,"f":[],"g":"x"}`,
		`return {a: NaN, b: "\ud800", c: null, d: true, ["e".repeat(65)]: -1, f: [], g: "x", h: undefined}`:                                                        `{"a":null,"b":"` + "\ufffd" + `","c":null,"d":true,"` + strings.Repeat("e", 65) + `":-1,"f":[],"g":"x"}`,
		`for (let i = 0; i < 900; i++) await servers.files.read_file({["a" + i]: i, ["b" + i]: i}); return (await servers.files.read_file({a1: 1, b899: 2})).args`: `{"a1":1,"b899":2}`,
		`return {toJSON: 1, a: 2}`: `{"toJSON":1,"a":2}`,
		`Object.defineProperty(Object.prototype, "a", {set() { throw 1 }, get() { throw 2 }}); return {["a"]: 1, b: "x"}`:               `{"a":1,"b":"x"}`,
		`Object.prototype.toJSON = () => 5; return {a: 1}`:                                                                              `5`,
		`return {get a() { Object.prototype.toJSON = () => 5; return 1 }}`:                                                              `{"a":1}`,
		`const o = JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}'); return (await servers.files.read_file(o)).args.constructor`: `2`,
		`const o = {b: [{}]}; o.b[0].c = o; try { await servers.files.read_file(o) } catch (e) { return e.message }`:                    `"the arguments of files.read_file: circular at .b[0].c"`,
		`const o = JSON.parse('{"__proto__": "x"}'); return Object.keys((await servers.files.read_file(o)).args)`:                       `["__proto__"]`,
	} {
		if got := value(t, code); got != want {
			t.Errorf("%s\n got %s\nwant %s", code, got, want)
		}
	}
}
