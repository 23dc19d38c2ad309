// The bridge: everything that a script finds besides ECMAScript. It is
// evaluated before any script and keeps the intrinsics it needs, so that what a
// script does to its globals changes nothing here. Results are made with object
// literals and captured functions only: literals define their members, where an
// assignment would meet a setter on a polluted prototype.
(function (hostAsk, hostSleep, hostKeep, hostSay, hostSettled, hostDone, hostFail) {
  "use strict";
  const G = globalThis;
  const apply = Reflect.apply;
  const uncurry = (f) => Function.prototype.call.bind(f);
  const O = Object, Err = Error, TErr = TypeError, RErr = RangeError, P = Promise, Prox = Proxy, Str = String, Num = Number;
  const create = O.create, freeze = O.freeze, keysOf = O.keys, protoOf = O.getPrototypeOf, define = O.defineProperty;
  const describeProp = O.getOwnPropertyDescriptor;
  const ObjectProto = O.prototype, FunctionProto = Function.prototype;
  const isArray = Array.isArray;
  const quote = JSON.stringify, parse = JSON.parse;
  const isFinite = Num.isFinite, ceil = Math.ceil;
  const tagOf = uncurry(ObjectProto.toString);
  const wellFormed = uncurry(Str.prototype.toWellFormed);
  const slice = uncurry(Str.prototype.slice);
  const charCode = uncurry(Str.prototype.charCodeAt);
  const indexOf = uncurry(Str.prototype.indexOf);
  const bigToString = uncurry(BigInt.prototype.toString);
  const symToString = uncurry(Symbol.prototype.toString);
  const mapGet = uncurry(Map.prototype.get), mapSet = uncurry(Map.prototype.set), mapHas = uncurry(Map.prototype.has);
  const mapDelete = uncurry(Map.prototype.delete), mapEach = uncurry(Map.prototype.forEach);
  const setAdd = uncurry(Set.prototype.add), setHas = uncurry(Set.prototype.has), setDelete = uncurry(Set.prototype.delete);
  const setEach = uncurry(Set.prototype.forEach);
  const dateTime = uncurry(Date.prototype.getTime), now = Date.now;
  const then = uncurry(P.prototype.then);
  const typedTag = uncurry(describeProp(protoOf(Uint8Array.prototype), Symbol.toStringTag).get);
  const typedLength = uncurry(describeProp(protoOf(Uint8Array.prototype), "length").get);
  const typedSlice = uncurry(protoOf(Uint8Array.prototype).slice);
  const bufferSlice = uncurry(ArrayBuffer.prototype.slice);
  const D = Date, M = Map, S = Set, RE = RegExp;

  // cleaned leaves the author's frames in an error of ours.
  const BRIDGE_LINE = 65536; // bridgeLine of engine.go
  const cleaned = (e) => {
    const all = e.stack;
    let own = "";
    for (let from = 0; from < all.length;) {
      const feed = indexOf(all, "\n", from);
      const end = feed < 0 ? all.length : feed + 1;
      const frame = slice(all, from, end);
      const at = indexOf(frame, "<eval>:");
      let n = 0;
      for (let i = at + 7; at >= 0 && i < frame.length; i++) {
        const digit = charCode(frame, i) - 48;
        if (digit < 0 || digit > 9) break;
        n = n * 10 + digit;
      }
      if (at >= 0 && n < BRIDGE_LINE) own += frame;
      from = end;
    }
    return define(e, "stack", { __proto__: null, value: own, writable: true, configurable: true, enumerable: false });
  };
  const fault = (E, code, message, hint) => {
    const e = cleaned(new E(message));
    define(e, "code", { __proto__: null, value: code, enumerable: true, writable: true, configurable: true });
    if (hint !== undefined) define(e, "hint", { __proto__: null, value: hint, enumerable: true, writable: true, configurable: true });
    return e;
  };
  const name = (t) => slice(Str(t), 0, 200);

  // ---- values as JSON ------------------------------------------------------

  const MAX_DEPTH = 1000;
  const isKind = (v, tag, brand) => {
    if (tagOf(v) !== tag) return false;
    try { brand(v); return true; } catch { return false; }
  };
  const mapSize = uncurry(describeProp(M.prototype, "size").get), setSize = uncurry(describeProp(S.prototype, "size").get);

  const valueOfNumber = uncurry(Num.prototype.valueOf), valueOfString = uncurry(Str.prototype.valueOf);
  const valueOfBoolean = uncurry(Boolean.prototype.valueOf), valueOfBig = uncurry(BigInt.prototype.valueOf);

  // unboxed is the primitive value of an object that has one, else the object.
  const unboxed = (v) => {
    const proto = protoOf(v);
    if (proto === ObjectProto || proto === null || isArray(v)) return v;
    switch (tagOf(v)) {
      case "[object Number]": return isKind(v, "[object Number]", valueOfNumber) ? valueOfNumber(v) : v;
      case "[object String]": return isKind(v, "[object String]", valueOfString) ? valueOfString(v) : v;
      case "[object Boolean]": return isKind(v, "[object Boolean]", valueOfBoolean) ? valueOfBoolean(v) : v;
      case "[object BigInt]": return isKind(v, "[object BigInt]", valueOfBig) ? valueOfBig(v) : v;
    }
    return v;
  };

  // plain returns what stands for an object that JSON would lose.
  const plain = (v) => {
    const proto = protoOf(v);
    if (proto === ObjectProto || proto === null) return v;
    if (isKind(v, "[object Map]", mapSize)) {
      let named = true;
      mapEach(v, (_, k) => { if (typeof k !== "string") named = false; });
      const out = named ? create(null) : [];
      let n = 0;
      mapEach(v, (x, k) => {
        define(out, named ? k : n++, { __proto__: null, value: named ? x : [k, x], enumerable: true, writable: true, configurable: true });
      });
      return out;
    }
    if (isKind(v, "[object Set]", setSize)) {
      const out = [];
      let n = 0;
      setEach(v, (x) => { define(out, n++, { __proto__: null, value: x, enumerable: true, writable: true, configurable: true }); });
      return out;
    }
    if (v instanceof Err) {
      const out = create(null);
      out.name = v.name; out.message = v.message;
      const ks = keysOf(v);
      for (let i = 0; i < ks.length; i++) out[ks[i]] = v[ks[i]];
      const cause = v.cause;
      if (cause !== undefined) out.cause = cause;
      return out;
    }
    if (typedTag(v) !== undefined) {
      const out = [];
      for (let i = 0, n = typedLength(v); i < n; i++) define(out, i, { __proto__: null, value: v[i], enumerable: true, writable: true, configurable: true });
      return out;
    }
    return v;
  };

  // The heads are names of members as JSON has them, with their colons, and a comma
  // in front of all but the first: a script that calls in a loop uses the same few.
  let firstHeads = create(null), nextHeads = create(null), heads = 0;
  const headOf = (k, i) => {
    const head = (i > 0 ? "," : "") + quote(k) + ":";
    if (k.length > 64) return head;
    if (++heads > 1000) {
      firstHeads = create(null);
      nextHeads = create(null);
      heads = 1;
    }
    return (i > 0 ? nextHeads : firstHeads)[k] = head;
  };

  // flatText returns the JSON of a small object of plain values, as most arguments
  // are, undefined for anything else: then read is what asJSON is to write. Each
  // member is read once, since a getter or a proxy may do something when it is
  // asked, or say something else another time: read is v itself where nothing of
  // it was read, else a copy.
  let read;
  const flatText = (v) => {
    if (typeof v !== "object" || v === null || protoOf(v) !== ObjectProto || v.toJSON !== undefined || isArray(v)) {
      read = v;
      return undefined;
    }
    const ks = keysOf(v), n = ks.length;
    if (n > 16) {
      read = v;
      return undefined;
    }
    let left = 4096, out = "{";
    for (let i = 0; i < n; i++) {
      const k = ks[i], x = v[k], head = (i > 0 ? nextHeads : firstHeads)[k] ?? headOf(k, i);
      switch (typeof x) {
        case "string":
          if ((left -= x.length) < 0) return copyOn(v, ks, i, x, out);
          out += head + quote(x);
          break;
        case "number": out += head + (isFinite(x) ? x : "null"); break;
        case "boolean": out += head + x; break;
        case "object": if (x === null) { out += head + "null"; break; } // falls through
        default: return copyOn(v, ks, i, x, out);
      }
    }
    return out + "}";
  };

  // copyOn copies what flatText has read up to member i, which is x, and the rest.
  // What was before x is in out.
  const copyOn = (v, ks, i, x, out) => {
    const own = create(null), had = parse(out + "}");
    for (let j = 0; j < i; j++) own[ks[j]] = had[ks[j]];
    for (own[ks[i]] = x; ++i < ks.length;) own[ks[i]] = v[ks[i]];
    read = own; // only now: a getter may have called
    return undefined;
  };
  const taken = () => {
    const own = read;
    read = undefined; // it may be large
    return own;
  };

  // What the engine's writer throws of its own accord.
  const refusal = (v) => { try { return quote(v); } catch (e) { return e.message; } };
  const CIRCULAR = refusal(((o) => o.o = o)({})), BIG = refusal(O(1n));
  const refuses = (e) => {
    try {
      const m = e.message;
      return e instanceof Err && (m === CIRCULAR || m === BIG || indexOf(m, "stack overflow") >= 0);
    } catch { return false; }
  };

  // asJSON returns what a host is given of a value, undefined where that is
  // nothing; own is what flatText made of it, where that was asked. The engine's own
  // writer does the work; the replacer, which it calls for each value, counts and
  // can be interrupted. What it refuses is written once more by serialise, which
  // knows where it went wrong; what the script threw meanwhile is not.
  const asJSON = (v, budget, what, own) => {
    if (own === undefined) {
      const t = flatText(v);
      if (t !== undefined) return t;
      own = taken();
    }
    let size = 0;
    const replace = (_, x) => {
      switch (typeof x) {
        case "string": size += x.length + 2; break;
        case "bigint": x = bigToString(x); size += x.length + 2; break;
        case "object": if (x !== null) x = plain(x); size += 2; break;
        default: size += 2;
      }
      if (size > budget) {
        throw fault(RErr, "OUTPUT_LIMIT", `${what()}: more than ${budget} characters as JSON, which is the limit`, "use less of it: filter, slice or count in the script");
      }
      return x;
    };
    try {
      return quote(own, replace);
    } catch (e) {
      if (!refuses(e)) throw e;
      return serialise(own, budget, what, false, v);
    }
  };

  // serialise writes v as JSON without recursion. With lenient it writes
  // something for everything, as a console does; else it refuses what has no end.
  // copied is the value of which v is a copy, where it is one.
  const serialise = (v, budget, what, lenient, copied) => {
    const out = { text: "" };
    const path = new S();
    if (copied !== undefined && copied !== v) setAdd(path, copied);
    let top = null; // the innermost open array or object
    let depth = 0;
    const full = () => {
      if (out.text.length > budget) {
        throw fault(RErr, "OUTPUT_LIMIT", `${what()}: more than ${budget} characters as JSON, which is the limit`, "use less of it: filter, slice or count in the script");
      }
    };
    const where = () => {
      let p = "";
      for (let t = top, n = 0; t !== null && n < 20; t = t.up, n++) p = (t.list ? `[${t.i}]` : `.${name(t.keys[t.i])}`) + p;
      return p === "" ? "" : ` at ${p}`;
    };
    const scalar = (x) => {
      switch (typeof x) {
        case "string": return quote(wellFormed(x));
        case "number": return isFinite(x) ? Str(x) : lenient ? Str(x) : "null";
        case "boolean": return x ? "true" : "false";
        case "bigint": return lenient ? bigToString(x) + "n" : `"${bigToString(x)}"`;
        case "undefined": return lenient ? "undefined" : undefined;
        case "symbol": return lenient ? symToString(x) : undefined;
        case "function": {
          if (!lenient) return undefined;
          let n = "";
          try { const own = x.name; if (typeof own === "string") n = name(own); } catch { /* a trap */ }
          return n === "" ? "[Function]" : `[Function ${n}]`;
        }
      }
      return x === null ? "null" : "";
    };
    // open begins an array or object, behind head, or returns what to write in
    // its place.
    const open = (x, key, head) => {
      const to = x.toJSON;
      if (typeof to === "function" && !(lenient && x instanceof Err)) {
        const j = apply(to, x, [key]);
        if (typeof j !== "object" || j === null) return scalar(j);
        x = j;
      }
      if (lenient && x instanceof Err) return describeError(x).text;
      const u = unboxed(x);
      if (u !== x) return scalar(u);
      const self = x; // what plain puts in its place is new each time
      if (setHas(path, self)) {
        if (lenient) return "[Circular]";
        throw fault(TErr, "NOT_JSON", `${what()}: circular${where()}`, "leave out the part that contains itself");
      }
      if (depth >= (lenient ? 12 : MAX_DEPTH)) {
        if (lenient) return "[…]";
        throw fault(RErr, "NOT_JSON", `${what()}: nested more than ${MAX_DEPTH} levels deep`, "flatten it before you return it");
      }
      x = plain(x);
      const list = isArray(x);
      const keys = list ? null : keysOf(x);
      setAdd(path, self);
      depth++;
      top = { up: top, self, src: x, list, keys, n: list ? x.length : keys.length, i: -1, some: false };
      out.text += head + (list ? "[" : "{");
      return null;
    };
    const first = typeof v === "object" && v !== null ? open(v, "", "") : scalar(v);
    if (first !== null) return first;
    while (top !== null) {
      const t = top;
      if (++t.i >= t.n) {
        out.text += t.list ? "]" : "}";
        setDelete(path, t.self);
        depth--;
        top = t.up;
        continue;
      }
      const key = t.list ? t.i : t.keys[t.i];
      let x, threw = false;
      if (lenient) {
        try { x = t.src[key]; } catch { threw = true; }
      } else {
        x = t.src[key];
      }
      let head = t.some ? "," : "";
      if (!t.list) head += quote(wellFormed(key)) + ":";
      let s;
      if (typeof x === "object" && x !== null) s = lenient ? attempt(() => open(x, Str(key), head)) : open(x, Str(key), head);
      else s = threw ? "[Throws]" : scalar(x);
      if (s === undefined && t.list) s = "null";
      if (s === undefined) continue;
      t.some = true;
      if (s !== null) out.text += head + s;
      full();
    }
    return out.text;
  };
  const attempt = (f) => { try { return f(); } catch (e) { if (isLimit(e)) throw e; return "[Throws]"; } };
  const isLimit = (e) => { try { return e.code === "OUTPUT_LIMIT"; } catch { return false; } };

  // ---- errors --------------------------------------------------------------

  const text = (f) => { try { const t = f(); return t === undefined || t === null ? "" : typeof t === "string" ? t : inspect(t, 2000); } catch { return ""; } };

  // describeError takes an exception apart; nothing that it meets can throw. What it
  // returns has no prototype, whose toJSON would have a hand in how that is written.
  const describeError = (e) => {
    if ((typeof e !== "object" && typeof e !== "function") || e === null) {
      return { __proto__: null, name: "", message: inspect(e, 2000), text: inspect(e, 2000), stack: "", thrown: false };
    }
    let isError = false;
    try { isError = e instanceof Err; } catch { /* a trap */ }
    const n = text(() => e.name), m = text(() => e.message);
    const d = {
      __proto__: null, name: slice(n, 0, 200), message: slice(isError || m !== "" ? m : inspect(e, 2000), 0, 8000), text: "",
      stack: isError ? slice(text(() => e.stack), 0, 20000) : "", code: slice(text(() => e.code), 0, 200), hint: slice(text(() => e.hint), 0, 4000),
      call: undefined, cause: "", many: undefined,
    };
    d.text = d.name !== "" && d.message !== "" ? `${d.name}: ${d.message}` : d.name + d.message;
    try {
      const c = failedRead(failed, e);
      if (c !== undefined) d.call = c;
    } catch { /* no key */ }
    try {
      if (e.cause !== undefined && e.cause !== e) d.cause = slice(typeof e.cause === "object" && e.cause !== null ? text(() => e.cause.message) : inspect(e.cause, 500), 0, 500);
    } catch { /* a trap */ }
    try {
      if (isArray(e.errors) && d.name === "AggregateError") {
        let all = "";
        for (let i = 0; i < e.errors.length && i < 5; i++) all += (i > 0 ? "; " : "") + slice(text(() => e.errors[i].message), 0, 300);
        d.many = all;
      }
    } catch { /* a trap */ }
    return d;
  };

  // ---- the console ---------------------------------------------------------

  const inspect = (v, budget) => {
    try {
      if (typeof v === "string") return wellFormed(v);
      return serialise(v, budget, () => "this", true);
    } catch (e) {
      return isLimit(e) ? "[too long to show]" : "[cannot be shown]";
    }
  };
  const MAX_LINE = 10000;
  const line = (args, from) => {
    let out = "";
    for (let i = from; i < args.length; i++) {
      if (i > from) out += " ";
      out += inspect(args[i], MAX_LINE * 4);
      if (out.length > MAX_LINE) return slice(out, 0, MAX_LINE) + `… (${out.length - MAX_LINE} characters more)`;
    }
    return out;
  };
  const say = (level, args, from) => { hostSay(level, wellFormed(line(args, from))); };
  const counts = new M(), times = new M();
  const console = {
    log(...a) { say("log", a, 0); }, info(...a) { say("info", a, 0); }, warn(...a) { say("warn", a, 0); },
    error(...a) { say("error", a, 0); }, debug(...a) { say("debug", a, 0); }, trace(...a) { say("debug", a, 0); },
    dir(v) { say("log", [v], 0); }, table(v) { say("log", [v], 0); },
    group(...a) { if (a.length > 0) say("log", a, 0); }, groupCollapsed(...a) { if (a.length > 0) say("log", a, 0); }, groupEnd() {},
    assert(ok, ...a) { if (!ok) say("error", ["Assertion failed", ...a], 0); },
    count(label = "default") { const n = (mapGet(counts, label) ?? 0) + 1; mapSet(counts, label, n); say("log", [`${name(label)}: ${n}`], 0); },
    time(label = "default") { mapSet(times, label, now()); },
    timeLog(label = "default") { say("log", [`${name(label)}: ${now() - (mapGet(times, label) ?? now())} ms`], 0); },
    timeEnd(label = "default") { say("log", [`${name(label)}: ${now() - (mapGet(times, label) ?? now())} ms`], 0); mapDelete(times, label); },
  };

  // ---- what a script asks for ----------------------------------------------

  const failed = new WeakMap(); // error: the call error it was made of
  const failedRead = uncurry(WeakMap.prototype.get), failedWrite = uncurry(WeakMap.prototype.set);
  let limits = { budget: 0, maxSleep: 0 };
  let config = { names: [], tools: [], results: [] };

  // begun is the promise of something that the host was asked for, or one that
  // was rejected since it is over a bound.
  const begun = (p) => {
    if (typeof p !== "string") return p;
    const f = parse(p);
    return rejected(fault(RErr, f.code, f.message, f.hint));
  };
  const rejected = (e) => new P((_, reject) => reject(e));
  const ordinary = freeze({ timeoutMs: 0, raw: false });
  const CALL = 1, DISCOVER = 2, RESULT = 3; // as AskKind in Go
  const ask = (kind, server, tool, args, opts) =>
    begun(opts === ordinary ? hostAsk(kind, server, tool, args) : hostAsk(kind, server, tool, args, opts.timeoutMs, opts.raw));

  const options = (o) => {
    if (o === undefined || o === null) return ordinary;
    const out = { timeoutMs: 0, raw: false };
    if (typeof o !== "object") throw fault(TErr, "VALIDATION_ERROR", "the options of a call are no object", "write {raw: true} or {timeoutMs: 5000}");
    const ks = keysOf(o);
    for (let i = 0; i < ks.length; i++) {
      const v = o[ks[i]];
      switch (ks[i]) {
        case "raw": out.raw = !!v; break;
        case "timeoutMs":
          if (v === undefined) break;
          if (typeof v !== "number" || !(v >= 1) || v > 86400000) throw fault(RErr, "VALIDATION_ERROR", `timeoutMs is ${inspect(v, 100)}; it must be a number from 1 to 86400000`);
          out.timeoutMs = ceil(v);
          break;
        default:
          throw fault(TErr, "VALIDATION_ERROR", `a call has no option ${quote(name(ks[i]))}`, "the options are raw and timeoutMs; the tool's own arguments are the object before them");
      }
    }
    return out;
  };

  const objectText = (args, what, own) => {
    if (args === undefined || args === null) return "{}";
    if (typeof args !== "object" || isArray(args)) throw fault(TErr, "VALIDATION_ERROR", `${what()} must be an object, not ${isArray(args) ? "an array" : "a " + typeof args}`, "write {name: value}");
    const t = asJSON(args, limits.budget, what, own);
    if (t === undefined || charCode(t, 0) !== 123) throw fault(TErr, "VALIDATION_ERROR", `${what()} must be an object`, "write {name: value}");
    return t;
  };

  // own is what flatText made of args, where that was asked.
  const invoke = (server, tool, args, opts, own) => {
    try {
      if (typeof tool !== "string" || tool === "") throw fault(TErr, "VALIDATION_ERROR", `the name of a tool of ${quote(server)} must be a string, not ${inspect(tool, 100)}`, `write servers[${quote(server)}].call("tool", {…})`);
      const o = options(opts);
      return ask(CALL, server, wellFormed(tool), objectText(args, () => `the arguments of ${name(server)}.${name(tool)}`, own), o);
    } catch (e) {
      return rejected(e);
    }
  };

  const listed = (names) => {
    let out = "";
    for (let i = 0; i < names.length && i < 10; i++) out += (i > 0 ? ", " : "") + quote(names[i]);
    return names.length > 10 ? out + ", …" : out;
  };

  // asIdentifier is a name with what an identifier cannot hold replaced, so that
  // read-file may be written read_file where that is meant by one tool only.
  const asIdentifier = (s) => {
    let out = "", from = 0;
    for (let i = 0; i < s.length; i++) {
      const c = charCode(s, i);
      if ((c >= 48 && c <= 57) || (c >= 65 && c <= 90) || (c >= 97 && c <= 122) || c === 36 || c === 95) continue;
      out += slice(s, from, i) + "_";
      from = i + 1;
    }
    return from === 0 ? s : out + slice(s, from);
  };

  // A register finds which of the names a key means: that name, or the only one that
  // is the key where it is written as an identifier. There may be very many names, of
  // which a script uses few: what finds them is made when it is asked for first.
  const register = (names) => ({ __proto__: null, names, exact: null, written: null });
  const holds = (r, key) => {
    if (r.exact === null) {
      r.exact = new S();
      for (let i = 0; i < r.names.length; i++) setAdd(r.exact, r.names[i]);
    }
    return setHas(r.exact, key);
  };
  // meant is undefined where the key means none of the names, or more than one.
  const meant = (r, key) => {
    if (r.names.length === 0) return undefined;
    if (holds(r, key)) return key;
    if (indexOf(key, "_") < 0) return undefined; // what asIdentifier changes has one
    if (r.written === null) {
      r.written = new M();
      for (let i = 0; i < r.names.length; i++) {
        const real = r.names[i], id = asIdentifier(real);
        if (id !== real && !setHas(r.exact, id)) mapSet(r.written, id, mapHas(r.written, id) ? undefined : real);
      }
    }
    return mapGet(r.written, key);
  };

  // What every object has, and engines look for: on servers and their handles these
  // are a server or a tool only where one is known by that name. Signatures of tools
  // (taken in integration/typescript) have to know them.
  const common = (key) => {
    switch (key) {
      case "then": case "toJSON": case "constructor": case "__proto__": case "valueOf": case "hasOwnProperty":
      case "prototype": case "isPrototypeOf": case "toLocaleString": return undefined;
    }
    return none;
  };
  const none = freeze(create(null));

  // A handle is what a script has of one server. There are as many as there are
  // servers, so that what all need is there once, and what few need is made late:
  // the handler of its proxy has but its own.
  const handle = (server, tools, target) =>
    new Prox(target, { __proto__: handles, server, known: tools === undefined ? unknown : register(tools), made: nothing });
  const unknown = register(freeze([]));
  const nothing = create(null); // also the target of those that cannot be called
  const keep = (h, key, f) => {
    if (h.made === nothing) h.made = create(null);
    return h.made[key] = freeze(f);
  };
  const toolOf = (h, key) => {
    const { server } = h, real = meant(h.known, key) ?? key;
    const sent = wellFormed(real);
    return keep(h, key, (args, opts) => {
      if (opts !== undefined || sent === "") return invoke(server, real, args, opts);
      let own;
      try { // the short way, which most calls can go
        const t = flatText(args);
        if (t !== undefined) {
          const p = hostAsk(CALL, server, sent, t);
          return typeof p === "string" ? begun(p) : p;
        }
        own = taken();
      } catch (e) {
        return rejected(e);
      }
      return invoke(server, real, args, opts, own);
    });
  };
  const callOf = (h) => {
    const { server, known } = h;
    return keep(h, "call", (t, args, opts) => invoke(server, typeof t === "string" ? meant(known, t) ?? t : t, args, opts));
  };
  const handles = { // in its traps, this is the handler of one
    __proto__: null,
    get(_, key) {
      const had = this.made[key]; // what was asked for once, by key
      if (had !== undefined) return had;
      if (typeof key !== "string") return undefined;
      if (key === "call") return callOf(this);
      if (key === "then") return undefined; // await servers.x must not call a tool
      const c = key === "toString" ? none : common(key);
      if ((key === "toString" || c !== none) && meant(this.known, key) === undefined) {
        const { server } = this;
        return key === "toString" ? () => `[server ${server}]` : c;
      }
      return toolOf(this, key);
    },
    has(_, key) { return typeof key === "string" && (key === "call" || meant(this.known, key) !== undefined); },
    set(_, key) { throw fault(TErr, "READ_ONLY", `${name(this.server)}.${typeof key === "string" ? name(key) : "…"} cannot be set`); },
    defineProperty: () => false, deleteProperty: () => false, setPrototypeOf: () => false,
    getPrototypeOf: () => null, ownKeys: () => [], getOwnPropertyDescriptor: () => undefined, isExtensible: () => true, preventExtensions: () => false,
    apply: (t) => apply(t, undefined, []),
  };

  // makeServers is given the list of the servers as a text: most scripts do not read it.
  const makeServers = (listText) => {
    const { names, tools } = config;
    const known = register(freeze(names));
    const toolsOf = new M();
    for (let i = 0; i < tools.length; i++) mapSet(toolsOf, names[tools[i].of], tools[i].names);
    const had = create(null); // what was asked for once, by key, which may be another than the name
    // A server that is not known is the host's to judge, with the first call: it
    // knows which are disabled, and an error of a call can be caught as one.
    const server = (key, real) =>
      had[key] = real !== key && real !== undefined ? had[real] ?? server(real, real) : handle(wellFormed(key), mapGet(toolsOf, key), nothing);
    const list = () => parse(listText);
    had.list = holds(known, "list") ? handle("list", mapGet(toolsOf, "list"), () => list()) : freeze(() => list());
    const get = (_, key) => {
      const h = had[key];
      if (h !== undefined) return h;
      if (typeof key !== "string") return undefined;
      const real = meant(known, key);
      if (real === undefined) {
        if (key === "toString") return () => "[servers]";
        const c = common(key);
        if (c !== none) return c;
      }
      return server(key, real);
    };
    return new Prox(nothing, {
      __proto__: null, get,
      has: (_, key) => typeof key === "string" && (key === "list" || meant(known, key) !== undefined),
      set: (_, key) => { throw fault(TErr, "READ_ONLY", `servers.${typeof key === "string" ? name(key) : "…"} cannot be set`); },
      defineProperty: () => false, deleteProperty: () => false, setPrototypeOf: () => false, getPrototypeOf: () => null,
      isExtensible: () => true, preventExtensions: () => false,
      ownKeys: () => names,
      // Whoever lists the names looks at each of these, and wants no handles.
      getOwnPropertyDescriptor: (_, key) => typeof key === "string" && holds(known, key) ?
        { __proto__: null, get: () => get(undefined, key), set: undefined, enumerable: true, configurable: true } : undefined,
    });
  };

  const nothingKept = () => config.args !== null ?
    "metamcp exec keeps no results for later runs: it prints every value whole" : "nothing is kept of earlier runs, or it was too old";

  const makeResults = () => {
    const ids = config.results;
    const known = new M(), made = new M();
    for (let i = 0; i < ids.length; i++) mapSet(known, ids[i], true);
    return new Prox(create(null), {
      __proto__: null,
      get(_, key) {
        if (typeof key !== "string") return undefined;
        if (!mapHas(known, key)) {
          const c = key === "toString" ? () => "[results]" : common(key);
          if (c !== none) return c;
          return rejected(fault(Err, "RESULT_NOT_FOUND", `there is no kept result ${quote(name(key))}`, ids.length === 0 ? nothingKept() : `kept are ${listed(ids)}`));
        }
        let p = mapGet(made, key);
        if (p === undefined) {
          p = ask(RESULT, "", "", `{"id":${quote(key)}}`, ordinary);
          mapSet(made, key, p);
        }
        return p;
      },
      has: (_, key) => mapHas(known, key),
      set: () => { throw fault(TErr, "READ_ONLY", "results cannot be set"); },
      defineProperty: () => false, deleteProperty: () => false, setPrototypeOf: () => false, getPrototypeOf: () => null,
      isExtensible: () => true, preventExtensions: () => false,
      ownKeys: () => { const out = []; for (let i = 0; i < ids.length; i++) define(out, i, { __proto__: null, value: ids[i], enumerable: true, configurable: true, writable: true }); return out; },
      getOwnPropertyDescriptor: (_, key) => mapHas(known, key) ? { __proto__: null, value: undefined, enumerable: true, configurable: true, writable: false } : undefined,
    });
  };

  const discover = (query, opts) => {
    try {
      let o;
      if (typeof query === "string") {
        o = create(null);
        if (opts !== undefined && opts !== null) {
          if (typeof opts !== "object" || isArray(opts)) throw fault(TErr, "VALIDATION_ERROR", "the options of discover must be an object", 'write discover("read files", {limit: 5})');
          const ks = keysOf(opts);
          for (let i = 0; i < ks.length; i++) o[ks[i]] = opts[ks[i]];
        }
        o.query = query;
      } else if (typeof query === "object" && query !== null && !isArray(query)) {
        o = query;
      } else {
        throw fault(TErr, "VALIDATION_ERROR", `discover needs a query, not ${inspect(query, 100)}`, 'write await discover("read files")');
      }
      return ask(DISCOVER, "", "", objectText(o, () => "the arguments of discover"), ordinary);
    } catch (e) {
      return rejected(e);
    }
  };

  const sleep = (ms = 0) => {
    const n = Num(ms);
    if (!(n >= 0) || n > limits.maxSleep) {
      return rejected(fault(RErr, "VALIDATION_ERROR", `sleep(${inspect(ms, 100)}): the time must be 0 to ${limits.maxSleep} milliseconds`, "sleep several times for longer waits"));
    }
    return begun(hostSleep(n));
  };

  // ---- what there is not ---------------------------------------------------

  const absent = (key, instead, proto) => {
    const f = function () { throw fault(Err, "UNSUPPORTED", `${key} is not available in this sandbox`, instead); };
    if (proto !== undefined) define(f, "prototype", { __proto__: null, value: proto, writable: false });
    define(f, "name", { __proto__: null, value: key });
    return f;
  };
  const put = (key, value, enumerable = false) => define(G, key, { value, writable: true, configurable: true, enumerable });
  {
    const code = "write the code into the script itself";
    const timer = "use await sleep(ms)";
    const net = "only the tools of servers reach the outside: find one with discover(query)";
    const mods = "there are no modules: standard ECMAScript, servers, discover, sleep and console are all there is";
    const all = [
      [Function, "Function"], [(async () => {}).constructor, "AsyncFunction"], [(function* () {}).constructor, "GeneratorFunction"],
      [(async function* () {}).constructor, "AsyncGeneratorFunction"],
    ];
    for (const [C, key] of all) {
      const f = absent(key, code, C.prototype);
      define(C.prototype, "constructor", { __proto__: null, value: f, writable: false, configurable: false, enumerable: false });
      if (key === "Function") put("Function", f);
    }
    put("eval", absent("eval", code));
    for (const key of ["setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "clearImmediate"]) put(key, absent(key, timer));
    for (const key of ["fetch", "XMLHttpRequest", "WebSocket", "EventSource"]) put(key, absent(key, net));
    for (const key of ["require", "importScripts"]) put(key, absent(key, mods));
    for (const key of ["SharedArrayBuffer", "Atomics", "std", "os", "bjson", "print", "scriptArgs", "navigator", "InternalError", "gc"]) delete G[key];
    // The engine knows no locales: it would take the arguments and not do what
    // they say.
    const locale = (proto, key, first, instead) => {
      const plainly = proto[key];
      const f = {
        [key](...args) {
          for (let i = first; i < args.length; i++) {
            if (args[i] !== undefined) throw fault(Err, "UNSUPPORTED", `${key} knows no locales and no options in this sandbox`, instead);
          }
          return apply(plainly, this, args);
        },
      }[key];
      define(proto, key, { __proto__: null, value: f, writable: true, configurable: true, enumerable: false });
    };
    const digits = "format with toFixed, padStart and replace(/\\B(?=(\\d{3})+$)/g, \",\")";
    const dates = "format with toISOString, getFullYear, getMonth and the like";
    locale(Num.prototype, "toLocaleString", 0, digits);
    locale(BigInt.prototype, "toLocaleString", 0, digits);
    locale(Array.prototype, "toLocaleString", 0, digits);
    for (const key of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) locale(D.prototype, key, 0, dates);
    locale(Str.prototype, "localeCompare", 1, "compare toLowerCase() of both, or numbers as numbers: localeCompare(other) alone goes by code points");
    put("console", freeze(console));
    put("discover", freeze(discover));
    put("sleep", freeze(sleep));
    put("queueMicrotask", freeze((f) => {
      if (typeof f !== "function") throw new TErr("queueMicrotask needs a function");
      then(new P((r) => r()), () => { f(); });
    }));
    put("structuredClone", freeze((v) => clone(v)));
  }

  // clone follows the standard for what scripts have: no transfer, no own classes.
  const clone = (root) => {
    const seen = new M();
    const todo = { head: null };
    const copy = (x) => {
      if (typeof x === "function" || typeof x === "symbol") throw fault(TErr, "DATA_CLONE", `structuredClone: a ${typeof x} cannot be cloned`);
      if (typeof x !== "object" || x === null) return x;
      if (mapHas(seen, x)) return mapGet(seen, x);
      let y, kind = 0;
      if (isArray(x)) { y = []; y.length = x.length; }
      else if (isKind(x, "[object Map]", mapSize)) { y = new M(); kind = 1; }
      else if (isKind(x, "[object Set]", setSize)) { y = new S(); kind = 2; }
      else if (isKind(x, "[object Date]", dateTime)) { y = new D(dateTime(x)); kind = 3; }
      else if (typedTag(x) !== undefined) { y = typedSlice(x); kind = 3; }
      else if (tagOf(x) === "[object ArrayBuffer]") { y = bufferSlice(x, 0); kind = 3; }
      else if (tagOf(x) === "[object RegExp]") { y = new RE(x.source, x.flags); kind = 3; }
      else if (x instanceof Err) { y = new Err(Str(x.message)); y.name = Str(x.name); kind = 3; }
      else if (unboxed(x) !== x) { y = O(unboxed(x)); kind = 3; }
      else y = {};
      mapSet(seen, x, y);
      if (kind < 3) todo.head = { next: todo.head, x, y, kind };
      return y;
    };
    const result = copy(root);
    while (todo.head !== null) {
      const { x, y, kind } = todo.head;
      todo.head = todo.head.next;
      if (kind === 1) mapEach(x, (v, k) => { mapSet(y, copy(k), copy(v)); });
      else if (kind === 2) setEach(x, (v) => { setAdd(y, copy(v)); });
      else {
        const ks = keysOf(x);
        for (let i = 0; i < ks.length; i++) define(y, ks[i], { __proto__: null, value: copy(x[ks[i]]), writable: true, enumerable: true, configurable: true });
      }
    }
    return result;
  };

  // ---- what the worker calls -----------------------------------------------

  const configure = (t, listText) => {
    config = parse(t);
    limits = config.limits;
    define(G, "servers", { __proto__: null, value: makeServers(listText), writable: false, configurable: false, enumerable: true });
    if (config.args !== null) put("args", config.args, true);
    define(G, "results", { __proto__: null, value: makeResults(), writable: false, configurable: false, enumerable: true });
  };

  const report = (e) => {
    const d = describeError(e);
    hostFail(quote(d));
  };

  // end waits by await, which asks nothing of the promise but its constructor,
  // where then would let the script have a hand in it.
  const end = async (p) => {
    let t;
    try {
      const v = await p;
      hostSettled();
      t = asJSON(v, limits.budget, () => "the value");
    } catch (e) {
      hostSettled();
      report(e);
      return;
    }
    hostDone(t === undefined ? "" : t);
  };

  // lost rejects the promise of a call: with the host's error t, or, where the
  // answer is no JSON, with what the engine says of it. The stack is that of the
  // moment of the call: now there is none of the author's.
  const lost = (reject, stack, t, unread) => {
    const e = new Err("");
    define(e, "stack", { __proto__: null, value: stack, writable: true, configurable: true, enumerable: false });
    cleaned(e);
    if (typeof t !== "string") {
      define(e, "message", { __proto__: null, value: `the answer cannot be read: ${text(() => unread.message)}`, writable: true, configurable: true, enumerable: false });
      define(e, "code", { __proto__: null, value: "SANDBOX_ERROR", writable: true, configurable: true, enumerable: true });
      reject(e);
      return;
    }
    const c = parse(t);
    define(e, "message", { __proto__: null, value: c.message, writable: true, configurable: true, enumerable: false });
    const ks = ["code", "server", "tool", "class", "retryable", "hint", "retryAfterMs", "details"];
    for (let i = 0; i < ks.length; i++) {
      if (c[ks[i]] !== undefined) define(e, ks[i], { __proto__: null, value: c[ks[i]], writable: true, configurable: true, enumerable: true });
    }
    failedWrite(failed, e, t);
    reject(e);
  };
  hostKeep(lost, Err);

  return (op, a, b) => {
    switch (op) {
      case "configure": return configure(a, b);
      case "end": end(a); return;
      case "describe": return quote(describeError(a));
    }
  };
})
