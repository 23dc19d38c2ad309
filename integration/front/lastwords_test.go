package front

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

// A server that logs and announces without end, to a client that reads later, costs
// that client neither its session, nor what others answer or ask; of each resource it
// hears once it reads again, and of the last change.
func TestFloodOfNotifications(t *testing.T) {
	const size, all = 1 << 20, MaxQueued>>20 + 16
	big := strings.Repeat("x", size)
	var peer *Peer // set before the first line is read
	servers := &slowServers{make(chan subscribing, 1), make(chan struct{}, 8)}
	flooded := make(chan struct{})
	engine := &fakeEngine{call: func(r Request) {
		logLine := json.RawMessage(`{"level":"info","data":"` + big + `"}`)
		for i := range all {
			r.Client.Notify(r.Call, "notifications/message", logLine)
			peer.Updated("a://session", fmt.Appendf(nil, `{"uri":"a://session","n":%d,"is":"%s"}`, i, big[:size>>10]))
		}
		r.Client.Ask(r.Call, []*messages.Question{{ID: 1, Method: "roots/list", Reply: untold{}}})
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: json.RawMessage(`{"content":[]}`)})
		close(flooded)
	}}
	s := start(t, Options{
		MCP: server.NewMCPServer("metamcp", "1", server.WithResourceCapabilities(true, true)), Passed: servers,
		Engine: engine, Ready: func(p *Peer) { peer = p },
	})
	s.send(`{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"resourceSubscriptions":["a://listen"]}}}`)
	sub := <-servers.begun
	sub.done(nil)
	if line := s.recv(); !strings.Contains(line, "subscriptions/acknowledged") {
		t.Fatalf("first came %s", line)
	}
	s.send(callLine(1, someCall))
	<-flooded
	if !peer.Full() {
		t.Fatal("the client is not full")
	}
	for i := range all {
		sub.to.Updated("a://listen", fmt.Appendf(nil, `{"uri":"a://listen","n":%d}`, i))
	}
	logs, last := 0, fmt.Sprintf(`"n":%d`, all-1)
	var asked, answered, session, listen bool
	for !asked || !answered || !session || !listen {
		switch line := s.recv(); {
		case strings.Contains(line, `"method":"notifications/message"`):
			logs++
		case strings.Contains(line, `"method":"roots/list"`):
			asked = true
		case strings.Contains(line, `"id":1,`):
			answered = true
		case strings.Contains(line, `"uri":"a://session"`):
			session = strings.Contains(line, last+",")
		case strings.Contains(line, `"uri":"a://listen"`):
			listen = strings.Contains(line, last+",")
			if !listen {
				t.Errorf("an earlier change of a resource came: %s", line)
			}
		default:
			t.Fatalf("an unexpected line: %.200s", line)
		}
	}
	if logs == 0 || logs > fullAt>>20+1 {
		t.Errorf("%d lines of the log came", logs)
	}
	if rest, err := s.end(); err != nil || len(rest) != 1 {
		t.Errorf("the end: %v, %.200q", err, rest)
	}
}

// What waits to be told is bounded, and what is told later comes once.
func TestLastWordsAreBounded(t *testing.T) {
	full := true
	out := &lineSink{}
	p := &Peer{out: out, full: func() bool { return full }}
	const size = 1 << 10
	pad := strings.Repeat("x", size)
	for i := range 2 * maxLastWords / size {
		p.Updated(fmt.Sprint("a://", i), json.RawMessage(`{"uri":"a","pad":"`+pad+`"}`))
		p.Updated("a://0", fmt.Appendf(nil, `{"uri":"a://0","n":%d}`, i))
	}
	if n := p.words.size; n > maxLastWords || n < maxLastWords-2*size {
		t.Errorf("%d bytes wait", n)
	}
	if len(out.lines) != 0 {
		t.Fatalf("a full client is told %.200q", out.lines)
	}
	waited := len(p.words.lines)
	full = false
	p.Updated("a://0", json.RawMessage(`{"uri":"a://0","n":"newest"}`))
	p.tellLast(p.Full)
	p.tellLast(p.Full)
	of0 := 0
	for _, line := range out.lines {
		if strings.Contains(line, `"a://0"`) {
			of0++
		}
	}
	if len(out.lines) != waited || of0 != 1 || !strings.Contains(out.lines[0], "newest") {
		t.Errorf("%d lines came of %d that waited, %d of them of one resource, the first %.200s", len(out.lines), waited, of0, out.lines[0])
	}
	if p.words.size != 0 || len(p.words.lines) != 0 {
		t.Errorf("%d bytes still wait", p.words.size)
	}
}

// A server that says much of its resources takes no other one its word on a list, and of
// a resource that there is no room for more of its URI is told.
func TestLastWordsOfOthersAreKept(t *testing.T) {
	full := true
	out := &lineSink{}
	p := &Peer{out: out, full: func() bool { return full }}
	p.initialized.Store(true)
	p.handshake.Store(true)
	l := newListener(p, json.RawMessage(`"s"`), out)
	l.acknowledged = true
	pad := strings.Repeat("x", maxLastWords-1<<10)
	p.Updated("a://flood", json.RawMessage(`{"uri":"a://flood","pad":"`+pad+`"}`))
	l.told(methodUpdated, "b://\"large", json.RawMessage(`{"uri":"b://\"large","pad":"`+pad+pad+`"}`))
	for i := range 1 << 7 {
		p.Updated(fmt.Sprint("a://flood/", i), json.RawMessage(`{"uri":"a"}`))
	}
	p.ListChanged(mcp.MethodNotificationToolsListChanged)
	l.told(mcp.MethodNotificationToolsListChanged, "", nil)
	full = false
	p.tellLast(p.Full)
	for _, want := range []string{
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"b://\"large","_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}`,
	} {
		if !slices.Contains(out.lines, want) {
			t.Errorf("not told: %s", want)
		}
	}
	if p.words.size != 0 {
		t.Errorf("%d bytes still wait", p.words.size)
	}
}

// A change that is kept while room comes is told all the same.
func TestRoomWhileALastWordIsKept(t *testing.T) {
	out := &lineSink{}
	p := &Peer{out: out}
	looked := 0
	p.full = func() bool {
		looked++
		return looked == 1
	}
	p.Updated("a://b", json.RawMessage(`{"uri":"a://b"}`))
	if len(out.lines) != 1 {
		t.Errorf("told: %q", out.lines)
	}
}

// A subscription that has ended is told of nothing any more, and what waited for it goes.
func TestLastWordsOfASubscriptionThatEnded(t *testing.T) {
	full := true
	out := &lineSink{}
	p := &Peer{out: out, full: func() bool { return full }}
	ended, other := newListener(p, json.RawMessage(`1`), out), newListener(p, json.RawMessage(`2`), out)
	ended.acknowledged, other.acknowledged = true, true
	for _, l := range []*listener{ended, other} {
		l.told(methodUpdated, "a://b", json.RawMessage(`{"uri":"a://b"}`))
	}
	ended.end()
	ended.told(methodUpdated, "a://c", json.RawMessage(`{"uri":"a://c"}`))
	full = false
	p.tellLast(p.Full)
	if len(out.lines) != 1 || !strings.Contains(out.lines[0], `subscriptionId":2`) {
		t.Errorf("told: %q", out.lines)
	}
}

// What has waited to be told leaves room for answers, and all of it comes.
func TestLastWordsLeaveRoom(t *testing.T) {
	r, w := pipe(t)
	var unread Unread
	unread.total.Add(crowdedAt) // waits for others
	p := &Peer{}
	var o *Output
	var times, wasFull atomic.Int64
	o = newOutput(w, &unread, func() bool {
		more := p.tellLast(o.littleRoom)
		times.Add(1)
		if o.Full() {
			wasFull.Add(1)
		}
		return more
	})
	p.out, p.full = o, o.Full
	if err := o.Write(bytes.Repeat([]byte("x"), 3*fullInCrowd)); err != nil {
		t.Fatal(err)
	}
	if !o.Full() {
		t.Fatal("the client is not full")
	}
	const size = 1 << 10
	pad, waited := strings.Repeat("x", size), 3*maxLastWords/4/size
	for i := range waited {
		uri := fmt.Sprint("a://", i)
		p.Updated(uri, json.RawMessage(`{"uri":"`+uri+`","pad":"`+pad+`"}`))
	}
	lines := bufio.NewReader(r)
	for i := range 1 + waited {
		if _, err := lines.ReadBytes('\n'); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
	}
	closeOutput(t, o)
	if n, full := times.Load(), wasFull.Load(); n < 2 || full > 0 {
		t.Errorf("there was room %d times, and %d times the client was full again at once", n, full)
	}

	// A client that is full again is told nothing more before half of its room is free.
	o.full.Store(true)
	if !o.littleRoom() {
		t.Error("a full client has room for what could wait")
	}
}
