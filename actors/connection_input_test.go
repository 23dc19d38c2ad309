package actors

import (
	"encoding/json"
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
