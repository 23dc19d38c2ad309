package metamcp_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/testkit"
)

var (
	errNotTold   = errors.New("the quarantine is not told")
	errConnected = errors.New("a server is connected")
)

// A server in quarantine is found all the same, behind those that take calls, and
// every way to look at it says that it takes none.
func TestQuarantineIsTold(t *testing.T) {
	t.Parallel()
	e := open(t, map[string][]string{"alpha": nil, "beta": nil}, map[string]any{
		"pool": map[string]any{"flapRestarts": 2, "cooldownMs": 600_000, "idleTimeoutMs": 100},
	})
	for range 2 {
		// It answers between two deaths, so that its circuit stays closed otherwise.
		testkit.Eventually(t, time.Minute, func() error {
			_, err := e.Execute(t.Context(), "alpha", "echo", []byte(`{"text":"x"}`), metamcp.ExecuteOptions{})
			return err
		})
		if _, err := e.Execute(t.Context(), "alpha", "crash", nil, metamcp.ExecuteOptions{}); err == nil {
			t.Fatal("a server that crashes has answered")
		}
	}
	tells := func(ask metamcp.DiscoverRequest) (a *metamcp.DiscoverAnswer) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() (err error) { // its death is told to the breaker
			a, err = e.Discover(t.Context(), ask)
			if err == nil && !slices.ContainsFunc(a.Notes, func(note string) bool {
				return strings.HasPrefix(note, "Do not call alpha in the next ") && strings.Contains(note, "in quarantine")
			}) {
				err = errNotTold
			}
			return err
		})
		return a
	}
	tells(metamcp.DiscoverRequest{Server: "alpha"})
	tells(metamcp.DiscoverRequest{Server: "alpha", Tool: "echo"})
	tells(metamcp.DiscoverRequest{Query: "echo"})
	if a := tells(metamcp.DiscoverRequest{Query: "zzqx"}); len(a.Matches) != 0 {
		t.Errorf("a query that fits nothing finds %v", a.Matches)
	}
	testkit.Eventually(t, time.Minute, func() error { // a connected one would stand first by that
		if slices.ContainsFunc(e.ListServers(), func(s metamcp.Server) bool { return s.Connected }) {
			return errConnected
		}
		return nil
	})
	a := tells(metamcp.DiscoverRequest{Query: "echo"})
	first := map[string]int{}
	for i, m := range slices.Backward(a.Matches) {
		if m.Tool == "echo" {
			first[m.Server] = i
		}
	}
	if len(first) != 2 || first["beta"] > first["alpha"] {
		t.Errorf("of the two echo stand at %v", first)
	}
}

// A request for a server gets one that takes calls before one that does not, in whatever
// way both are meant, and is told of one that does not.
func TestProvisionPrefersServersThatTakeCalls(t *testing.T) {
	t.Parallel()
	weather := []string{"--exit-text", "weather"} // the package that they run, as it seems
	dead := []string{"--exit-at-start=1"}
	e := open(t, map[string][]string{"alpha": weather, "beta": weather, "dead": dead}, map[string]any{
		"pool": map[string]any{"failureThreshold": 1, "cooldownMs": 3_600_000}, "search": map[string]any{"embedder": "none"},
	})
	for _, server := range []string{"alpha", "beta"} {
		if _, err := e.ListTools(t.Context(), server, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Execute(t.Context(), "alpha", "crash", nil, metamcp.ExecuteOptions{}); err == nil {
		t.Fatal("a server that crashes has answered")
	}
	if _, err := e.ListTools(t.Context(), "dead", false); err == nil {
		t.Fatal("it has started")
	}
	testkit.Eventually(t, time.Minute, func() error { // its death is told to the breaker
		a, err := e.Discover(t.Context(), metamcp.DiscoverRequest{Server: "alpha"})
		if err == nil && !slices.ContainsFunc(a.Notes, func(note string) bool { return strings.HasPrefix(note, "Do not call alpha") }) {
			err = errNotTold
		}
		return err
	})
	for _, c := range []struct{ intent, server, first, told string }{
		{"use npm:weather", "beta", "beta", ""},
		{"use npm:weather, the alpha server", "beta", "beta", ""},
		{"use the alpha server", "alpha", "alpha", "alpha"},
		{"use the dead server", "dead", "", "dead"},
		{`call "echo"`, "", "beta", "alpha"},
		{"returns the text that it is given", "", "beta", "alpha"},
		{"returns the text that alpha is given", "", "beta", "alpha"},
	} {
		a, err := e.Provision(t.Context(), metamcp.ProvisionRequest{Intent: c.intent})
		if err != nil {
			t.Fatal(err)
		}
		first := ""
		if len(a.Tools) > 0 {
			first = a.Tools[0].Server
		}
		if a.Decision != metamcp.DecisionLocal || a.Server != c.server || first != c.first {
			t.Errorf("%s: %s, server %q, tools %.300s", c.intent, a.Decision, a.Server, fmt.Sprint(a.Tools))
		}
		told := ""
		for _, note := range a.Notes {
			if rest, ok := strings.CutPrefix(note, "Do not call "); ok {
				name, _, _ := strings.Cut(rest, " ")
				told += name
			}
		}
		if told != c.told {
			t.Errorf("%s: told of %q, want %q: %q", c.intent, told, c.told, a.Notes)
		}
	}
}
