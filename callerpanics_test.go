package metamcp_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/integration/registry/fakeregistry"
	"github.com/metamcp/metamcp/integration/telemetry/fakeotlp"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

// A function of the caller that panics, or ends its goroutine, cancels what it hears of:
// nobody waits for that any more. The audit log and the spans tell of it.
func TestWhatItsCallerBreaksOffIsCancelled(t *testing.T) {
	const slow = `{"ms": 600000, "steps": 100000}`
	for name, c := range map[string]struct {
		do   func(e *metamcp.Engine, leave func()) error
		kind audit.Kind // of what it leaves in the audit log
		span string
	}{
		"Stream": {func(e *metamcp.Engine, leave func()) error {
			for range e.Stream(t.Context(), "demo", "slow", []byte(slow), metamcp.ExecuteOptions{}) {
				leave()
			}
			return nil
		}, audit.KindCall, "execute_tool slow"},
		"Run, Console": {func(e *metamcp.Engine, leave func()) error {
			_, err := e.Run(t.Context(), metamcp.RunRequest{
				Code: `console.log("begun"); await servers.demo.slow(` + slow + `)`, Console: func(metamcp.ConsoleLine) { leave() },
			})
			return err
		}, audit.KindExecute, "execute_script"},
		"Run, Progress": {func(e *metamcp.Engine, leave func()) error {
			_, err := e.Run(t.Context(), metamcp.RunRequest{
				Code: `await servers.demo.echo({text: "x"}); await servers.demo.slow(` + slow + `)`, Progress: func(metamcp.RunProgress) { leave() },
			})
			return err
		}, audit.KindExecute, "execute_script"},
		"Provision": {func(e *metamcp.Engine, leave func()) error {
			_, err := e.Provision(t.Context(), metamcp.ProvisionRequest{
				Intent: "tell the weather", Progress: func(metamcp.ProvisionStep) { leave() },
			})
			return err
		}, audit.KindProvision, "provision"},
	} {
		for how, leave := range map[string]func(){"panic": func() { panic("of the caller") }, "Goexit": runtime.Goexit} {
			t.Run(name+", "+how, func(t *testing.T) {
				withoutOTel(t)
				otlp := fakeotlp.Start(t)
				t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", otlp.URL)
				dir := t.TempDir()
				file := filepath.Join(dir, "audit.jsonl")
				reg := fakeregistry.Start(t, fakeregistry.Server("io.github.acme/weather", "1.2.3", "Tells the weather of any place", "@acme/weather"))
				e := openConfig(t, dir, children(map[string][]string{"demo": nil}, map[string]any{
					"audit": map[string]any{"file": file}, "registry": map[string]any{"url": reg.URL}, "search": map[string]any{"embedder": "none"},
				}))
				left, value := make(chan error, 1), any(nil)
				go func() {
					var err error
					defer func() {
						value = recover()
						left <- err
					}()
					err = c.do(e, leave)
				}()
				if err := <-left; err != nil {
					t.Fatalf("it was not broken off: %v", err)
				}
				if how == "panic" && value != "of the caller" {
					t.Errorf("the caller's panic becomes %v", value)
				}
				testkit.Eventually(t, time.Minute, func() error {
					st, err := e.HostStatus(t.Context(), true)
					if err == nil && (st.Calls.InFlight > 0 || slices.ContainsFunc(st.Actors, func(a messages.ActorStatus) bool { return filepath.Base(filepath.Dir(a.ID)) == "sandbox" })) {
						err = fmt.Errorf("it goes on: %d calls, actors %+v", st.Calls.InFlight, st.Actors)
					}
					return err
				})
				if err := e.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				var outcomes []string
				for r, err := range audit.Records(file) {
					if err != nil {
						t.Fatal(err)
					}
					if r.Kind == c.kind && (r.Kind != audit.KindCall || r.Tool == "slow") {
						outcomes = append(outcomes, r.Outcome)
					}
				}
				if !slices.Equal(outcomes, []string{string(messages.CodeCancelled)}) {
					t.Errorf("the audit log has the outcomes %q", outcomes)
				}
				spans := 0
				for _, s := range otlp.Spans() {
					if s.GetName() == c.span && s.GetKind().String() == "SPAN_KIND_INTERNAL" {
						spans++
					}
				}
				if spans != 1 {
					t.Errorf("%d spans %q, want one:\n%s", spans, c.span, otlp.Text())
				}
			})
		}
	}
}
