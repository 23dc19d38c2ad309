package supervision_test

import (
	"fmt"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// loseAnother has a server whose first instance is busy start another one for a call, which
// is lost with it.
func (s *stage) loseAnother(n uint64) {
	s.t.Helper()
	call, _ := s.call("a")
	s.hears(fmt.Sprintf("a#%d Connect", n), 1)
	s.say("a", &messages.ConnectionReady{Instance: n})
	s.say("a", &messages.Cataloged{Server: "a", Instance: n})
	s.say("a", &messages.ConnectionFailed{
		Instance: n, Started: true, Evidence: messages.Evidence{EOF: true},
		Returned: []messages.ReturnedCall{{Call: call, Written: true}},
	})
	s.say("a", &messages.ConnectionEnded{Instance: n})
	s.say("a", &messages.ConnectionClosed{Instance: n})
}

// TestRowOfFailures: what any instance answers between two failures ends their row, also
// one that is busy all the time or is gone since, and not one of another configuration.
func TestRowOfFailures(t *testing.T) {
	answers := func(s *stage) { s.gauges["a#1"].Answered.Add(1) }
	old := func(s *stage) {
		s.say("a", &messages.Respec{Restart: true, Spec: &messages.ServerSpec{Name: "a", MaxInstances: 3, Retry: messages.RetrySafe}})
	}
	for name, tt := range map[string]struct {
		before, between func(s *stage)
		want            string
	}{
		"nothing":                 {answers, func(*stage) {}, "open"},
		"an answer":               {answers, answers, "closed"},
		"an answer of one gone":   {answers, func(s *stage) { answers(s); s.over("a", 1) }, "closed"},
		"an answer of an old one": {old, answers, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil) // which opens at 2
			s.scaling()
			tt.before(s)
			s.loseAnother(2)
			tt.between(s)
			s.loseAnother(3)
			if st := s.state("a"); st != tt.want {
				t.Errorf("it is %s", st)
			}
		})
	}
}
