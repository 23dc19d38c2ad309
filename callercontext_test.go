package metamcp_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/messages"
)

// What a caller wants whose context has ended is not begun, and the error says so.
func TestNothingIsSentOnceTheContextHasEnded(t *testing.T) {
	e := open(t, map[string][]string{"demo": nil}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, do := range map[string]func() error{
		"Execute": func() error {
			_, err := e.Execute(ctx, "demo", "notes_add", []byte(`{"text": "x"}`), metamcp.ExecuteOptions{})
			return err
		},
		"Stream": func() error {
			var last error
			for _, err := range e.Stream(ctx, "demo", "notes_add", []byte(`{"text": "x"}`), metamcp.ExecuteOptions{}) {
				last = err
			}
			return last
		},
		"Run": func() error {
			_, err := e.Run(ctx, metamcp.RunRequest{Code: `return 1`})
			return err
		},
		"Provision": func() error {
			_, err := e.Provision(ctx, metamcp.ProvisionRequest{Intent: "tell the weather"})
			return err
		},
	} {
		err := do()
		var own *metamcp.Error
		if !errors.As(err, &own) || own.Code != messages.CodeCancelled || !errors.Is(err, context.Canceled) || !strings.HasPrefix(own.Hint, "Nothing ") {
			t.Errorf("%s: %#v", name, err)
		}
	}
	st, err := e.HostStatus(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if st.Calls.Total+st.Calls.Failed > 0 || st.Servers[0].State != "IDLE" || len(st.Servers[0].Instances) > 0 || len(st.Sandbox.Workers) > 0 {
		t.Errorf("something was begun: %+v, %+v, %+v", st.Calls, st.Servers[0], st.Sandbox)
	}
}

// A call that was made and given up may have taken effect, and the error says so.
func TestACallThatIsGivenUpMayHaveTakenEffect(t *testing.T) {
	e := open(t, map[string][]string{"demo": nil}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for u, err := range e.Stream(ctx, "demo", "slow", []byte(`{"ms": 600000, "steps": 100000}`), metamcp.ExecuteOptions{}) {
		if u.Progress != nil {
			cancel()
		}
		last = err
	}
	var own *metamcp.Error
	if !errors.As(last, &own) || own.Code != messages.CodeCancelled || !errors.Is(last, context.Canceled) ||
		!strings.Contains(own.Message, "whether it took effect is unknown") || !strings.Contains(own.Hint, "before you repeat it") {
		t.Errorf("%#v", last)
	}
}
