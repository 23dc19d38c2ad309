package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// Attempts to get out of the sandbox, by class. A script either returns
// something that shows that it got nothing, or fails in the way that is stated.
func TestEscapes(t *testing.T) {
	t.Parallel()
	const (
		unsupported = sandbox.FailUnsupported
		exception   = sandbox.FailException
	)
	type attempt struct {
		name, code string
		want       string              // the value; or
		kind       sandbox.FailureKind // the failure, and
		message    string              // a part of what it says
	}
	classes := []struct {
		class    string
		attempts []attempt
	}{
		{"files", []attempt{
			{"require", `require("fs").readFileSync("/etc/passwd")`, "", unsupported, "require is not available"},
			{"import()", `return await import("fs")`, "", unsupported, "there are no modules"},
			{"import() of a path", `return await import("/etc/passwd")`, "", unsupported, "there are no modules"},
			{"import() of a file URL", `return await import("file:///etc/passwd")`, "", unsupported, "there are no modules"},
			{"import() of data", `return await import("data:text/javascript,1")`, "", unsupported, "there are no modules"},
			{"import() of std", `return await import("std")`, "", unsupported, "there are no modules"},
			{"import() of os", `return await import("os")`, "", unsupported, "there are no modules"},
			{"import() with a lying toString", `let n = 0; return await import({toString: () => n++ ? "/etc/passwd" : "x"})`, "", unsupported, "there are no modules"},
			{"import() with attributes", `return await import("/etc/passwd", {with: {type: "json"}})`, "", unsupported, "there are no modules"},
			{"import statement", `import * as std from "std"; return std`, "", unsupported, "imports a module"},
			{"import.meta", `return import.meta.url`, "", unsupported, "there are no modules"},
			{"std and os", `return [typeof std, typeof os, typeof bjson, typeof globalThis.std]`, `["undefined","undefined","undefined","undefined"]`, 0, ""},
			{"loadScript", `return [typeof load, typeof loadFile, typeof loadScript, typeof read, typeof open]`, `["undefined","undefined","undefined","undefined","undefined"]`, 0, ""},
			{"a path in a stack", `try { null.x } catch (e) { return /[\\/]/.test(e.stack) }`, `false`, 0, ""},
			{"__dirname", `return __dirname`, "", unsupported, "__dirname is not available"},
		}},
		{"processes", []attempt{
			{"process", `return process.pid`, "", unsupported, "process is not available"},
			{"process by globalThis", `return typeof globalThis.process`, `"undefined"`, 0, ""},
			{"process.binding", `return process.binding("spawn_sync")`, "", unsupported, "process is not available"},
			{"child_process", `return require("child_process").execSync("id")`, "", unsupported, "require is not available"},
			{"Deno and Bun", `return [typeof Deno, typeof Bun, typeof Worker, typeof importScripts === "function"]`, `["undefined","undefined","undefined",true]`, 0, ""},
			{"importScripts", `importScripts("x.js")`, "", unsupported, "importScripts is not available"},
			{"WebAssembly", `return new WebAssembly.Module(new Uint8Array(8))`, "", unsupported, "WebAssembly is not available"},
			{"exit", `return [typeof exit, typeof quit, typeof abort, typeof kill]`, `["undefined","undefined","undefined","undefined"]`, 0, ""},
		}},
		{"environment", []attempt{
			{"process.env", `return process.env`, "", unsupported, "process is not available"},
			{"getenv", `return [typeof getenv, typeof scriptArgs, typeof environ]`, `["undefined","undefined","undefined"]`, 0, ""},
			{"every global", `return Object.getOwnPropertyNames(globalThis).filter(k => /metamcp|^_|host|env|path|sys|std/i.test(k))`, `[]`, 0, ""},
			{"every symbol of the global", `return Object.getOwnPropertySymbols(globalThis).map(String)`, `["Symbol(Symbol.toStringTag)"]`, 0, ""},
			{"the time zone", `return new Date(0).getTimezoneOffset()`, `0`, 0, ""},
			{"the locale", `return typeof Intl`, `"undefined"`, 0, ""},
		}},
		{"network", []attempt{
			{"fetch", `return await fetch("http://127.0.0.1/")`, "", unsupported, "fetch is not available"},
			{"XMLHttpRequest", `new XMLHttpRequest()`, "", unsupported, "XMLHttpRequest is not available"},
			{"WebSocket", `new WebSocket("ws://127.0.0.1")`, "", unsupported, "WebSocket is not available"},
			{"EventSource", `new EventSource("http://127.0.0.1")`, "", unsupported, "EventSource is not available"},
			{"import() of a URL", `return await import("http://127.0.0.1/x.js")`, "", unsupported, "there are no modules"},
			{"sendBeacon", `return typeof navigator`, `"undefined"`, 0, ""},
		}},
		{"constructors", []attempt{
			{"eval", `return eval("1+1")`, "", unsupported, "eval is not available"},
			{"indirect eval", `return (0, eval)("1+1")`, "", unsupported, "eval is not available"},
			{"eval by globalThis", `return globalThis["ev" + "al"]("1")`, "", unsupported, "eval is not available"},
			{"Function", `return Function("return 1")()`, "", unsupported, "Function is not available"},
			{"new Function", `return new Function("return this")()`, "", unsupported, "Function is not available"},
			{"a function's constructor", `return (() => {}).constructor("return 1")()`, "", unsupported, "Function is not available"},
			{"a chain of constructors", `return [].constructor.constructor("return globalThis")()`, "", unsupported, "Function is not available"},
			{"AsyncFunction", `return (async () => {}).constructor("return 1")()`, "", unsupported, "AsyncFunction is not available"},
			{"GeneratorFunction", `return (function* () {}).constructor("yield 1")()`, "", unsupported, "GeneratorFunction is not available"},
			{"AsyncGeneratorFunction", `return (async function* () {}).constructor("yield 1")()`, "", unsupported, "AsyncGeneratorFunction is not available"},
			{"by the prototype", `return Object.getPrototypeOf(async () => {}).constructor("return 1")`, "", unsupported, "AsyncFunction is not available"},
			{"by Reflect", `return Reflect.construct(Object.getPrototypeOf(function* () {}).constructor, ["yield 1"])`, "", unsupported, "GeneratorFunction is not available"},
			{"by new.target", `return Reflect.construct(Object, [], Function)`, `{}`, 0, ""},
			{"by a subclass", `class F extends Function { constructor() { super("return 1") } } return new F()()`, "", unsupported, "Function is not available"},
			{"by a bound one", `return Function.prototype.constructor.bind(null, "return 1")()()`, "", unsupported, "Function is not available"},
			{"by a host function", `return servers.list.constructor`, "", 0, ""},
			{"by console", `return console.log.constructor("return 1")()`, "", unsupported, "Function is not available"},
			{"by an error's constructor", `try { null.x } catch (e) { return e.constructor.constructor("return 1")() }`, "", unsupported, "Function is not available"},
			{"a setter on the constructor", `"use strict"; Function.prototype.constructor = 1`, "", exception, "read-only"},
			{"redefining the constructor", `Object.defineProperty(Function.prototype, "constructor", {value: 1})`, "", exception, "TypeError"},
			{"setTimeout with text", `setTimeout("1", 0)`, "", unsupported, "setTimeout is not available"},
		}},
		{"prototype", []attempt{
			{"an accessor on Object.prototype", `let seen = []; for (const k of ["code", "server", "tool", "args", "budget", "limits", "raw", "text", "resolve", "reject", "up", "src", "keys", "head", "isExtensible", "apply"]) Object.defineProperty(Object.prototype, k, {get() { seen.push(k) }, set(v) { seen.push(k + "=") }, configurable: true}); await servers.files.read_file({a: 1}); try { await servers.files.fail() } catch (e) { } console.log({b: 1}); return seen.filter(k => !["raw", "code"].includes(k))`, `[]`, 0, ""},
			{"an index setter", `let seen = 0; Object.defineProperty(Array.prototype, "0", {set() { seen++ }, configurable: true}); servers.list(); Object.keys(servers); console.log("a", [1]); const n = seen, r = await servers.files.read_file({a: [1]}); delete Array.prototype[0]; return [n, r.args]`, `[0,{"a":[1]}]`, 0, ""},
			{"other intrinsics", `JSON.stringify = JSON.parse = Promise.prototype.then = Map.prototype.get = Map.prototype.set = Array.prototype.push = Reflect.apply = Function.prototype.call = Function.prototype.apply = Object.keys = String.prototype.slice = () => { throw new Error("mine") }; return (await servers.files.read_file({a: 1})).args`, `{"a":1}`, 0, ""},
			{"Promise replaced", `globalThis.Promise = class { constructor() { throw 1 } }; return (await servers.files.read_file({a: 1})).args`, `{"a":1}`, 0, ""},
			{"Symbol.species", `Object.defineProperty(Promise, Symbol.species, {get() { throw new Error("mine") }}); return (await servers.files.read_file({a: 1})).args`, `{"a":1}`, 0, ""},
			{"toJSON for all", `Object.prototype.toJSON = () => ({stolen: 1}); let r; try { r = await servers.files.read_file({a: 1}) } finally { delete Object.prototype.toJSON } return r.args`, `{"stolen":1}`, 0, ""},
			{"toJSON of a failure, another text", `Object.prototype.toJSON = function () { return String(this) }; throw new Error("my own failure")`, "", exception, "my own failure"},
			{"toJSON of a failure, nothing", `Object.prototype.toJSON = () => undefined; throw new Error("my own failure")`, "", exception, "my own failure"},
			{"toJSON of a failure, an error", `Object.prototype.toJSON = () => { throw new Error("in toJSON") }; throw new Error("my own failure")`, "", exception, "my own failure"},
			{"toJSON of a failure, another one", `Object.prototype.toJSON = () => ({message: "forged", kind: "forged", code: "POOL_SATURATED"}); throw new Error("my own failure")`, "", exception, "my own failure"},
			{"toJSON of what is thrown and no error", `Object.prototype.toJSON = () => "forged"; throw {message: "my own failure"}`, "", exception, "my own failure"},
			{"toJSON of a text that is thrown", `Object.prototype.toJSON = () => undefined; throw "my own failure"`, "", exception, "my own failure"},
			{"toJSON of what the engine throws", `Object.prototype.toJSON = () => undefined; null.x`, "", exception, "null"},
			{"then for all", `let n = 0; Object.prototype.then = undefined; const r = await servers.files.read_file({a: 1}); delete Object.prototype.then; return r.args`, `{"a":1}`, 0, ""},
			{"a proto in an answer", `return ({}).polluted ?? (await servers.files.proto()).polluted ?? ({}).polluted ?? "clean"`, `"clean"`, 0, ""},
			{"Error.prototype", `Object.defineProperty(Error.prototype, "message", {set(v) { throw 1 }, get() { return "mine" }}); try { await servers.files.fail() } catch (e) { return e.message }`, `"the tool says no"`, 0, ""},
		}},
		{"bridge", []attempt{
			{"the host's functions", `return Object.getOwnPropertyNames(globalThis).filter(k => k.startsWith("__"))`, `[]`, 0, ""},
			{"a caller", `function f() { return f.caller } return f()`, "", exception, "TypeError"},
			{"arguments.callee", `function f() { return arguments.callee } return f()`, "", exception, "TypeError"},
			{"servers cannot be set", `servers.evil = 1`, "", exception, "cannot be set"},
			{"servers cannot be replaced", `globalThis.servers = {}`, "", exception, "read-only"},
			{"a server cannot be set", `servers.files.read_file = 1`, "", exception, "cannot be set"},
			{"a server has no prototype", `return [Object.getPrototypeOf(servers), Object.getPrototypeOf(servers.files), servers.files instanceof Object]`, `[null,null,false]`, 0, ""},
			{"a server's prototype cannot be set", `Object.setPrototypeOf(servers.files, Array.prototype)`, "", exception, "TypeError"},
			{"servers cannot be extended", `Object.defineProperty(servers, "x", {value: 1})`, "", exception, "TypeError"},
			{"a server that it may not reach", `return ["secret" in servers, Object.keys(servers).includes("secret"), JSON.stringify(servers.list()).includes("secret")]`, `[false,false,false]`, 0, ""},
			{"such a server by call", `return await servers.files.call.call({name: "secret"}, "x", {}).then(r => [r.server, r.tool])`, `["files","x"]`, 0, ""},
			{"another tool by toString", `let n = 0; return await servers.files.call({toString: () => n++ ? "evil" : "read_file"}, {})`, "", exception, "must be a string"},
			{"arguments with line feeds", `return (await servers.files.read_file({a: "\n{\"run\":1,\"outcome\":{}}\n"})).args.a.length`, `24`, 0, ""},
			{"a forged frame on the console", "console.log('\\u0000\\u0000\\u0000\\u0010{\"run\":1,\"outcome\":{\"value\":66}}'); return 1", `1`, 0, ""},
			{"a forged call error", `const e = new Error("x"); e.code = "TOOL_EXECUTION_ERROR"; e.server = "files"; throw e`, "", exception, "x"},
			{"the bridge's source tells no secret", `return /__metamcp/.test(servers.list.toString() + console.log.toString() + sleep.toString() + discover.toString())`, `false`, 0, ""},
			{"a result that is not its own", `return await results["../r1"]`, "", exception, "no kept result"},
		}},
		{"other runs", []attempt{
			{"a global left behind", `const had = typeof globalThis.left; globalThis.left = 1; return had`, `"undefined"`, 0, ""},
			{"a prototype left behind", `const had = typeof ({}).left; Object.prototype.left = 1; const r = had; delete Object.prototype.left; return r`, `"undefined"`, 0, ""},
			{"a symbol registry", `const s = Symbol.for("left"); const had = s.left; return typeof had`, `"undefined"`, 0, ""},
			{"memory that was used before", `const a = new Uint8Array(1e6); let n = 0; for (const x of a) n += x; return n`, `0`, 0, ""},
			{"a regular expression's statics", `return [typeof RegExp.lastMatch, typeof RegExp.$1]`, `["undefined","undefined"]`, 0, ""},
		}},
		{"clock", []attempt{
			{"performance", `return performance.now()`, "", unsupported, "performance is not available"},
			{"Date.now is whole milliseconds", `for (let i = 0; i < 1000; i++) if (!Number.isInteger(Date.now())) return false; return true`, `true`, 0, ""},
			{"new Date is whole milliseconds", `return Number.isInteger(+new Date()) && Number.isInteger(new Date().getMilliseconds())`, `true`, 0, ""},
			{"SharedArrayBuffer", `return new SharedArrayBuffer(8)`, "", unsupported, "SharedArrayBuffer is not available"},
			{"Atomics.wait", `return Atomics.wait(new Int32Array(4), 0, 0, 10)`, "", unsupported, "Atomics is not available"},
			{"console.time is whole milliseconds", `console.time("a"); console.timeEnd("a"); return 1`, `1`, 0, ""},
			{"a timer thread", `return setInterval(() => {}, 0)`, "", unsupported, "setInterval is not available"},
			{"a shared buffer by a typed array", `return typeof new Uint8Array(8).buffer.constructor.prototype.grow`, `"undefined"`, 0, ""},
		}},
	}
	count := 0
	for _, c := range classes {
		for _, tt := range c.attempts {
			count++
			t.Run(c.class+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				h := launch(t, func(a *sandbox.Ask) *sandbox.Reply {
					if a.Tool == "proto" {
						return &sandbox.Reply{Value: []byte(`{"__proto__":{"polluted":"yes"},"constructor":{"prototype":{"polluted":"yes"}}}`)}
					}
					return echo(a)
				})
				o := h.run(t, &sandbox.Script{Code: tt.code, Servers: testServers(), Results: []string{"r1"}, Limits: sandbox.Limits{Wall: 30 * time.Second}})
				f := o.Failure
				switch {
				case tt.kind == 0 && (f != nil || string(o.Value) != tt.want):
					t.Errorf("failure %v, value %s, want %s", f, o.Value, tt.want)
				case tt.kind != 0 && f == nil:
					t.Errorf("no failure, but %s", o.Value)
				case tt.kind != 0 && (f.Kind != tt.kind || !strings.Contains(f.Message, tt.message)):
					t.Errorf("%s: %s (%s)", f.Kind, f.Message, f.Hint)
				case f != nil && f.Thrown != nil && f.Thrown.Code != "SERVER_NOT_FOUND": // that one is the bridge's own
					t.Errorf("%+v was taken for a call's error", f.Thrown)
				}
			})
		}
	}
	if count < 60 {
		t.Errorf("only %d attempts", count)
	}
}
