package sandbox

import (
	"encoding/json"
	"strings"
	"testing"
)

// deafEar counts what reaches the host.
type deafEar struct{ heard int }

func (e *deafEar) Ready(Status)              { e.heard++ }
func (e *deafEar) Asked(uint64, *Ask)        { e.heard++ }
func (e *deafEar) Said(uint64, Line)         { e.heard++ }
func (e *deafEar) Finished(uint64, *Outcome) { e.heard++ }
func (e *deafEar) Gone(error)                {}

// TestLies has a worker that was taken over send what no honest one does.
func TestLies(t *testing.T) {
	const run = 7
	line := func(level, text string) *Frame { return &Frame{Run: run, Line: &Line{Level: level, Text: text}} }
	ask := func(change func(*Ask)) *Frame {
		a := &Ask{ID: 1, Kind: AskCall, Server: "s", Tool: "t", Args: json.RawMessage("{}")}
		change(a)
		return &Frame{Run: run, Ask: a}
	}
	for name, tt := range map[string]struct {
		frame *Frame
		times int // that it may come before it is a lie
		says  string
	}{
		"ready again":          {&Frame{Ready: &Status{}}, 0, "second time"},
		"another run":          {&Frame{Run: run + 1, Line: &Line{Level: "log"}}, 0, "does not have"},
		"a long level":         {line(strings.Repeat("x", 1<<20), ""), 0, "level"},
		"no level":             {line("", "x"), 0, "level"},
		"lines without end":    {line("log", ""), maxHeardLines, "lines"},
		"long lines":           {line("log", strings.Repeat("x", 1<<20)), 5, "bytes"},
		"a value in a failure": {&Frame{Run: run, Outcome: &Outcome{Value: json.RawMessage("1"), Failure: &Failure{}}}, 0, "value and a failure"},
		"an ask of no kind":    {ask(func(a *Ask) { a.Kind = 99 }), 0, "asks for"},
		"an ask twice":         {ask(func(*Ask) {}), 1, "after number"},
		"no arguments":         {ask(func(a *Ask) { a.Args = json.RawMessage("[]") }), 0, "no object"},
		"a negative timeout":   {ask(func(a *Ask) { a.TimeoutMs = -1 }), 0, "negative"},
		"nothing":              {&Frame{Run: run}, 0, "no known kind"},
	} {
		t.Run(name, func(t *testing.T) {
			ear := &deafEar{}
			limits := Limits{OutputBytes: 5<<20 - besides}
			w := &Worker{ear: ear, run: run, limits: limits.WithDefaults(), asked: map[uint64]bool{}, ready: true}
			for i := range tt.times {
				if err := w.hear(tt.frame); err != nil {
					t.Fatalf("the %dth: %v", i+1, err)
				}
			}
			if err := w.hear(tt.frame); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want one that says %q", err, tt.says)
			}
			if ear.heard != tt.times {
				t.Errorf("the host heard %d frames, want %d", ear.heard, tt.times)
			}
		})
	}
	w := &Worker{ear: &deafEar{}, run: run, limits: Limits{}.WithDefaults(), asked: map[uint64]bool{}}
	if err := w.hear(&Frame{Run: run, Outcome: &Outcome{}}); err != nil {
		t.Error(err)
	}
	if err := w.hear(&Frame{Run: run, Outcome: &Outcome{}}); err == nil {
		t.Error("a run has two outcomes")
	}
}
