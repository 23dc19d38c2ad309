package front

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// listenBounded serves a front for clients with tokens, of which the listener has at
// most so many connections.
func listenBounded(t *testing.T, conns int) *Listener {
	t.Helper()
	f := startHTTP(t, HTTPOptions{Authorize: byName})
	l, err := f.h.Listen(t.Context(), ListenOptions{Addr: ":0", maxConns: conns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.http.Close() }) // the front is the test's
	return l
}

// served opens a connection on which one request of a token is answered, and which is
// idle: the answer is read before the server has put the connection aside.
func served(t *testing.T, l *Listener, token string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := dial(t, l)
	from := bufio.NewReader(c)
	if r := ask(t, c, from, initLine("2025-11-25"), "Authorization: Bearer "+token+"\r\n"); r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", token, r.Status)
	}
	eventually(t, "the connection is idle", func() bool { return isIdle(l.gate, c.LocalAddr().String()) })
	return c, from
}

// isIdle says whether the connection from this address is between two requests.
func isIdle(g *gate, from string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.holders {
		for e := h.idle.Front(); e != nil; e = e.Next() {
			if c, ok := e.Value.(*gateConn); ok && c.RemoteAddr().String() == from {
				return true
			}
		}
	}
	return false
}

func isClosed(t *testing.T, what string, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%s: %d bytes came", what, n)
	} else if strings.Contains(err.Error(), "timeout") {
		t.Errorf("%s is still open", what)
	}
}

// One token has half of the connections at most, however many it opens: those that it
// does not use make room for its own, and others are served.
func TestHTTPShareOfConnections(t *testing.T) {
	l := listenBounded(t, 8)
	conns := make([]net.Conn, 12)
	readers := make([]*bufio.Reader, len(conns))
	for i := range conns {
		conns[i], readers[i] = served(t, l, "a")
	}
	const share = 4
	for range share {
		served(t, l, "b")
	}
	for i, c := range conns[:len(conns)-share] {
		isClosed(t, fmt.Sprint("connection ", i), c)
	}
	last := len(conns) - 1
	if r := ask(t, conns[last], readers[last], initLine("2025-11-25"), "Authorization: Bearer a\r\n"); r.StatusCode != http.StatusOK {
		t.Error("the newest connection:", r.Status)
	}
}

// Where others have all connections, an idle one of whoever has most makes room.
func TestHTTPIdleConnectionsMakeRoom(t *testing.T) {
	l := listenBounded(t, 5)
	most, _ := served(t, l, "a")
	served(t, l, "a")
	less, from := served(t, l, "b")
	served(t, l, "c")
	served(t, l, "d")
	served(t, l, "e") // there is no place
	isClosed(t, "the oldest of a", most)
	if r := ask(t, less, from, initLine("2025-11-25"), "Authorization: Bearer b\r\n"); r.StatusCode != http.StatusOK {
		t.Error("the one of b:", r.Status)
	}
}

// Connections in use stay; who has no other one is refused.
func TestHTTPConnectionsInUse(t *testing.T) {
	l := listenBounded(t, 4)
	for range 2 { // their share
		c := dial(t, l)
		fmt.Fprint(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 100\r\nAuthorization: Bearer a\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("%q, %v", line, err) // it is let in by then
		}
	}
	c := dial(t, l)
	from := bufio.NewReader(c)
	if r := ask(t, c, from, initLine("2025-11-25"), "Authorization: Bearer a\r\n"); r.StatusCode != http.StatusTooManyRequests || !r.Close || r.Header.Get("Retry-After") == "" {
		t.Errorf("one more than its share: %s, closed %t", r.Status, r.Close)
	}
	served(t, l, "b")
}
