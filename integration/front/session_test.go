package front

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

func entry(id string) *Entry { return &Entry{ID: json.RawMessage(id), Call: NextCall()} }

func TestSessionTable(t *testing.T) {
	s := NewSession()
	one, text := entry(`1`), entry(`"1"`)
	for _, e := range []*Entry{one, text, entry(`"a\u0062"`)} {
		if err := s.Register(e); err != nil {
			t.Fatalf("Register(%s): %v", e.ID, err)
		}
	}
	for _, id := range []string{`1`, `"1"`, `"ab"`, `"\u0061b"`} {
		if err := s.Register(entry(id)); !errors.Is(err, ErrDuplicateID) {
			t.Errorf("Register(%s) again: %v", id, err)
		}
	}
	if !s.Live(one) || !s.Finish(one) || s.Finish(one) || s.Live(one) {
		t.Error("a request is finished once")
	}
	if got := s.Cancel(json.RawMessage(`"1"`)); got != text || !text.Cancelled().Load() {
		t.Errorf("Cancel returned %v", got)
	}
	if s.Finish(text) {
		t.Error("a cancelled request was finished")
	}
	if s.Cancel(json.RawMessage(`1`)) != nil || s.Len() != 1 {
		t.Errorf("%d entries are left", s.Len())
	}
	// The id may be used again, and the old entry does not touch the new one.
	again := entry(`1`)
	if err := s.Register(again); err != nil || s.Finish(one) || !s.Live(again) {
		t.Errorf("reuse of an id: %v", err)
	}
}

func TestSessionEarlyCancel(t *testing.T) {
	s := NewSession()
	s.Cancel(json.RawMessage(`7`))
	if err := s.Register(entry(`7`)); err != nil {
		t.Errorf("a cancellation without a message in hand was remembered: %v", err)
	}
	old := entry(`8`)
	old.Parse = s.BeginParse()
	s.BeginParse()
	s.Cancel(json.RawMessage(`8`))
	s.EndParse()
	// What came behind the cancellation may have the id again, and overtake.
	again, large := entry(`8`), entry(`8`)
	large.Parse = s.BeginParse()
	for _, e := range []*Entry{again, large} {
		if err := s.Register(e); err != nil || !s.Finish(e) {
			t.Errorf("Register of an id that was cancelled before: %v", err)
		}
	}
	s.EndParse()
	if err := s.Register(old); !errors.Is(err, ErrCancelled) {
		t.Errorf("Register after an early cancel: %v", err)
	}
	for i := range 2 * maxEarlyCancels {
		s.Cancel(json.RawMessage(fmt.Sprint(1000 + i)))
	}
	if len(s.early) > maxEarlyCancels {
		t.Errorf("%d early cancellations are kept", len(s.early))
	}
	s.EndParse()
	if len(s.early) != 0 {
		t.Error("early cancellations outlive the messages that they were kept for")
	}
}

// A request that is cancelled while it is parsed does not begin, whoever answers it.
func TestCancelledWhileParsed(t *testing.T) {
	for name, call := range map[string]string{
		"the spliced tool": `"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"a","tool":"b"}}`,
		"mcp-go":           `"method":"tools/list"`,
		"a server":         `"method":"resources/read","params":{"uri":"a://b"}`,
	} {
		mcp, did := newReached()
		opts := Options{MCP: mcp, Engine: &fakeEngine{}}.withDefaults()
		if name == "a server" {
			opts.Passed = &failingServers{}
		}
		c := newConnection(t.Context(), opts, newStream(0))
		number := c.table.BeginParse()
		c.cancel([]byte(`7`), nil)
		c.parsed([]byte(`{"jsonrpc":"2.0","id":7,`+call+`}`), number, c.out, nil)
		if len(c.table.early) != 0 || c.inFlight() != 0 || len(did.methods) != 0 {
			t.Errorf("%s: it began, although it was cancelled", name)
		}
	}
}
