package actors

import (
	"strconv"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// TestCallsBesideServersThatDoNotStart and that nobody has called: one who looks for tools
// has had them started. No call waits for them, and what is used now and then stays.
func TestCallsBesideServersThatDoNotStart(t *testing.T) {
	for _, size := range []int{1, 3} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			r := newRig(t, places(size))
			r.add("ok", nil, nil)
			r.ok("ok")
			r.settled(1)
			const silent = 3
			for i := range silent {
				name := "silent" + strconv.Itoa(i)
				r.add(name, &script{silent: []string{methodInitialize, methodDiscover}}, func(s *messages.ServerSpec) { s.StartupTimeout = time.Hour })
				r.e.Contact(name, false, &contactPort{done: make(chan struct{})})
			}
			r.f.eventually(t, "no other one is started", func() bool { return r.stats().Busy == min(size, 2) })
			r.ok("ok")
			if starts := r.f.started("ok"); starts > 1 && size > 1 {
				t.Errorf("it was started %d times: it was ended for servers that nobody has called", starts)
			}
			for i := range silent {
				if s := r.status("silent" + strconv.Itoa(i)); s.Failures != 0 || s.LastError != nil {
					t.Errorf("status %+v", s)
				}
			}
		})
	}
}
