package metamcp

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/messages"
)

// Names that clients make up leave nothing behind, however their calls end.
func TestOnlyServersThatThereAreHaveTimes(t *testing.T) {
	var times callTimes
	thereIs := func(server string) bool { return server == "there" }
	for _, outcome := range []string{
		actors.OutcomeOK, string(messages.CodeServerNotFound), string(messages.CodeCancelled), string(messages.CodeExecutionTimeout), string(messages.CodePoolSaturated),
	} {
		for _, server := range []string{"there", "made up " + outcome} {
			times.ended(&actors.CallReport{Call: &messages.Call{Server: server}, Outcome: outcome, Took: time.Millisecond}, thereIs)
		}
	}
	times.by.Range(func(server, _ any) bool {
		if server != "there" {
			t.Errorf("there are times of %q", server)
		}
		return true
	})
	if c := times.of("there"); c.Total != 5 || c.Failed != 4 {
		t.Errorf("of the server that there is: %+v", c)
	}
}
