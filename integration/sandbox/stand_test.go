package sandbox_test

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// While the host says so the time of a script that waits stands still; that of one
// that works does not.
func TestTimeStandsStill(t *testing.T) {
	t.Parallel()
	const wall = time.Second
	answered := func(h **host) func(a *sandbox.Ask) *sandbox.Reply {
		return func(a *sandbox.Ask) *sandbox.Reply {
			(*h).w.Stand(1, true)
			if a.Tool != "read_file" {
				return nil
			}
			<-time.After(2 * wall)
			(*h).w.Stand(1, false)
			return echo(a)
		}
	}
	for name, c := range map[string]struct {
		code    string
		timeout bool
	}{
		"it waits":                      {code: `await servers.files.read_file({}); return 7`},
		"it works meanwhile":            {code: `const p = servers.files.fail({}); await sleep(200); for (;;) {}`, timeout: true},
		"its time goes on after that":   {code: `await servers.files.read_file({}); await sleep(25000)`, timeout: true},
		"and so do its calls":           {code: `const r = []; for (let i = 0; i < 2; i++) r.push(await servers.files.read_file({})); return r.length`},
		"another run's is of no matter": {code: `await sleep(25000)`, timeout: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var h *host
			h = launch(t, answered(&h))
			h.w.Stand(1, true) // before it runs
			o := h.run(t, &sandbox.Script{Code: c.code, Servers: testServers(), Limits: sandbox.Limits{Wall: wall}})
			if timeout := o.Failure != nil && o.Failure.Kind == sandbox.FailTimeout; timeout != c.timeout || !timeout && o.Failure != nil {
				t.Errorf("value %s, failure %+v", o.Value, o.Failure)
			}
		})
	}
}
