package actors

import (
	"encoding/json"
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
