package actors

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// What a child gives its caller to bring back is not for anybody else: it stays as
// it was where secrets are taken out.
func TestStateOutlivesTheScrubber(t *testing.T) {
	const state = `"eyJ secret\u0041"`
	f := &messages.Frame{Result: json.RawMessage(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":` + state + `,"x":"secret"}`)}
	kept := requestState(f)
	f.Result = json.RawMessage(strings.ReplaceAll(string(f.Result), "secret", "[REDACTED]"))
	keepState(f, kept)
	if got := requestState(f); string(got) != state {
		t.Errorf("the state is %s", got)
	}
	if !strings.Contains(string(f.Result), `"x":"[REDACTED]"`) {
		t.Errorf("the rest is %s", f.Result)
	}
	for _, other := range []string{`{"requestState":"a"}`, `{"resultType":"complete","requestState":"a"}`, `{"content":[{"text":"\"resultType\":\"input_required\",\"requestState\""}]}`, `[]`, ``} {
		if got := requestState(&messages.Frame{Result: json.RawMessage(other)}); got != nil {
			t.Errorf("%s has the state %s", other, got)
		}
	}
}

// Of the questions of a child no more are read than show that they are too many.
func TestInputRequestsAreBounded(t *testing.T) {
	of := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":{},`, i)
		}
		return `{"inputRequests":{` + strings.TrimSuffix(b.String(), ",") + `},"requestState":"s"}`
	}
	for text, want := range map[string]int{
		`{"inputRequests":null,"requestState":"s"}`: 0, `{"requestState":"s"}`: 0, `{"inputRequests":{"a":{"method":"m","params":{}},"b":{"method":"n"}},"requestState":"s"}`: 2,
		`{"inputRequests":{"a":{},"a":{}},"requestState":"s"}`: 1, of(maxInputs): maxInputs, of(maxInputs + 1): maxInputs + 1, of(10 * maxInputs): maxInputs + 1,
	} {
		var r inputRequests
		if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Requests) != want || string(r.State) != `"s"` {
			t.Errorf("%.80s: %d questions, state %s, %v", text, len(r.Requests), r.State, err)
		}
	}
	for _, text := range []string{`{"inputRequests":[]}`, `{"inputRequests":7}`, `{"inputRequests":{"a":[]}}`, `{"inputRequests":{"a":{"method":7}}}`} {
		if json.Unmarshal([]byte(text), new(inputRequests)) == nil {
			t.Errorf("%s is taken", text)
		}
	}
	large := []byte(of(200_000))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := json.Unmarshal(large, new(inputRequests))
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; err != nil || took > uint64(len(large)) {
		t.Errorf("%d bytes cost %d, %v", len(large), took, err)
	}
}

func TestCapabilitiesAreOfTheirForm(t *testing.T) {
	t.Parallel()
	for can, want := range map[messages.ClientCan]string{
		{}:                                       `{}`,
		{Form: true}:                             `{"elicitation":{"form":{}}}`,
		{Form: true, URL: true}:                  `{"elicitation":{"form":{},"url":{}}}`,
		{URL: true, Roots: true, Sampling: true}: `{"elicitation":{"url":{}},"roots":{},"sampling":{}}`,
		{Sampling: true, SamplingTools: true}:    `{"sampling":{"tools":{}}}`,
		{Sampling: true, SamplingTools: true, SamplingContext: true}:   `{"sampling":{"context":{},"tools":{}}}`,
		{Form: true, Roots: true}:                                      `{"elicitation":{"form":{}},"roots":{}}`,
		{SamplingTools: true, SamplingContext: true}:                   `{}`,
		{Form: true, URL: true, Sampling: true, SamplingContext: true}: `{"elicitation":{"form":{},"url":{}},"sampling":{"context":{}}}`,
	} {
		if got := string(appendCapabilities(nil, can)); got != want || !json.Valid([]byte(got)) {
			t.Errorf("%+v is %s, want %s", can, got, want)
		}
	}
}
