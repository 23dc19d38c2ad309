package actors

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// sends notes where a call goes and adds to its _meta.
type sends struct {
	meta string

	mu   sync.Mutex
	seen []messages.Sending
}

// Sending implements messages.SendPort.
func (s *sends) Sending(to messages.Sending) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, to)
	return []byte(s.meta)
}

// TestBurst: what is written to a child for a burst reaches it at its end, or with what
// is written for anybody else, in order. After that everything does at once.
func TestBurst(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.ok("a")
	child, burst := r.f.living("a")[0], new(messages.Burst)
	with := func(c *messages.Call) { c.Burst = burst }
	held := func(n int) {
		t.Helper()
		r.f.eventually(t, "a call is written", func() bool {
			child.mu.Lock()
			defer child.mu.Unlock()
			return len(child.held) == n
		})
	}
	first := r.start("a", "do", doArgs{}, with)
	second := r.start("a", "do", doArgs{}, with)
	held(2)
	if n := len(r.f.lines("a", methodToolsCall)); n != 1 {
		t.Errorf("the child got %d calls before the end of the burst, want the one that was there before", n)
	}
	other := r.start("a", "do", doArgs{})
	for _, call := range []*pendingCall{first, second, other} {
		r.wantResult(r.wait(call))
	}
	hanging := r.start("a", "do", doArgs{Do: "silent"}, with)
	held(1)
	r.e.Cancel(hanging.call, "enough")
	r.wantCode(r.wait(hanging), messages.CodeCancelled)
	r.got("a", methodCancelled, 1)
	last := r.start("a", "do", doArgs{}, with)
	held(1)
	burst.End()
	r.wantResult(r.wait(last))

	var got, want []uint64
	for _, line := range r.got("a", methodToolsCall, 6)[1:] {
		id, _ := messages.ParseRequestID(line.ID)
		got = append(got, id)
	}
	for _, call := range []*pendingCall{first, second, other, hanging, last} {
		want = append(want, call.call.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the child got the calls %d, want %d", got, want)
	}
	r.wantResult(r.do("a", "do", doArgs{}, with))
	r.add("b", nil, nil)
	r.wantResult(r.do("b", "do", doArgs{}, with)) // it waited for the child
}

func TestSendingIsToldAndAddsToMeta(t *testing.T) {
	const meta = `"traceparent":"00-1-2-01","baggage":"a=b"`
	id := newIdentity("metamcp", "1")
	for _, tc := range []struct {
		name string
		era  messages.Era
		meta string
		want string // after the progress token
	}{
		{"nothing", messages.EraLegacy, "", ""},
		{"legacy", messages.EraLegacy, meta, "," + meta},
		{"nothing, modern", messages.EraModern, "", "," + string(id.modernMeta) + "{}"},
		{"modern", messages.EraModern, meta, "," + string(id.modernMeta) + "{}," + meta},
	} {
		t.Run(tc.name, func(t *testing.T) {
			line := append(id.callHead(nil, 7, "do"), `{}`...)
			line = id.callTail(line, 7, tail{era: tc.era, meta: []byte(tc.meta)})
			if want := `"_meta":{"progressToken":7` + tc.want + "}}}\n"; !json.Valid(line) || !strings.HasSuffix(string(line), want) {
				t.Errorf("the line is %s, want %s at its end", line, want)
			}
		})
	}
}

func TestEachAttemptIsToldAndCounted(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", &script{strict: true}, nil)
	s := &sends{meta: `"traceparent":"t"`}
	p := r.start("a", "read", doArgs{Do: "die"}, func(c *messages.Call) { c.Sending = s })
	r.wantCode(r.wait(p), messages.CodeToolExecution)
	lines := r.f.lines("a", methodToolsCall)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(lines) != 2 || len(s.seen) != 2 || s.seen[0].Attempt != 0 || s.seen[1].Attempt != 1 || s.seen[0].Instance == 0 {
		t.Errorf("%d lines were sent, and told of %+v", len(lines), s.seen)
	}
	entry, _ := r.e.Directory().Lookup("a")
	r.f.eventually(t, "both exits are counted", func() bool { return entry.Counts().Exits == 2 })
	if c := entry.Counts(); c.Spawns != 2 || c.Retries != 1 {
		t.Errorf("counts are %+v", c)
	}
}
