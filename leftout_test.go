package metamcp

import (
	"errors"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// Who asks for a server whose entry was left out for its name learns what is wrong with
// it and where, until it is mended.
func TestServerThatWasLeftOut(t *testing.T) {
	t.Parallel()
	const name = "a\ab"
	r := openReloading(t, "{\"mcpServers\":{\n\"a\\u0007b\":{\"command\":\"none\"},\"other\":{\"command\":\"none\"}}}")
	ask := map[string]func() error{
		"a call":   func() error { _, err := r.e.Execute(t.Context(), name, "tool", nil, ExecuteOptions{}); return err },
		"a search": func() error { _, err := r.e.Search(t.Context(), "tool", SearchOptions{Server: name}); return err },
		"a tool":   func() error { _, err := r.e.ToolDetails(t.Context(), name, "tool"); return err },
		"a script of it": func() error {
			_, err := r.e.Run(t.Context(), RunRequest{Code: "return 1", Servers: []string{name}})
			return err
		},
		"its log":     func() error { _, err := r.e.LogFiles(name); return err },
		"of a script": func() error { return orNil(r.e.core.Unreachable(name, nil)) },
	}
	for what, do := range ask {
		var e *Error
		if err := do(); !errors.As(err, &e) || e.Code != messages.CodeConfiguration || e.Server != name ||
			!strings.Contains(e.Message, r.src.Files[0]+":2:1: ") || !strings.Contains(e.Message, "control characters") || !strings.Contains(e.Hint, "short name") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if e := r.e.core.Unreachable(name, []string{"other"}); e == nil || e.Code != messages.CodeServerNotFound || !strings.Contains(e.Message, "not one of the servers") {
		t.Errorf("a script that may reach another: %v", e)
	}
	r.write(`{"mcpServers":{"ab":{"command":"none"}}}`)
	r.reload()
	for what, do := range ask {
		var e *Error
		if err := do(); !errors.As(err, &e) || e.Code != messages.CodeServerNotFound {
			t.Errorf("mended, %s: %v", what, err)
		}
	}
}

func orNil(err *Error) error {
	if err == nil {
		return nil
	}
	return err
}
