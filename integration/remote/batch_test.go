package remote

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// gauge looks at the heap when the first thing is heard, and counts the rest.
type gauge struct {
	bell
	heard int
	held  int64 // bytes
}

func (g *gauge) Noise([]byte) {
	if g.heard++; g.heard == 1 {
		g.held = heap()
	}
}

// heap is how many bytes are in use that something refers to.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A batch is taken apart as it is read: what is heard of its first message finds the
// others as they came.
func TestBatchOfManyIsNotTakenApartAtOnce(t *testing.T) {
	const many = 1_000_000
	body := []byte("[1" + strings.Repeat(",1", many-1) + "]")
	g := &gauge{}
	k := &Link{l: &Launcher{o: Options{Parse: parse}}, spec: &messages.ServerSpec{Name: "x"}, ear: g}
	before := heap()
	if k.frames(body, nil) {
		t.Error("it answers something")
	}
	if g.heard != many {
		t.Errorf("%d of %d messages were heard of", g.heard, many)
	}
	if took := g.held - before; took > int64(len(body))/2 {
		t.Errorf("a batch of %d bytes takes %d more", len(body), took)
	}
	runtime.KeepAlive(body)
}

// Of a batch that is broken the messages before that count; of what holds none, and
// only of that, one is told.
func TestBatches(t *testing.T) {
	for body, want := range map[string]string{
		`[{"jsonrpc":"2.0","id":1,"result":{}}, {"jsonrpc":"2.0","id":2,"result":{}}]`: "frame 1, frame 2",
		" \n[{\"jsonrpc\":\"2.0\",\"method\":\"m\"}]":                                  "frame ",
		`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"res`:           `frame 1, noise [{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"res`,
		`[{"jsonrpc":"2.0","id":1,"result":{}},7]`:                                     "frame 1, noise 7",
		`[]`: "noise []",
	} {
		ear := &earTrumpet{make(chan heard, 10)}
		ctx, cancel := context.WithCancel(t.Context())
		x := &exchange{id: json.RawMessage("1"), ctx: ctx, cancel: cancel}
		k := &Link{
			l: &Launcher{o: Options{Parse: parse}}, spec: &messages.ServerSpec{Name: "x"}, ear: ear,
			inflight: map[string]*exchange{"1": x},
		}
		if answered := k.frames([]byte(body), x); answered != strings.Contains(want, "frame 1") {
			t.Errorf("%s: answered is %v", body, answered)
		}
		cancel()
		close(ear.all)
		var all []string
		for h := range ear.all {
			all = append(all, h.what+" "+h.id+h.text)
		}
		if got := strings.Join(all, ", "); got != want {
			t.Errorf("%s: heard %q, want %q", body, got, want)
		}
	}
}
