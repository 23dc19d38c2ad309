package worker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// answered runs a script whose calls are answered by reply at once.
func answered(t *testing.T, code string, reply func(*sandbox.Ask) *sandbox.Reply) *sandbox.Outcome {
	t.Helper()
	var e *engine
	e, err := newEngine(func(f *sandbox.Frame) error {
		if f.Ask != nil {
			r := reply(f.Ask)
			r.ID = f.Ask.ID
			e.inbox.put(event{reply: r})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.vm.Close() })
	e.peak = func() int64 { return 0 }
	s := &sandbox.Script{Code: code, Servers: []sandbox.Server{{Name: "a", Tools: []string{"b"}}}, Limits: sandbox.Limits{Wall: time.Minute}}
	e.prepare(1, s)
	return e.execute(s)
}

// A stack is written once for each place. Whatever called from there before, it
// is that of the call which failed, and none is taken for another's.
func TestPlacesOfFailedCalls(t *testing.T) {
	var many strings.Builder // more places than are remembered
	for range 2 * maxSites {
		many.WriteString("await where(() => servers.a.b());\n")
	}
	for name, tt := range map[string]struct{ code, want string }{
		"one place again and again": {"for (let i = 0; i < 3; i++)\nawait where(() => servers.a.b({i}))", `["2","2","2"]`},
		"two places in a line's loop": {
			"for (let i = 0; i < 2; i++) {\nawait where(() => servers.a.b());\nawait where(() =>\n servers.a.b()) }", `["2","4","2","4"]`,
		},
		"new functions at each turn": {
			"for (let i = 0; i < 50; i++) {\nconst f = () => servers.a.b({i}), g = () =>\n servers.a.b({i});\nawait where(i % 2 ? f : g); }\nreturn [...new Set(lines)]",
			`["3","2"]`,
		},
		"deeper than is remembered": {
			fmt.Sprintf("const f = async (n) => {\nif (n > 0) return f(n - 1);\nreturn servers.a.b() };\nawait where(() => f(%d)); await where(() => f(1))", 2*maxSiteFrames), `["3","3"]`,
		},
		"other ways to call": {
			"await where(() => servers.a.call('b'));\nawait where(() => servers.a.b({}, {timeoutMs: 5}));\nawait where(() => discover('x'))", `["1","2","3"]`,
		},
		"many places": {many.String() + "return [lines.length, new Set(lines).size]", fmt.Sprintf("[%d,%d]", 2*maxSites, 2*maxSites)},
	} {
		t.Run(name, func(t *testing.T) {
			const prelude = "const lines = []; const where = async (f) => { try { await f() } catch (e) { lines.push(/:(\\d+):\\d+\\)/.exec(e.stack)[1]) } }; "
			o := answered(t, prelude+tt.code+"\nreturn lines", func(*sandbox.Ask) *sandbox.Reply {
				return &sandbox.Reply{Err: &sandbox.CallError{Code: "X", Message: "no"}}
			})
			if o.Failure != nil {
				t.Fatalf("%s\n%s", o.Failure.Message, o.Failure.Excerpt)
			}
			if string(o.Value) != tt.want {
				t.Errorf("lines %s, want %s", o.Value, tt.want)
			}
		})
	}
}

// An answer that is no JSON rejects its call, and what is no text becomes one.
func TestAnswersThatCannotBeRead(t *testing.T) {
	for value, want := range map[string]string{
		"[[[":        `"SANDBOX_ERROR the answer cannot be read"`,
		"\"a\xffb\"": `"a` + "\ufffd" + `b"`,
		`"\ud800"`:   `"` + "\ufffd" + `"`,
		"\"a\x00b\"": `"SANDBOX_ERROR the answer cannot be read"`,
	} {
		o := answered(t, "try { return await servers.a.b() } catch (e) { return e.code + ' ' + e.message.split(':')[0] }", func(*sandbox.Ask) *sandbox.Reply {
			return &sandbox.Reply{Value: []byte(value)}
		})
		if o.Failure != nil || string(o.Value) != want {
			t.Errorf("%q: %s %+v, want %s", value, o.Value, o.Failure, want)
		}
	}
}
