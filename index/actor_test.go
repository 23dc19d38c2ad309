package index

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision/kernel"
)

// Tools that cannot be used are told of once, not with each listing of their server,
// which may come with each of its starts; and again where they are others.
func TestUnusableToolsAreToldOnce(t *testing.T) {
	h := &host{T: t, sys: kernel.New(slog.New(slog.DiscardHandler)), view: &View{}}
	var warned atomic.Int64
	cataloged := make(chan struct{}, 1)
	var err error
	h.pid, h.done, err = h.sys.SpawnRoot("index", NewActor(&ActorDeps{
		View:   h.view,
		Notify: func(string, any) { cataloged <- struct{}{} },
		Warn:   func(string, ...any) { warned.Add(1) },
		Info:   func(string, ...any) {},
	}), func(reason any) { t.Errorf("the actor gave up: %v", reason) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.close)
	h.sys.Send(h.pid, &Known{Specs: []*messages.ServerSpec{{Name: "x", Hash: "h"}}})
	const good, bad = `{"name":"good","inputSchema":{"type":"object"}}`, `{"title":"nameless"}`
	for _, listing := range []struct {
		tools string
		told  int64
	}{
		{good, 0},
		{good + "," + bad, 1},
		{good + "," + bad, 1},
		{good + "," + bad, 1},
		{good + "," + bad + "," + bad, 2},
		{good, 2},
		{good + "," + bad, 3},
	} {
		h.sys.Send(h.pid, &messages.Listing{Server: "x", SpecHash: "h", Pages: [][]byte{[]byte(`{"tools":[` + listing.tools + `]}`)}})
		select {
		case <-cataloged:
		case <-time.After(patience):
			t.Fatal("a listing was not taken in")
		}
		if told := warned.Load(); told != listing.told {
			t.Errorf("with %s it was told %d times instead of %d", listing.tools, told, listing.told)
		}
	}
}
