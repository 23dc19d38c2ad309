package worker

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// FuzzBridge runs arbitrary scripts on the engine and answers their asks with
// arbitrary text. There is always one outcome, its value is JSON, its failure
// says something, and its place lies in the source.
func FuzzBridge(f *testing.F) {
	for _, code := range []string{
		`return 1`, `await servers.a.b({x: 1})`, `return servers.list()`, `throw new Error("x")`, `throw {get message() { throw 1 }}`,
		`return await discover("x")`, `const x: number = 1; return x`, `return {a: [1n, new Map([[1, 2]]), "\ud800"]}`,
		"return results.r\n}", `console.log(servers, globalThis); return Object.keys(servers)`, `import x from "y"`, `return await import("x")`,
		`Object.prototype.then = 1; Array.prototype[0] = 1; return await Promise.all([servers.a.b(), sleep(0)])`,
	} {
		f.Add(code, `{"a":1}`)
	}
	f.Add(`return await servers.a.b()`, `"\ud800`)
	f.Add(`return await servers.a.b()`, `[[[[`)
	f.Fuzz(func(t *testing.T, code, answer string) {
		var e *engine
		e, err := newEngine(func(fr *sandbox.Frame) error {
			if a := fr.Ask; a != nil {
				if !json.Valid(a.Args) {
					t.Errorf("the arguments %q are no JSON", a.Args)
				}
				r := &sandbox.Reply{ID: a.ID, Value: json.RawMessage(answer)}
				if a.ID%3 == 0 {
					r = &sandbox.Reply{ID: a.ID, Err: &sandbox.CallError{Code: answer, Message: answer}}
				}
				e.inbox.put(event{reply: r})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = e.vm.Close() }()
		e.peak = func() int64 { return 0 }
		s := &sandbox.Script{
			Code: code, Servers: []sandbox.Server{{Name: "a", Tools: []string{"b", "c-d"}}}, Results: []string{"r"},
			Limits: sandbox.Limits{Wall: 2 * time.Second, CodeBytes: 2000, HeapBytes: 16 << 20, OutputBytes: 1 << 16, Calls: 20},
		}
		e.prepare(1, s)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if time.Since(e.began) > 100*time.Millisecond {
						e.overtime.Store(true)
						e.vm.Interrupt()
						e.inbox.wake()
					}
				}
			}
		}()
		o := e.execute(s)
		switch f := o.Failure; {
		case f == nil && o.Value != nil && !json.Valid(o.Value):
			t.Errorf("the value %q is no JSON", o.Value)
		case f != nil && o.Value != nil:
			t.Errorf("a value and a failure: %q, %v", o.Value, f)
		case f != nil && (f.Message == "" || f.Kind == 0 || f.Kind == sandbox.FailCrashed):
			t.Errorf("failure %s %q", f.Kind, f.Message)
		case f != nil && (f.Line < 0 || f.Line > len(e.source.lines) || (f.Line > 0) != (f.Column > 0)):
			t.Errorf("the place %d:%d of %d lines", f.Line, f.Column, len(e.source.lines))
		}
		if _, err := sandbox.EncodeFrame(&sandbox.Frame{Run: 1, Outcome: o}); err != nil {
			t.Error(err)
		}
	})
}
