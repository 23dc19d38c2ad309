package doctor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/doctor"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/integration/testkit"
	"github.com/metamcp/metamcp/messages"
)

func TestRun(t *testing.T) {
	defer testkit.NoLeaks(t)
	hung := make(chan struct{})
	defer close(hung)
	result := func(found string) func(context.Context) []doctor.Result {
		return func(context.Context) []doctor.Result { return []doctor.Result{{Status: doctor.OK, Found: found}} }
	}
	secrets := scrub.New([]*messages.ServerSpec{{Env: []string{"API_KEY=hunter2hunter2"}}})
	checks := []doctor.Check{
		{ID: "hangs", Group: doctor.GroupState, Run: func(context.Context) []doctor.Result { <-hung; return nil }},
		{ID: "heeds", Run: func(ctx context.Context) []doctor.Result {
			<-ctx.Done()
			return []doctor.Result{{Status: doctor.Warn, Found: "late"}}
		}},
		{ID: "tells", Subject: "one", Run: result("the key is hunter2hunter2")},
		{ID: "nothing", Run: func(context.Context) []doctor.Result { return nil }},
		{ID: "long", Run: func(context.Context) []doctor.Result {
			return []doctor.Result{{Status: doctor.OK, Found: strings.Repeat("ä", 5000), Details: make([]string, 1000)}}
		}},
	}
	// Many more, so that those that hang do not hold up the rest.
	for range 20 {
		checks = append(checks, doctor.Check{ID: "more", Run: result("x")})
	}
	results := doctor.Run(t.Context(), checks, secrets, 50*time.Millisecond)
	if len(results) != len(checks)-1 {
		t.Fatalf("%d results of %d checks, one of which has none", len(results), len(checks))
	}
	for i, w := range []want{
		{"hangs", "", doctor.Fail, "did not end within 50ms", "network drive"},
		{"heeds", "", doctor.Warn, "late", ""},
		{"tells", "one", doctor.OK, "[REDACTED:API_KEY]", ""},
		{"long", "", doctor.OK, "ä…", ""},
	} {
		expect(t, results[i:i+1], w)
	}
	if results[0].Group != doctor.GroupState {
		t.Errorf("group %q", results[0].Group)
	}
	if n := len(results[3].Found); n > 2100 {
		t.Errorf("a text of %d bytes", n)
	}
	if d := results[3].Details; len(d) != 51 || d[50] != "and 950 more" {
		t.Errorf("%d details, at the end %q", len(d), d[len(d)-1])
	}
	if s := doctor.Summarize(results); s.OK != 22 || s.Warn != 1 || s.Fail != 1 || s.Skipped != 0 {
		t.Errorf("%+v", s)
	}
}

func TestRunInterrupted(t *testing.T) {
	defer testkit.NoLeaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan struct{})
	defer close(hung)
	checks := []doctor.Check{{ID: "hangs", Run: func(context.Context) []doctor.Result { cancel(); <-hung; return nil }}}
	for range 10 {
		checks = append(checks, doctor.Check{ID: "hangs", Run: func(context.Context) []doctor.Result { <-hung; return nil }})
	}
	for _, r := range doctor.Run(ctx, checks, nil, time.Hour) {
		expect(t, []doctor.Result{r}, want{"hangs", "", doctor.Skipped, "interrupted", ""})
	}
}

func TestLoad(t *testing.T) {
	if v, err := doctor.Load(func() (int, error) { return 3, nil }); v != 3 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	broken := errors.New("broken")
	if _, err := doctor.Load(func() (int, error) { return 0, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

func TestGroups(t *testing.T) {
	p := patient(t, t.TempDir(), object{"a": object{"command": "a"}}, nil)
	for _, c := range p.Checks() {
		if c.ID == "" || !slices.Contains(doctor.Groups(), c.Group) {
			t.Errorf("check %q of group %q", c.ID, c.Group)
		}
	}
}
