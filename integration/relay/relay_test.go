package relay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

const soon = time.Minute

// hosts are the hosts of a test: each that is started gets one connection.
type hosts struct {
	t       testing.TB
	l       net.Listener
	mu      sync.Mutex
	running bool
	whole   bool // connections cannot be closed in one direction, as on Windows
	accept  chan *host
	// asked is asked whether a silent host is there, and soon; nil: nobody asks.
	asked func(ctx context.Context, info attach.HostInfo) (bool, error)
}

// host is the host's end of a connection.
type host struct {
	t     testing.TB
	conn  net.Conn
	lines *bufio.Reader
}

func newHosts(t testing.TB) *hosts {
	t.Helper()
	dir, err := os.MkdirTemp("", "mm") //nolint:usetesting // the folder of a test is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	h := &hosts{t: t, l: l, running: true, accept: make(chan *host, 16)}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.accept <- &host{t, c, bufio.NewReaderSize(c, 1<<20)}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		served.Wait()
		_ = os.RemoveAll(dir)
	})
	return h
}

func (h *hosts) run(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = on
}

func (h *hosts) connect(context.Context, bool) (*attach.Conn, error) {
	h.mu.Lock()
	on := h.running
	h.mu.Unlock()
	if !on {
		return nil, attach.ErrNoHost
	}
	c, err := net.Dial("unix", h.l.Addr().String())
	if err != nil {
		return nil, err
	}
	if h.whole {
		c = struct{ net.Conn }{c}
	}
	return &attach.Conn{Conn: c}, nil
}

func (h *hosts) next() *host {
	h.t.Helper()
	select {
	case c := <-h.accept:
		h.t.Cleanup(func() { _ = c.conn.Close() })
		return c
	case <-time.After(soon):
		h.t.Fatal("the relay does not come")
		return nil
	}
}

func (h *host) gets() string {
	h.t.Helper()
	_ = h.conn.SetReadDeadline(time.Now().Add(soon))
	line, err := h.lines.ReadString('\n')
	if err != nil {
		h.t.Fatalf("the host gets %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (h *host) wants(line string) {
	h.t.Helper()
	if got := h.gets(); got != line {
		h.t.Errorf("the host got\n %s, want\n %s", got, line)
	}
}

func (h *host) ended() {
	h.t.Helper()
	_ = h.conn.SetReadDeadline(time.Now().Add(soon))
	if line, err := h.lines.ReadString('\n'); !errors.Is(err, io.EOF) || line != "" {
		h.t.Errorf("instead of the end the host got %q, %v", line, err)
	}
}

func (h *host) says(line string) {
	h.t.Helper()
	if _, err := h.conn.Write([]byte(line + "\n")); err != nil {
		h.t.Errorf("the host cannot write: %v", err)
	}
}

func (h *host) answers(id int, result string) {
	h.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, id, result))
}

// side is the client's side of a relay.
type side struct {
	t     testing.TB
	in    *os.File
	out   *os.File
	lines *bufio.Reader
	ended chan error
}

func begin(t testing.TB, h *hosts, wait time.Duration) (*side, *host) {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	first, err := h.connect(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	s := &side{t: t, in: inW, out: outR, lines: bufio.NewReaderSize(outR, 1<<20), ended: make(chan error, 1)}
	go func() {
		o := Options{In: inR, Out: outW, Connect: h.connect, Wait: wait, Silence: soon, Answers: h.asked}
		if h.asked != nil {
			o.Silence = 10 * time.Millisecond
		}
		s.ended <- Run(context.Background(), first, o)
		_ = outW.Close()
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		_ = outR.Close()
		_ = inR.Close()
	})
	return s, h.next()
}

func (s *side) sends(line string) {
	s.t.Helper()
	if _, err := s.in.WriteString(line + "\n"); err != nil {
		s.t.Fatalf("the client cannot write: %v", err)
	}
}

func (s *side) gets() string {
	s.t.Helper()
	_ = s.out.SetReadDeadline(time.Now().Add(soon))
	line, err := s.lines.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the client gets %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (s *side) wants(parts ...string) {
	s.t.Helper()
	got := s.gets()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			s.t.Errorf("the client got\n %s, without\n %s", got, p)
		}
	}
}

// ends closes the input and waits for the relay.
func (s *side) ends() {
	s.t.Helper()
	_ = s.in.Close()
	s.over()
}

func (s *side) over() {
	s.t.Helper()
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("the relay ended with %v", err)
		}
	case <-time.After(soon):
		s.t.Fatal("the relay does not end")
	}
	if rest, _ := io.ReadAll(s.lines); len(rest) > 0 {
		s.t.Errorf("the client got more: %s", rest)
	}
}

func call(id int, tool, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, id, tool, text)
}

const (
	initialize   = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"}}}`
	initialized  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	list         = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	listChanged  = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	drainingLine = `{"jsonrpc":"2.0","method":"` + attach.DrainingMethod + `"}`
)

func shakeHands(s *side, h *host) {
	s.t.Helper()
	s.sends(initialize)
	h.wants(initialize)
	h.says(`{"jsonrpc":"2.0","id":"i","result":{}}`)
	s.wants(`"id":"i"`)
	s.sends(initialized)
	h.wants(initialized)
}

// resumed is the handshake that the relay has with a later host.
func resumed(s *side, h *host) {
	s.t.Helper()
	got := h.gets()
	var n int
	if _, err := fmt.Sscanf(got, `{"jsonrpc":"2.0","id":"metamcp-relay/handshake-%d"`, &n); err != nil || !strings.Contains(got, `"method":"initialize","params":{"protocolVersion":"2025-11-25"`) {
		s.t.Fatalf("the new host is greeted with %s", got)
	}
	h.says(fmt.Sprintf(`{"jsonrpc":"2.0","id":"metamcp-relay/handshake-%d","result":{}}`, n))
	h.wants(initialized)
}

func TestLinesAreCopied(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, 0)
	shakeHands(s, h)
	s.sends(call(1, "mcp_call", "a"))
	h.wants(call(1, "mcp_call", "a"))
	h.says(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
	h.answers(1, `{"content":[]}`)
	s.wants(`"progress":1`)
	s.wants(`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`)
	s.sends(`no JSON at all`)
	h.wants(`no JSON at all`)
	s.sends(call(2, "mcp_call", "b"))
	h.wants(call(2, "mcp_call", "b"))
	_ = s.in.Close()
	h.ended() // but the answer still comes
	h.answers(2, `{}`)
	s.wants(`"id":2`)
	_ = h.conn.Close()
	s.over()
}

// A byte order mark in front of the first line does not hide the handshake, which the
// next host is told of. Anywhere else it is a part of the line.
func TestByteOrderMark(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	for _, c := range []byte(bom) {
		if _, err := s.in.Write([]byte{c}); err != nil {
			t.Fatal(err)
		}
	}
	shakeHands(s, h)
	s.sends(bom)
	h.wants(bom)
	_ = h.conn.Close()
	next := all.next()
	resumed(s, next)
	s.wants(listChanged)
	s.leaves(next)

	for _, first := range []string{"", "{", call(1, "mcp_call", strings.Repeat("x", 2*bufferSize))} {
		s, h := begin(t, all, soon)
		var sent sync.WaitGroup
		sent.Go(func() { s.sends(bom + first) })
		h.wants(first)
		sent.Wait()
		_ = s.in.Close()
		h.ended()
		if len(first) > 1 {
			h.answers(1, `{}`)
			s.wants(`"id":1`)
		}
		_ = h.conn.Close()
		s.over()
	}
}

// A call that the host had is reported as unknown, one that only reads is
// repeated, one that comes meanwhile waits; the session is told of anew.
func TestHostIsLost(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	shakeHands(s, h)
	s.sends(call(1, "mcp_call", "a"))
	h.wants(call(1, "mcp_call", "a"))
	s.sends(call(2, "mcp_discover", "b"))
	h.wants(call(2, "mcp_discover", "b"))
	s.sends(`{"jsonrpc":"2.0","id":3,"method":"tasks/make"}`)
	h.gets()
	all.run(false)
	_ = h.conn.Close()
	first, second := s.gets(), s.gets()
	if strings.Contains(second, `"id":1`) {
		first, second = second, first
	}
	if !strings.Contains(first, `"id":1`) || !strings.Contains(first, "unknown") || !strings.Contains(first, `"isError":true`) || !strings.Contains(first, `HOST_AWAY`) {
		t.Errorf("the call is answered with %s", first)
	}
	if !strings.Contains(second, `"id":3,"error":{"code":-32603`) || !strings.Contains(second, "unknown") {
		t.Errorf("the other request is answered with %s", second)
	}
	s.sends(call(4, "mcp_call", "d"))
	s.sends(call(5, "mcp_call", "given up"))
	s.sends(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	all.run(true)
	h = all.next()
	resumed(s, h)
	h.wants(call(2, "mcp_discover", "b"))
	h.wants(call(4, "mcp_call", "d"))
	s.wants(listChanged)
	h.answers(4, `{}`)
	h.answers(2, `{}`)
	s.wants(`"id":4`)
	s.wants(`"id":2`)
	_ = s.in.Close()
	h.ended()
	_ = h.conn.Close()
	s.over()
}

// What ends the client's own handshake reaches the next host once, whenever it comes:
// while no host is there, or while the relay greets one.
func TestHandshakeEndsWhileTheHostIsAway(t *testing.T) {
	for name, greeted := range map[string]bool{"no host": false, "a host that is greeted": true} {
		t.Run(name, func(t *testing.T) {
			all := newHosts(t)
			s, h := begin(t, all, soon)
			s.sends(initialize)
			h.wants(initialize)
			h.says(`{"jsonrpc":"2.0","id":"i","result":{}}`)
			s.wants(`"id":"i"`)
			all.run(false)
			_ = h.conn.Close()
			greets := func() {
				all.run(true)
				h = all.next()
				if got := h.gets(); !strings.Contains(got, `"id":"metamcp-relay/handshake-1","method":"initialize"`) {
					t.Fatalf("the new host is greeted with %s", got)
				}
			}
			s.sends(call(1, "mcp_call", "a"))
			s.sends(call(1, "mcp_call", "a"))
			s.wants("another request with this id") // the relay knows that the host is away
			if greeted {
				greets()
			}
			s.sends(initialized)
			s.sends(call(1, "mcp_call", "a"))
			s.wants("another request with this id") // and has taken all that
			if !greeted {
				greets()
			}
			h.says(`{"jsonrpc":"2.0","id":"metamcp-relay/handshake-1","result":{}}`)
			got := []string{h.gets(), h.gets()}
			slices.Sort(got)
			if want := []string{call(1, "mcp_call", "a"), initialized}; !slices.Equal(got, want) {
				t.Errorf("the new host got %q", got)
			}
			s.wants(listChanged)
			h.answers(1, `{}`)
			s.wants(`"id":1`)
			s.leaves(h)
		})
	}
}

// A request that ends every host is not sent on for ever.
func TestRepeatsAreBounded(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	s.sends(list)
	for range maxRepeats + 1 {
		h.wants(list)
		_ = h.conn.Close()
		h = all.next()
	}
	s.wants(`"id":7,"error"`, "changes nothing")
	_ = s.in.Close()
	h.ended()
	_ = h.conn.Close()
	s.over()
}

// A host that ends in order answers what it has; what is new goes to the next.
func TestHostDrains(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	shakeHands(s, h)
	s.sends(call(1, "mcp_call", "a"))
	h.wants(call(1, "mcp_call", "a"))
	h.says(drainingLine)
	next := all.next()
	resumed(s, next)
	s.wants(listChanged)
	s.sends(call(2, "mcp_call", "b"))
	next.wants(call(2, "mcp_call", "b"))
	next.answers(2, `{}`)
	s.wants(`"id":2`)
	s.sends(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`)
	next.gets()
	h.answers(1, `{"late":true}`)
	s.wants(`"id":1`, `"late":true`)
	h.ended()
	_ = h.conn.Close()
	_ = s.in.Close()
	next.ended()
	_ = next.conn.Close()
	s.over()
}

// A cancellation goes to the host that has the request.
func TestCancelAtADrainingHost(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	s.sends(call(1, "mcp_call", "a"))
	h.gets()
	h.says(drainingLine)
	next := all.next()
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	s.sends(cancel)
	h.wants(cancel)
	h.ended()
	_ = h.conn.Close()
	_ = s.in.Close()
	next.ended()
	_ = next.conn.Close()
	s.over()
}

func TestWaitingEnds(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, 50*time.Millisecond)
	all.run(false)
	_ = h.conn.Close()
	s.sends(call(1, "mcp_call", "a"))
	s.wants(`"id":1`, "was not carried out", `\"retryable\":true`, "metamcp host start")
	s.sends(list)
	s.wants(`"id":7,"error"`)
	all.run(true)
	h = all.next() // the search went on
	s.sends(list)
	h.wants(list)
	h.answers(7, `{}`)
	s.wants(`"id":7,"result"`)
	_ = s.in.Close()
	h.ended()
	_ = h.conn.Close()
	s.over()
}

// The client may end while nobody is there: its requests are still answered.
func TestEndWhileTheHostIsAway(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, 50*time.Millisecond)
	all.run(false)
	_ = h.conn.Close()
	s.sends(call(1, "mcp_call", "a"))
	_ = s.in.Close()
	s.wants(`"id":1`)
	s.over()
}

// What wants no answer keeps no relay whose client has gone.
func TestEndWithANotificationWhileTheHostIsAway(t *testing.T) {
	for name, line := range map[string]string{"notification": `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, "blank": "", "broken": "{"} {
		t.Run(name, func(t *testing.T) {
			all := newHosts(t)
			s, h := begin(t, all, 50*time.Millisecond)
			all.run(false)
			_ = h.conn.Close()
			s.sends(call(1, "mcp_call", "a"))
			s.wants(`"id":1`) // the relay knows that the host is away
			s.sends(line)
			s.ends()
		})
	}
}

func TestTooManyWait(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	s.sends(list)
	h.wants(list)
	s.sends(call(1, "mcp_call", "a"))
	h.wants(call(1, "mcp_call", "a"))
	all.run(false)
	_ = h.conn.Close()
	s.wants(`"id":1`, "unknown") // so that tools/list waits already
	for i := range maxHeld {
		s.sends(call(100+i, "mcp_call", "a"))
	}
	s.wants(fmt.Sprintf(`"id":%d`, 100+maxHeld-1), "too many requests wait")
	all.run(true)
	h = all.next()
	for range maxHeld {
		var id int
		if _, err := fmt.Sscanf(h.gets(), `{"jsonrpc":"2.0","id":%d`, &id); err != nil {
			t.Fatal(err)
		}
		h.answers(id, `{}`)
		s.gets()
	}
	_ = s.in.Close()
	h.ended()
	_ = h.conn.Close()
	s.over()
}

// Long lines pass in pieces, both ways, with the id wherever it stands.
func TestLongLines(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	body := strings.Repeat(`\"{[x`, 1<<18)
	front := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"` + body + `"}}`
	back := `{"method":"tools/call","params":{"id":5,"a":"` + body + `"},"jsonrpc":"2.0","id":2}`
	var sent sync.WaitGroup
	sent.Go(func() {
		s.sends(front)
		s.sends(back)
	})
	h.wants(front)
	h.wants(back)
	sent.Wait()
	answer := `{"jsonrpc":"2.0","id":1,"result":{"a":"` + body + `"}}`
	sent.Go(func() { h.says(answer) })
	if got := s.gets(); got != answer {
		t.Errorf("the answer came as %d bytes, not %d", len(got), len(answer))
	}
	sent.Wait()
	all.run(false)
	_ = h.conn.Close()
	s.wants(`"id":2`, "unknown")
	sent.Go(func() { s.sends(back) })
	s.wants(`"id":2`, "too long to wait")
	sent.Wait()
	s.ends()
}

// A host that dies in the middle of a long answer leaves a broken line, and the
// request is answered.
func TestHalfAnAnswer(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	s.sends(call(1, "mcp_call", "a"))
	h.gets()
	all.run(false)
	if _, err := h.conn.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 2*bufferSize))); err != nil {
		t.Fatal(err)
	}
	_ = h.conn.Close()
	s.wants(`"result":{"a":"xxx`)
	s.wants(`"id":1`, "unknown")
	s.ends()
}

// Of an answer that its host has not written to its end, and that is short, the client
// gets nothing but the answer that says so.
func TestHalfAShortAnswer(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	s.sends(call(1, "mcp_call", "a"))
	h.gets()
	all.run(false)
	if _, err := h.conn.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":"xxx`)); err != nil {
		t.Fatal(err)
	}
	_ = h.conn.Close()
	s.wants(`"id":1`, "unknown")
	s.ends()
}

// What was not written as a whole was not carried out, and is sent to the next.
func TestHostThatDoesNotRead(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	const each, many = 60 << 10, 40 // more than a socket holds
	text := strings.Repeat("y", each)
	var sent sync.WaitGroup
	sent.Go(func() {
		for i := range many {
			s.sends(call(i, "mcp_call", text))
		}
	})
	h.gets()
	_ = h.conn.Close() // the rest in its socket is lost
	next := all.next()
	seen := map[string]bool{}
	var reading sync.WaitGroup
	reading.Go(func() {
		for range many {
			line := s.gets()
			id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":`), ",")
			if seen[id] {
				t.Errorf("%s is answered twice", id)
			}
			seen[id] = true
			if strings.Contains(line, "method") {
				t.Errorf("the client got %.100s", line)
			}
		}
	})
	go func() { // ends with the connection
		for {
			line, err := next.lines.ReadString('\n')
			if err != nil {
				return
			}
			id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":`), ",")
			_, _ = fmt.Fprintf(next.conn, `{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", id)
		}
	}()
	sent.Wait()
	reading.Wait()
	_ = s.in.Close()
	select {
	case <-s.ended:
		t.Error("the relay ended before its host")
	case <-time.After(10 * time.Millisecond):
	}
	_ = next.conn.Close()
	s.over()
}

// A host that has answered and ended is heard to its end, also where the relay finds
// first that nothing can be written to it: each request gets its one answer.
func TestAnswersOfAHostThatHasEnded(t *testing.T) {
	for name, third := range map[string]string{"a line": call(3, "mcp_call", "c"), "a long line": call(3, "mcp_call", strings.Repeat("c", 4*bufferSize))} {
		t.Run(name, func(t *testing.T) {
			all := newHosts(t)
			s, h := begin(t, all, soon)
			for i := range 2 {
				s.sends(call(i+1, "mcp_call", "a"))
				h.wants(call(i+1, "mcp_call", "a"))
			}
			for range 2 { // more than the client's pipe takes, so that the relay reads no further
				h.says(`{"jsonrpc":"2.0","method":"notifications/message","params":{"pad":"` + strings.Repeat("x", 60<<10) + `"}}`)
			}
			h.answers(1, `{"real":true}`)
			h.answers(2, `{"real":true}`)
			_ = h.conn.Close()
			s.sends(third)
			next := all.next() // the relay has found that it cannot write
			if name == "a line" {
				next.wants(third)
				next.answers(3, `{"real":true}`)
			}
			seen := map[string]int{}
			for len(seen) < 3 {
				line := s.gets()
				if strings.Contains(line, "notifications/message") {
					continue
				}
				id, rest, _ := strings.Cut(strings.TrimPrefix(line, `{"jsonrpc":"2.0","id":`), ",")
				if seen[id]++; seen[id] > 1 || id != "3" && rest != `"result":{"real":true}}` || id == "3" && name == "a line" && rest != `"result":{"real":true}}` {
					t.Errorf("the client got %s", line)
				}
			}
			s.leaves(next)
		})
	}
}

// A host that does not read any more is heard while it says something, and then lost.
func TestHostThatListensNoMore(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	for i := range 2 {
		s.sends(call(i+1, "mcp_call", "a"))
		h.wants(call(i+1, "mcp_call", "a"))
	}
	if err := h.conn.(*net.UnixConn).CloseRead(); err != nil {
		t.Fatal(err)
	}
	s.sends(call(3, "mcp_call", "c"))
	next := all.next()
	next.wants(call(3, "mcp_call", "c"))
	h.answers(1, `{"real":true}`)
	s.wants(`"id":1`, `"real":true`)
	s.wants(`"id":2`, "unknown")
	next.answers(3, `{}`)
	s.wants(`"id":3`)
	s.leaves(next)
}

// Subscriptions of a modern client are made anew, and it hears of a change.
func TestSubscriptionsAreResumed(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	listen := `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a://b"]}}}`
	ack := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"n":%d}}`
	missed := func() { // and no second acknowledgement
		t.Helper()
		s.wants(`"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}`)
		s.wants(`"method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"},"uri":"a://b"}`)
	}
	s.sends(listen)
	h.wants(listen)
	h.says(fmt.Sprintf(ack, 1))
	s.wants(`"n":1`)
	h.says(drainingLine)
	next := all.next()
	next.wants(listen)
	h.ended()
	h.says(`{"jsonrpc":"2.0","id":"l","result":{}}`) // of no interest: the next one has it
	_ = h.conn.Close()
	next.says(fmt.Sprintf(ack, 2))
	missed()
	all.run(false)
	_ = next.conn.Close()
	all.run(true)
	third := all.next()
	third.wants(listen)
	third.says(fmt.Sprintf(ack, 3))
	missed()
	third.says(`{"jsonrpc":"2.0","id":"l","result":{"over":true}}`)
	s.wants(`"over":true`)
	_ = s.in.Close()
	third.ended()
	_ = third.conn.Close()
	s.over()
}

// leaves ends the client, and the host with it.
func (s *side) leaves(h *host) {
	s.t.Helper()
	_ = s.in.Close()
	h.ended()
	_ = h.conn.Close()
	s.over()
}

// question is a request of a host for the client, and reply the answer to it.
func question(id, pad string) string {
	return `{"jsonrpc":"2.0","id":"` + id + `","method":"elicitation/create","params":{"pad":"` + pad + `"}}`
}

func reply(id, text string) string {
	return `{"jsonrpc":"2.0","id":"` + id + `","result":{"text":"` + text + `"}}`
}

// A host that ends soon may end a subscription before there is a next host: the
// client does not see it.
func TestDrainingHostEndsASubscription(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	listen := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true}}}`
	s.sends(listen)
	h.wants(listen)
	all.run(false)
	h.says(drainingLine)
	h.says(`{"jsonrpc":"2.0","id":7,"result":{"over":1}}`)
	h.ended()
	_ = h.conn.Close()
	all.run(true)
	next := all.next()
	next.wants(listen)
	next.says(`{"jsonrpc":"2.0","id":7,"result":{"over":2}}`)
	s.wants(`"over":2`)
	_ = s.in.Close()
	next.ended()
	_ = next.conn.Close()
	s.over()
}

// Resources that a client with a handshake has subscribed to are the next host's
// as well, those that it has given up are not.
func TestResourcesAreSubscribedAgain(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	both := func(line string) {
		t.Helper()
		s.sends(line)
		h.wants(line)
	}
	both(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
	h.answers(0, `{}`)
	s.wants(`"id":0`)
	both(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i, line := range []string{`subscribe","params":{"uri":"a://1"}`, `subscribe","params":{"uri":"a://2","_meta":{}}`, `unsubscribe","params":{"uri":"a://1"}`} {
		both(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s}`, i+1, line))
		h.answers(i+1, `{}`)
		s.wants(fmt.Sprintf(`"id":%d`, i+1))
	}
	all.run(false)
	_ = h.conn.Close()
	all.run(true)
	next := all.next()
	next.wants(`{"jsonrpc":"2.0","id":"metamcp-relay/handshake-2","method":"initialize","params":{}}`)
	next.says(`{"jsonrpc":"2.0","id":"metamcp-relay/handshake-2","result":{}}`)
	next.wants(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	next.wants(`{"jsonrpc":"2.0","id":"metamcp-relay/handshake-1","method":"resources/subscribe","params":{"uri":"a://2","_meta":{}}}`)
	s.wants(`"method":"notifications/tools/list_changed"`)
	next.says(`{"jsonrpc":"2.0","id":"metamcp-relay/handshake-1","result":{}}`)
	s.wants(`"method":"notifications/resources/updated","params":{"uri":"a://2"}`)
	_ = s.in.Close()
	next.ended()
	_ = next.conn.Close()
	s.over()
}

// A client with a handshake hears after a change of host of the lists that it has
// asked for, once of each, and of no others but that of tools.
func TestListsMayBeOthersAtTheNextHost(t *testing.T) {
	for _, tt := range []struct{ asked, told []string }{
		{nil, nil},
		{[]string{"prompts/list"}, []string{methodPrompts}},
		{[]string{"resources/templates/list", "resources/list", "resources/templates/list"}, []string{methodResources}},
		{[]string{"resources/list", "prompts/list"}, []string{methodResources, methodPrompts}},
	} {
		all := newHosts(t)
		s, h := begin(t, all, soon)
		shakeHands(s, h)
		for i, method := range tt.asked {
			line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, i, method)
			s.sends(line)
			h.wants(line)
			h.answers(i, `{}`)
			s.wants(fmt.Sprintf(`"id":%d`, i))
		}
		all.run(false)
		_ = h.conn.Close()
		all.run(true)
		next := all.next()
		resumed(s, next)
		for _, method := range append([]string{methodTools}, tt.told...) {
			s.wants(`{"jsonrpc":"2.0","method":"` + method + `"}`)
		}
		s.leaves(next)
	}
}

// What a host asks the client is answered to that host, also while it drains,
// and cancelled where it is lost; a late answer reaches nobody.
func TestHostAsksTheClient(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	s.sends(call(1, "mcp_call", "a"))
	h.gets()
	h.says(question("a-1", ""))
	s.wants(question("a-1", ""))
	h.says(drainingLine)
	next := all.next()
	next.says(question("b-1", ""))
	s.wants(question("b-1", ""))
	s.sends(reply("b-1", "new"))
	next.wants(reply("b-1", "new"))
	next.says(question("a-1", "the same id"))
	if got := next.gets(); !strings.Contains(got, `"id":"a-1","error"`) {
		t.Errorf("a second host asks with the same id: it got %s", got)
	}
	s.sends(reply("a-1", "old"))
	h.wants(reply("a-1", "old"))
	s.sends(reply("a-1", "twice"))
	s.sends(reply("nobody", "asked"))
	s.sends(list)
	next.wants(list)
	h.answers(1, `{}`)
	s.wants(`"id":1`)
	h.ended()
	_ = h.conn.Close()
	next.answers(7, `{}`)
	s.wants(`"id":7`)
	next.says(question("b-2", ""))
	s.wants(question("b-2", ""))
	_ = next.conn.Close()
	s.wants(`"method":"notifications/cancelled"`, `"requestId":"b-2"`)
	last := all.next()
	last.says(question("c-1", ""))
	s.wants(question("c-1", ""))
	s.sends(reply("b-2", "late"))
	s.sends(reply("c-1", "mine"))
	last.wants(reply("c-1", "mine"))
	s.leaves(last)
}

// A question that its host takes back is forgotten: more than the most that may be
// open can follow, and a late answer reaches nobody.
func TestQuestionsAreTakenBack(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	for i := range maxAsked + 2 {
		id := fmt.Sprint("a-", i)
		back := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"` + id + `","reason":"the call was cancelled"}}`
		h.says(question(id, ""))
		s.wants(question(id, ""))
		h.says(back)
		s.wants(back)
	}
	h.says(question("last", ""))
	s.wants(question("last", ""))
	s.sends(reply("a-0", "late"))
	s.sends(reply("last", "well"))
	h.wants(reply("last", "well"))
	s.leaves(h)
}

// Questions and answers that are too long to be taken as a whole go the same way as
// others, with the id in front or behind.
func TestLongQuestions(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	s.sends(call(1, "mcp_call", "a"))
	h.gets()
	pad := strings.Repeat("x", 2*bufferSize)
	h.says(question("a-1", pad))
	s.wants(question("a-1", pad))
	h.says(question("a-2", pad))
	s.wants(question("a-2", pad))
	h.says(drainingLine)
	next := all.next()
	s.sends(reply("a-1", pad))
	h.wants(reply("a-1", pad))
	behind := `{"result":{"text":"` + pad + `"},"jsonrpc":"2.0","id":"a-2"}`
	s.sends(behind)
	h.wants(behind)
	h.answers(1, `{}`)
	s.wants(`"id":1`)
	h.ended()
	_ = h.conn.Close()
	s.sends(list)
	next.wants(list)
	next.answers(7, `{}`)
	s.wants(`"id":7`)
	s.leaves(next)
}

// Where a connection can only be closed as a whole, that waits for the last
// answer.
func TestWholeConnections(t *testing.T) {
	all := newHosts(t)
	all.whole = true
	s, h := begin(t, all, soon)
	s.sends(call(1, "mcp_call", "a"))
	h.gets()
	_ = s.in.Close()
	h.answers(1, `{}`)
	s.wants(`"id":1`)
	h.ended()
	s.over()
	s, h = begin(t, all, soon)
	s.ends()
	h.ended()
}

func TestClientIsGone(t *testing.T) {
	all := newHosts(t)
	s, h := begin(t, all, soon)
	_ = s.out.Close()
	h.answers(1, `{}`)
	h.ended()
	select {
	case err := <-s.ended:
		if err == nil || !strings.Contains(err.Error(), "writing to the client") {
			t.Errorf("the relay ended with %v", err)
		}
	case <-time.After(soon):
		t.Fatal("the relay does not end")
	}
}

// A relay whose client has gone gives a host up that hangs, and waits for one that works
// in silence.
func TestSilentHost(t *testing.T) {
	for name, hangs := range map[string]bool{"it hangs": true, "it works": false} {
		t.Run(name, func(t *testing.T) {
			all := newHosts(t)
			asked := make(chan struct{})
			all.asked = func(ctx context.Context, info attach.HostInfo) (bool, error) {
				select {
				case asked <- struct{}{}:
				case <-ctx.Done():
				}
				if hangs {
					return false, &attach.HangsError{Host: info}
				}
				return true, nil
			}
			s, h := begin(t, all, soon)
			s.sends(call(1, "mcp_call", "a"))
			h.wants(call(1, "mcp_call", "a"))
			_ = s.in.Close()
			<-asked
			if hangs {
				s.wants(`"id":1`, "unknown")
				s.over()
				return
			}
			<-asked
			<-asked
			h.answers(1, `{"real":true}`)
			_ = h.conn.Close()
			s.wants(`"id":1`, `"real":true`)
			s.over()
		})
	}
}

// A host that goes on while it is asked is not given up, although it did not answer.
func TestSilentHostGoesOn(t *testing.T) {
	all := newHosts(t)
	asked, late := make(chan struct{}), make(chan struct{})
	all.asked = func(ctx context.Context, info attach.HostInfo) (bool, error) {
		select {
		case asked <- struct{}{}:
		case <-ctx.Done():
		}
		select {
		case <-late:
			return true, nil
		default:
		}
		late <- struct{}{}
		close(late)
		return false, &attach.HangsError{Host: info}
	}
	s, h := begin(t, all, soon)
	s.sends(call(1, "mcp_call", "a"))
	h.wants(call(1, "mcp_call", "a"))
	_ = s.in.Close()
	<-asked
	h.says(listChanged)
	s.wants(listChanged)
	<-late
	select {
	case <-asked:
	case <-s.ended:
		t.Fatal("the host was given up")
	}
	h.answers(1, `{"real":true}`)
	_ = h.conn.Close()
	s.wants(`"id":1`, `"real":true`)
	s.over()
}

// A host is given up once, also where what it said last is not read for long.
func TestHostIsGivenUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := net.Pipe()
		said := 0
		ctx, stop := context.WithCancel(t.Context())
		r := &relay{ctx: ctx, eof: true, links: map[*link]struct{}{{conn: &attach.Conn{Conn: conn}}: {}}, o: Options{
			Silence: time.Second, Say: func(string) { said++ },
			Answers: func(_ context.Context, info attach.HostInfo) (bool, error) {
				return false, &attach.HangsError{Host: info}
			},
		}}
		go r.watch()
		<-time.After(time.Minute)
		stop()
		synctest.Wait()
		if said != 1 {
			t.Errorf("it was said %d times", said)
		}
	})
}

func TestScanner(t *testing.T) {
	for _, c := range []struct{ line, id, method string }{
		{`{"jsonrpc":"2.0","id":1,"method":"m"}`, "1", `"m"`},
		{` { "id" : "a\"b" , "result" : {"id":3,"method":"x"} } `, `"a\"b"`, ""},
		{`{"params":{"id":4},"method":"x"}`, "", `"x"`},
		{`{"x":"\"id\":3","id":-1.5e3}`, "-1.5e3", ""},
		{`{"id":null,"error":{}}`, "null", ""},
		{`[]`, "", ""}, {``, "", ""}, {`]]{"id":1`, "", ""},
		{`{"id":"` + strings.Repeat("i", 2*maxName) + `"}`, `"` + strings.Repeat("i", 2*maxName) + `"`, ""},
		{`{"` + strings.Repeat("k", 2*maxName) + `":1,"result":"` + strings.Repeat("r", 2*maxName) + `","id":1}`, "1", ""},
	} {
		for size := 1; size < len(c.line)+2; size += 7 {
			var s scanner
			for rest := []byte(c.line); len(rest) > 0; {
				n := min(size, len(rest))
				s.feed(rest[:n])
				rest = rest[n:]
			}
			if string(s.id) != c.id || string(s.method) != c.method {
				t.Errorf("%.60s in pieces of %d: id %q, method %q", c.line, size, s.id, s.method)
			}
		}
	}
}

// A line keeps no more of an id than a whole line may have, and says where readers
// differ on which one it has.
func TestScannerOfIDs(t *testing.T) {
	var s scanner
	s.feed([]byte(`{"id":"` + strings.Repeat("i", 2*maxValue) + `","method":"m"}`))
	if s.id != nil || cap(s.token) > 2*maxValue || string(s.method) != `"m"` {
		t.Errorf("an id of %d bytes is kept, the method is %s", len(s.id), s.method)
	}
	for line, unclear := range map[string]bool{
		`{"id":1,"method":"m"}`: false, `{"\u0069d":1}`: true, `{"id":1,"params":{"id":2}}`: false, `{"method":"m"}`: false,
		`{"id":1,"id":1}`: true, `{"id":1,"ID":2}`: true, `{"Id":[1],"id":2}`: true, `{"id":1,"\u0049D":{}}`: true,
	} {
		var s scanner
		s.feed([]byte(line))
		if s.unclear() != unclear {
			t.Errorf("which id %s has is unclear: %v", line, !unclear)
		}
	}
}

// settled sees that a host that ends soon is waited for no longer, since all that it was
// asked is answered: its connection ends, and the client gets nothing more of it.
func (s *side) settled(all *hosts, h *host) {
	s.t.Helper()
	h.says(drainingLine)
	h.ended()
	_ = h.conn.Close()
	s.leaves(all.next())
}

// An answer is known by its id, however long that is.
func TestLongIDs(t *testing.T) {
	for _, size := range []int{maxName, 60 << 10} {
		id := `"` + strings.Repeat("i", size) + `"`
		for name, pad := range map[string]string{"a line": "", "a long line": strings.Repeat("x", 2*bufferSize)} {
			t.Run(fmt.Sprintf("%d, %s", size, name), func(t *testing.T) {
				all := newHosts(t)
				s, h := begin(t, all, soon)
				ask := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"mcp_call"}}`
				s.sends(ask)
				h.wants(ask)
				answer := `{"jsonrpc":"2.0","id":` + id + `,"result":{"pad":"` + pad + `"}}`
				var said sync.WaitGroup
				said.Go(func() { h.says(answer) })
				if got := s.gets(); got != answer {
					t.Errorf("the client got %d bytes, want %d", len(got), len(answer))
				}
				said.Wait()
				s.settled(all, h)
			})
		}
	}
}

// What a host refuses by no id has its one answer.
func TestRefusedByNoID(t *testing.T) {
	long := strings.Repeat("x", 2*bufferSize)
	for name, line := range map[string]string{
		"no JSON":            `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"` + long + `",}}`,
		"no UTF-8":           `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"` + long + "\xff" + `"}}`,
		"no id of a request": `{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"a":"` + long + `"}}`,
		"two ids":            `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"` + long + `"},"ID":2}`,
		"two ids, short":     `{"jsonrpc":"2.0","id":1,"method":"tools/call","id":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			all := newHosts(t)
			s, h := begin(t, all, soon)
			var sent sync.WaitGroup
			sent.Go(func() { s.sends(line) })
			h.wants(line)
			sent.Wait()
			h.says(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`)
			s.wants(`"id":null`)
			s.settled(all, h)
		})
	}
}

// A request that a host refuses by its id is in flight until then, also where it is no
// message of the protocol.
func TestRefusedByItsID(t *testing.T) {
	for _, line := range []string{
		`{"id":1,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}`,
	} {
		all := newHosts(t)
		s, h := begin(t, all, soon)
		s.sends(line)
		h.wants(line)
		all.run(false)
		_ = h.conn.Close()
		s.wants(`"id":1,"error"`, "unknown")
		s.ends()
	}
}

func TestLineReader(t *testing.T) {
	long := strings.Repeat("z", 3*bufferSize)
	text := "a\n\n" + long + "\nend"
	r := newLineReader(strings.NewReader(text))
	var out bytes.Buffer
	lines := 0
	for {
		p, err := r.next()
		if err != nil {
			break
		}
		out.Write(p.text)
		if p.last {
			lines++
		}
	}
	if out.String() != text+"\n" || lines != 4 {
		t.Errorf("%d bytes of %d in %d lines", out.Len(), len(text)+1, lines)
	}
}
