package front

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// byName lets everybody in who says a name, as the principal of that name.
func byName(r *http.Request) (Principal, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return Principal{}, errors.New("who are you")
	}
	return Principal{Key: name, Name: name}, nil
}

// dial opens a bare connection to the front.
func dial(t *testing.T, l *Listener) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(l.URL(), "http://"), Endpoint))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request over a bare connection, and reads the answer.
func ask(t *testing.T, c net.Conn, from *bufio.Reader, body, token string) *http.Response {
	t.Helper()
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", len(body), token, body)
	r, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return r
}

// Connections that prove nothing make room: for each other, for those who do, and
// for new ones.
func TestHTTPUnprovenConnectionsMakeRoom(t *testing.T) {
	for name, o := range map[string]ListenOptions{
		"of one address": {maxConns: 1000, maxUnproven: 4}, "in all": {maxConns: 5, maxUnproven: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			f := startHTTP(t, HTTPOptions{Authorize: byName})
			o.Addr = ":0"
			l, err := f.h.Listen(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.http.Close() }() // the front is the test's
			const token = "Authorization: Bearer a\r\n"
			old := dial(t, l)
			from := bufio.NewReader(old)
			if r := ask(t, old, from, initLine("2025-11-25"), token); r.StatusCode != http.StatusOK {
				t.Fatal(r.Status)
			}
			var idle []net.Conn
			for range 20 {
				idle = append(idle, dial(t, l))
			}
			fresh := dial(t, l)
			if r := ask(t, fresh, bufio.NewReader(fresh), initLine("2025-11-25"), token); r.StatusCode != http.StatusOK {
				t.Error(r.Status)
			}
			if r := ask(t, old, from, initLine("2025-11-25"), token); r.StatusCode != http.StatusOK {
				t.Error("who was let in had to go:", r.Status)
			}
			for i, c := range idle[:16] { // the oldest
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !strings.Contains(fmt.Sprint(err), "reset") {
					t.Errorf("connection %d: %v", i, err)
				}
			}
		})
	}
}

// Who is not let in keeps no connection.
func TestHTTPRefusedConnectionsEnd(t *testing.T) {
	f := startHTTP(t, HTTPOptions{Authorize: byName})
	for _, line := range []string{"GET / HTTP/1.1\r\nHost: localhost", "GET /mcp HTTP/1.1\r\nHost: localhost", "GET /mcp HTTP/1.1\r\nHost: evil.example"} {
		c := dial(t, f.l)
		fmt.Fprintf(c, "%s\r\n\r\n", line)
		if text, err := io.ReadAll(c); err != nil || !bytes.Contains(text, []byte("\r\nConnection: close\r\n")) {
			t.Errorf("%q: %v, %s", line, err, text)
		}
	}
}

// One principal's slow bodies hold up nobody else's, and end.
func TestHTTPSlowLargeBodies(t *testing.T) {
	slow := func(f *httpFront, n int) (conns []net.Conn) {
		for range n {
			c := dial(t, f.l)
			fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer a\r\nContent-Length: 1000000\r\n\r\n{\"a\":\"%s", strings.Repeat("x", 300<<10))
			conns = append(conns, c)
		}
		return conns
	}
	large := callLine(1, `{"server":"s","tool":"t","args":{"x":"`+strings.Repeat("y", 400<<10)+`"}}`)
	t.Run("others go on", func(t *testing.T) {
		f := startHTTP(t, HTTPOptions{Authorize: byName, Patience: 10 * patience, pieceTime: 10 * patience})
		hs := f.open(headers{"Authorization": "Bearer b"})
		slow(f, 20)
		eventually(t, "they have what one may have", func() bool {
			f.h.bodies.mu.Lock()
			defer f.h.bodies.mu.Unlock()
			return f.h.bodies.large["a"] == maxLargeEach && f.h.bodies.all["a"] == 20
		})
		if r := f.post(large, hs); r.StatusCode != http.StatusOK {
			t.Errorf("%d, %.200s", r.StatusCode, r.body)
		}
	})
	t.Run("they end", func(t *testing.T) {
		f := startHTTP(t, HTTPOptions{Authorize: byName, Patience: 10 * patience, pieceTime: 50 * time.Millisecond})
		for _, c := range slow(f, 6) {
			if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != http.StatusBadRequest {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
	t.Run("not too many at once", func(t *testing.T) {
		f := startHTTP(t, HTTPOptions{Authorize: byName, MaxEach: 3})
		slow(f, 3)
		eventually(t, "three are read", func() bool {
			f.h.bodies.mu.Lock()
			defer f.h.bodies.mu.Unlock()
			return f.h.bodies.all["a"] == 3
		})
		if r := f.post(large, headers{"Authorization": "Bearer a"}); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
			t.Errorf("%d, %.200s", r.StatusCode, r.body)
		}
	})
}

// What the messages of requests take that are not answered yet is bounded, of one
// principal and of all; who is over the bound can still say what makes room.
func TestHTTPOpenMessagesAreBounded(t *testing.T) {
	const size = 100 << 10
	f := startHTTP(t, HTTPOptions{Authorize: byName, maxOpenEach: 5 * size / 2, maxOpen: 7 * size / 2})
	began := make(chan Request, 10)
	f.engine.call = func(r Request) {
		if r.Tool == "wait" {
			began <- r
			return
		}
		r.Reply.Answer(&messages.Answer{Call: r.Call, Result: echo(r)})
	}
	line := func(id int, tool string, large int) string {
		return callLine(id, `{"server":"s","tool":"`+tool+`","args":{"x":"`+strings.Repeat("y", large)+`"}}`)
	}
	begin := func(id int, hs headers) (Request, <-chan *reply) {
		t.Helper()
		answered := make(chan *reply, 1)
		go func() {
			r, err := f.try("POST", line(id, "wait", size-200), hs)
			if err != nil {
				r = &reply{body: err.Error()}
			}
			answered <- r
		}()
		select {
		case r := <-began:
			return r, answered
		case r := <-answered:
			t.Fatalf("request %d is not begun: %.200s", id, r.body)
		}
		return Request{}, nil
	}
	refused := func(whose string, hs headers) {
		t.Helper()
		r := f.post(line(99, "echo", size-200), hs)
		if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" || !strings.Contains(r.body, whose) || !strings.Contains(r.body, `"id":99`) {
			t.Errorf("%d, %.300s", r.StatusCode, r.body)
		}
	}
	taken := func(what, line string, status int, hs headers) {
		t.Helper()
		if r := f.post(line, hs); r.StatusCode != status {
			t.Errorf("%s: %d, %.300s", what, r.StatusCode, r.body)
		}
	}
	answer := func(r Request) { r.Reply.Answer(&messages.Answer{Call: r.Call, Result: echo(Request{})}) }

	a, a2, b := f.open(headers{"Authorization": "Bearer a"}), f.open(headers{"Authorization": "Bearer a"}), f.open(headers{"Authorization": "Bearer b"})
	first, firstAnswer := begin(1, a)
	begin(2, a2)
	refused("this token", a)
	refused("this token", a2)
	taken("a small request", line(3, "echo", 100), http.StatusOK, a)
	taken("an answer", `{"jsonrpc":"2.0","id":"q","result":{"x":"`+strings.Repeat("y", size)+`"}}`, http.StatusAccepted, a)

	goesOn := `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"s","tool":"echo","args":{"x":"` + strings.Repeat("y", size) + `"}},"requestState":"x"}}`
	taken("a request that goes on with another", goesOn, http.StatusOK, a)

	begin(1, b)
	refused("all clients", b)
	answer(first)
	if r := <-firstAnswer; r.Response == nil || r.StatusCode != http.StatusOK {
		t.Errorf("%+v", r)
	}
	taken("a request in the room of one that was answered", line(4, "echo", size-200), http.StatusOK, b)
	taken("one of wrong form", line(5, "", size-200), http.StatusOK, b)
	begin(6, b)
	refused("all clients", a)

	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"` + strings.Repeat("r", size) + `"}}`
	taken("a cancellation", cancel, http.StatusAccepted, a2)
	begin(7, a)
	refused("all clients", a2)
	if r := f.do("DELETE", "", b); r.StatusCode != http.StatusNoContent {
		t.Error(r.Status)
	}
	last, _ := begin(8, a)
	answer(last)
	f.do("DELETE", "", a)
	eventually(t, "nothing is counted any more", func() bool {
		f.h.bodies.mu.Lock()
		defer f.h.bodies.mu.Unlock()
		return f.h.bodies.openTotal == 0 && len(f.h.bodies.open) == 0
	})
}

// The message of a call that is parked stays, and counts, until the call is over.
func TestParkedCallKeepsItsRoom(t *testing.T) {
	for name, end := range map[string]func(c *connection, p *pending){
		"it is given up": func(c *connection, _ *pending) { c.endParked("the test is over") },
		"it is answered": func(c *connection, p *pending) {
			p.Answer(&messages.Answer{Call: p.Call, Result: json.RawMessage(`{}`)})
			in, err := parseIncoming([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"requestState":"` + parkedPrefix + p.work.handle + `"}}`))
			if _, taken := c.takeOver(&in, messages.EraModern, newStream(2)); err != nil || !taken {
				t.Errorf("%v, taken over: %v", err, taken)
			}
		},
		"it was over before": func(*connection, *pending) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBodies()
			free, f := b.hold("a", make([]byte, 100), 100, 100)
			if f != nil {
				t.Fatal(f.why)
			}
			if _, f := b.hold("b", make([]byte, 1), 100, 100); f == nil {
				t.Error("there is room for more")
			}
			c := newConnection(t.Context(), Options{MCP: newMCP(nil), Engine: &fakeEngine{}, Parked: NewParked()}.withDefaults(), newStream(0))
			p := &pending{c: c}
			p.ID, p.Call, p.Era, p.out, p.params = json.RawMessage("1"), NextCall(), messages.EraModern, newStream(1), json.RawMessage(`{}`)
			if !c.register(&p.Entry, &incoming{free: free}) {
				t.Fatal("it is not registered")
			}
			list := []*messages.Question{{ID: 1, Method: "roots/list", Reply: untold{}}}
			if name == "it was over before" {
				c.opts.Parked.mu.Lock()
				w, why := c.opts.Parked.add(c, &p.Entry)
				if w == nil {
					t.Fatal(why)
				}
				w.queue = list
				c.finish(&p.Entry)
				c.opts.Parked.show(w)()
				c.opts.Parked.mu.Unlock()
			} else {
				c.park(&p.Entry, list)
				if c.inFlight() != 0 || b.openTotal != 100 {
					t.Errorf("%d requests are in flight, %d bytes are counted", c.inFlight(), b.openTotal)
				}
			}
			end(c, p)
			if b.openTotal != 0 || len(c.opts.Parked.each) != 0 {
				t.Errorf("%d bytes are counted, and parked are %v", b.openTotal, c.opts.Parked.each)
			}
		})
	}
}

// A body that is too long by a byte is answered, however it is sent.
func TestHTTPBodyTooLong(t *testing.T) {
	const most = 4 << 20
	f := startHTTP(t, HTTPOptions{MaxBody: most})
	hs := f.open()
	line := func(n int) string {
		const head, tail = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"`, `"}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	for _, chunked := range []bool{false, true} {
		for n, want := range map[int]int{most: http.StatusOK, most + 1: http.StatusRequestEntityTooLarge, most + 1<<20: http.StatusRequestEntityTooLarge} {
			r := f.request(t.Context(), "POST", line(n), hs)
			if chunked {
				r.ContentLength = -1
			}
			res, err := f.client.Do(r)
			if err != nil {
				t.Errorf("%d bytes, chunked %v: %v", n, chunked, err)
				continue
			}
			if err := res.Body.Close(); err != nil || res.StatusCode != want {
				t.Errorf("%d bytes, chunked %v: %s, %v", n, chunked, res.Status, err)
			}
		}
	}
}

// A line feed between tokens is space, and within a string no JSON.
func TestHTTPLineFeeds(t *testing.T) {
	f := startHTTP(t, HTTPOptions{})
	hs := f.open()
	if r := f.post(callLine(1, "{\"server\":\"s\",\n\r\n\"tool\":\"t\",\"args\":{\"a\":\n1}}"), hs); r.StatusCode != http.StatusOK || !strings.Contains(r.body, `"structuredContent":{"a": 1}`) {
		t.Errorf("%d, %q", r.StatusCode, r.body)
	}
	if r := f.post(callLine(1, "{\"server\":\"s\",\"tool\":\"t\",\"args\":{\"a\":\"x\ny\"}}"), hs); r.StatusCode != http.StatusBadRequest || !strings.Contains(r.body, "-32700") {
		t.Errorf("%d, %q", r.StatusCode, r.body)
	}
}

// Who sends too fast can still cancel and answer.
func TestHTTPCancellationsAreNotCounted(t *testing.T) {
	f := startHTTP(t, HTTPOptions{MaxRate: 1})
	hs := f.open()
	last := 0
	for range 5 {
		last = f.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, hs).StatusCode
	}
	if last != http.StatusTooManyRequests {
		t.Fatalf("%d: the rate is not over", last)
	}
	for range 5 {
		for _, line := range []string{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, `{"jsonrpc":"2.0","id":"q","result":{}}`} {
			if r := f.post(line, hs); r.StatusCode != http.StatusAccepted {
				t.Errorf("%s: %d, %s", line, r.StatusCode, r.body)
			}
		}
	}
}

// What one client does not read is bounded, and what all do not read: the largest
// streams of who holds most end.
func TestHTTPUnreadStreamsAreBounded(t *testing.T) {
	f := startHTTP(t, HTTPOptions{Authorize: byName, maxHeld: 40 << 20, maxHeldEach: 2 << 20, Patience: 10 * patience})
	progress := json.RawMessage(`{"progress":1,"message":"` + strings.Repeat("p", 200<<10) + `"}`)
	done := make(chan error, 100)
	answers := make(chan struct{})
	f.engine.call = func(r Request) {
		if r.Tool != "unread" {
			r.Reply.Answer(&messages.Answer{Call: r.Call, Result: echo(r)})
			return
		}
		go func() {
			for range 30 {
				r.Progress.Progress(r.Call, progress)
			}
			done <- nil
			<-answers
			r.Reply.Answer(&messages.Answer{Call: r.Call, Result: json.RawMessage(`{"x":"` + strings.Repeat("x", 16<<20) + `"}`)})
		}()
	}
	unread := func(who string) {
		hs := f.open(headers{"Authorization": "Bearer " + who})
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"s","tool":"unread"},"_meta":{"progressToken":1}}}`
		c := dial(t, f.l)
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
			who, hs["Mcp-Session-Id"], len(body), body)
	}
	const clients = 4
	for i := range clients {
		unread(string(rune('a' + i)))
		<-done
	}
	if held := f.h.held.Load(); held > clients*2<<20 {
		t.Errorf("%d bytes of progress are held", held)
	}
	close(answers) // 64 MiB
	eventually(t, "streams end", func() bool { held := f.h.held.Load(); return held > 0 && held <= 40<<20 })
	if r := f.post(callLine(1, someCall), f.open(headers{"Authorization": "Bearer z"})); r.StatusCode != http.StatusOK {
		t.Errorf("%d, %.200s", r.StatusCode, r.body)
	}
	f.h.mu.Lock()
	all := make([]*httpSession, 0, clients+1)
	for s := range f.h.each {
		all = append(all, s)
	}
	for _, s := range all {
		f.h.forget(s)
	}
	f.h.mu.Unlock()
	for _, s := range all {
		s.close("the test is over")
	}
	f.l.http.SetKeepAlivesEnabled(false)
	if err := f.l.http.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "nothing is held any more", func() bool { return f.h.held.Load() == 0 })
}

// What waits for clients that have no stream open takes nothing from others for good:
// it goes where too much is held, and their streams go on.
func TestHTTPUnreadSessionsAreBounded(t *testing.T) {
	const most = 400 << 10
	f := startHTTP(t, HTTPOptions{maxHeld: most})
	f.engine.call = func(r Request) {
		go func() {
			r.Progress.Progress(r.Call, []byte(`{"progress":1}`))
			answer(r)
		}()
	}
	first := f.open()
	f.open()
	pad := json.RawMessage(`{"pad":"` + strings.Repeat("p", 50<<10) + `"}`)
	for range 5 {
		for i := range 2 {
			if err := f.peer(i).Notify("notifications/message", pad); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "less is held", func() bool { return f.h.held.Load() <= most })
	st := f.stream("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":`+someCall+`,"_meta":{"progressToken":1}}}`, f.open())
	st.want(`"progress":1`)
	st.want(`"id":1,"result"`)
	for i := range 2 {
		if err := f.peer(i).Notify("notifications/last", nil); err != nil {
			t.Errorf("the stream of session %d: %v", i, err)
		}
	}
	own := f.stream("GET", "", first)
	for {
		e, ok := own.next()
		if !ok {
			t.Fatal("the stream of the session ends")
		}
		if strings.Contains(e.data, "notifications/last") {
			break
		}
	}
}

// A principal's clients share a bound of what is parked, whatever they are called,
// and a refusal says whose bound it is.
func TestParkedOfOnePrincipal(t *testing.T) {
	p := NewParked()
	s := newMCP(nil)
	add := func(owner string) (*work, string) {
		c := newConnection(t.Context(), Options{MCP: s, Engine: &fakeEngine{}, Parked: p, Owner: owner}.withDefaults(), newStream(0))
		e := &Entry{ID: json.RawMessage("1"), Call: NextCall(), Era: messages.EraModern, out: newStream(1), params: json.RawMessage(`{}`)}
		if !c.register(e, &incoming{}) {
			t.Fatal("it is not registered")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.add(c, e)
	}
	var works []*work
	for i := range maxParkedOfOne {
		w, why := add(fmt.Sprintf("token a\x00client %d", i%5))
		if w == nil {
			t.Fatalf("%d: %s", i, why)
		}
		works = append(works, w)
	}
	if _, why := add("token a\x00another"); !strings.Contains(why, "256") || !strings.Contains(why, "this token") {
		t.Errorf("the refusal says %q", why)
	}
	for i := range maxParkedEach {
		if w, why := add("token b\x00client"); w == nil {
			t.Fatalf("%d: %s", i, why)
		}
	}
	if _, why := add("token b\x00client"); !strings.Contains(why, "64") || !strings.Contains(why, "this client") {
		t.Errorf("the refusal says %q", why)
	}
	p.mu.Lock()
	for _, w := range works {
		p.drop(w)
	}
	p.mu.Unlock()
	if w, why := add("token a\x00another"); w == nil || len(p.of) != 2 {
		t.Errorf("%s, %v", why, p.of)
	}
}

// untold is a child to which it is all the same what becomes of its questions.
type untold struct{}

func (untold) Answered(*messages.QuestionAnswer) {}

// A timer that comes too late ends no work that is parked anew.
func TestLateTimerOfAParkedCall(t *testing.T) {
	p, engine := NewParked(), &fakeEngine{}
	c := newConnection(t.Context(), Options{MCP: newMCP(nil), Engine: engine, Parked: p}.withDefaults(), newStream(0))
	e := &Entry{ID: json.RawMessage("1"), Call: NextCall(), Era: messages.EraModern, out: newStream(1), params: json.RawMessage(`{}`)}
	if !c.register(e, &incoming{}) {
		t.Fatal("it is not registered")
	}
	c.park(e, []*messages.Question{{ID: 1, Method: "roots/list", Reply: untold{}}})
	w := e.work
	first := w.handle
	in, err := parseIncoming([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"requestState":"` + parkedPrefix + first + `"}}`))
	if err != nil {
		t.Fatal(err)
	}
	// What it was asked is left open, so that it is parked at once.
	if _, taken := c.takeOver(&in, messages.EraModern, newStream(2)); !taken || w.handle == "" || w.handle == first {
		t.Fatalf("it is not parked anew: %v, %q", taken, w.handle)
	}
	p.expire(w, first, "late")
	if w.over || len(engine.reasons()) != 0 {
		t.Error("a timer of before has ended it")
	}
	p.expire(w, w.handle, "in time")
	if !w.over || len(engine.reasons()) != 1 {
		t.Error("its own timer does not end it")
	}
}

// A request that takes a parked one over is answered like that, in the words of the
// name that its client called.
func TestTakenOverRequestIsTheSame(t *testing.T) {
	p := NewParked()
	c := newConnection(t.Context(), Options{MCP: newMCP(nil), Engine: &fakeEngine{}, Parked: p}.withDefaults(), newStream(0))
	first := &Entry{
		ID: json.RawMessage("1"), Call: NextCall(), Era: messages.EraModern, out: newStream(1), params: json.RawMessage(`{"name":"s_t"}`),
		passed: true, exposedAs: "s_t", reads: true,
	}
	if !c.register(first, &incoming{}) {
		t.Fatal("it is not registered")
	}
	c.park(first, []*messages.Question{{ID: 1, Method: "roots/list", Reply: untold{}}})
	in, err := parseIncoming([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"s_t","requestState":"` + parkedPrefix + first.work.handle + `"}}`))
	if err != nil {
		t.Fatal(err)
	}
	e, taken := c.takeOver(&in, messages.EraModern, newStream(2))
	if !taken || e == nil {
		t.Fatal("it is not taken over")
	}
	if e.Call != first.Call || !e.passed || e.exposedAs != "s_t" || !e.reads {
		t.Errorf("it is taken over as %+v", e)
	}
	p.mu.Lock()
	p.drop(e.work)
	p.mu.Unlock()
}
