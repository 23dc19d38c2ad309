package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/testkit"
)

const (
	floodCalls = 10_000
	// floodPatience ends a test whose answers do not come.
	floodPatience = 3 * time.Minute
)

// Ten thousand calls at once, to a server that has not started yet and to one
// that runs: each is answered once, with its own text or with an error that
// says why not, and a third server answers meanwhile.
func TestTenThousandCallsAtOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		flags []string
		warm  bool
	}{
		{"slow to start", []string{"--start-delay", "2s"}, false},
		{"running", nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := testkit.StartHost(t, testkit.Host{Servers: servers{"x": testkit.DemoServer(t, tt.flags...), "good": testkit.DemoServer(t)}})
			out := newAnswers(t, p)
			send := func(line string) {
				if _, err := p.Stdin().Write([]byte(line + "\n")); err != nil {
					t.Errorf("send: %v", err)
				}
			}
			echo := func(id, server, text string) string {
				return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":` + callParams(server, "echo", `{"text":`+quote(text)+`}`) + `}`
			}
			send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			send(echo(`"good 1"`, "good", "good 1"))
			if tt.warm {
				send(echo(`"warm"`, "x", "warm"))
				out.until(`"warm"`)
			}
			out.until(`"good 1"`)

			go func() {
				var batch bytes.Buffer
				for i := range floodCalls {
					batch.WriteString(echo(fmt.Sprint(i), "x", fmt.Sprint("text ", i)) + "\n")
					if i == floodCalls/2 {
						batch.WriteString(echo(`"good 2"`, "good", "good 2") + "\n")
					}
				}
				if _, err := p.Stdin().Write(batch.Bytes()); err != nil {
					t.Errorf("send: %v", err)
				}
			}()
			out.until(`"good 2"`)
			for len(out.seen) < floodCalls+out.extra {
				out.next()
			}
			results, refusals := 0, map[string]int{}
			for i := range floodCalls {
				raw := out.seen[fmt.Sprint(i)]
				if strings.Contains(string(raw), `"text":"text `+fmt.Sprint(i)+`"`) {
					results++
					continue
				}
				r := refusal(t, raw)
				if r.Hint == "" || !r.Retryable {
					t.Fatalf("request %d: an error without advice: %+v", i, r)
				}
				refusals[r.Code]++
			}
			t.Logf("%d results, refusals %v", results, refusals)
			if results == 0 {
				t.Error("no call got through")
			}
			for code := range refusals {
				if code != "POOL_SATURATED" {
					t.Errorf("a refusal with %s", code)
				}
			}
			send(echo(`"after"`, "x", "after"))
			out.until(`"after"`)
		})
	}
}

// answers reads the lines of a process and holds each request's result, so that
// a second answer to one request is found.
type answers struct {
	t     *testing.T
	scan  *bufio.Scanner
	seen  map[string]json.RawMessage
	extra int // of them, those whose id is a string
}

func newAnswers(t *testing.T, p *testkit.Process) *answers {
	t.Helper()
	out := p.Stdout(t)
	scan := bufio.NewScanner(out)
	scan.Buffer(make([]byte, 0, 64<<10), 1<<20)
	timer := time.AfterFunc(floodPatience, func() { _ = out.Close() })
	t.Cleanup(func() { timer.Stop() })
	a := &answers{t: t, scan: scan, seen: map[string]json.RawMessage{}}
	return a
}

func (a *answers) next() string {
	a.t.Helper()
	if !a.scan.Scan() {
		a.t.Fatalf("the output ends after %d answers: %v", len(a.seen), a.scan.Err())
	}
	var l testkit.Line
	if err := json.Unmarshal(a.scan.Bytes(), &l); err != nil || l.Result == nil {
		a.t.Fatalf("the line %.300s: %v", a.scan.Bytes(), err)
	}
	id := string(l.ID)
	if a.seen[id] != nil {
		a.t.Fatalf("two answers to request %s", id)
	}
	a.seen[id] = bytes.Clone(l.Result)
	if strings.HasPrefix(id, `"`) {
		a.extra++
	}
	return id
}

func (a *answers) until(id string) {
	a.t.Helper()
	for a.seen[id] == nil {
		a.next()
	}
}
