package supervision

import (
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// The directory counts the servers with a connection, and its version tells whoever
// keeps what he worked out that servers or their configuration changed.
func TestDirectoryCountsAndVersions(t *testing.T) {
	d := &Directory{}
	entry := func() *Entry {
		e := &Entry{connected: &d.connected}
		e.spec.Store(&messages.ServerSpec{})
		e.status.Store(&messages.Status{})
		return e
	}
	a, b := entry(), entry()
	empty := d.Version()
	d.replace(func(m map[string]*Entry) { m["b"], m["a"] = b, a })
	if d.Version() == empty {
		t.Error("new servers left the version as it was")
	}
	if names := d.Names(); len(names) != 2 || names[0] != "a" || names[1] != "b" {
		t.Errorf("names: %v", names)
	}
	before := d.Version()
	a.tell(&messages.Status{Connected: true})
	a.tell(&messages.Status{Connected: true, Instances: 2})
	b.tell(&messages.Status{Connected: true})
	if d.Connected() != 2 {
		t.Errorf("%d servers are connected, not 2", d.Connected())
	}
	a.tell(&messages.Status{})
	b.tell(&messages.Status{})
	b.tell(&messages.Status{})
	if d.Connected() != 0 {
		t.Errorf("%d servers are connected, not 0", d.Connected())
	}
	if d.Version() != before {
		t.Error("how a server does changed the version")
	}
	d.respec(a, &messages.ServerSpec{Disabled: true})
	if d.Version() == before || !a.Spec().Disabled {
		t.Error("another configuration left the version as it was")
	}
}

// TestRefreshesArePaced: of those who find a listing old one has it read anew, and
// the next one after the pause.
func TestRefreshesArePaced(t *testing.T) {
	e, now := &Entry{}, time.Now()
	for i, want := range []bool{true, false, false, true, false} {
		if got := e.MayRefresh(now.Add(time.Duration(i)*20*time.Second), time.Minute); got != want {
			t.Errorf("after %d times 20 s: %v", i, got)
		}
	}
}
