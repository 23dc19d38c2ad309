//go:build unix

package e2e_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// greeting is what a client says first that writes its lines itself.
const greeting = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"deaf","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// TestClientThatNeverReadsHoldsUpNobody: one client asks a server for two gigabytes
// and reads nothing. Five others go on with the same server, and with one more; the
// host holds little for the one, and ends with nothing left.
func TestClientThatNeverReadsHoldsUpNobody(t *testing.T) {
	p := newPlace(t, demos(t, 2), nil)
	h := p.host()
	var others []*client
	for range 5 {
		c := p.client()
		c.echo("d0", "first")
		c.echo("d1", "first")
		others = append(others, c)
	}
	before := residentOf(t, h.PID)
	deaf := p.run("--attach=require")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		call := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"d0","tool":"big","args":{"bytes":1000000}}}}` + "\n"
		_, err := fmt.Fprint(deaf.Stdin(), greeting)
		for i := 0; i < 2000 && err == nil; i++ {
			_, err = fmt.Fprintf(deaf.Stdin(), call, i+10)
		}
	}()
	p.awaitClients(6)
	goOn(t, others)
	const mib = 1 << 20
	if grown := residentOf(t, h.PID) - before; grown > 200*mib {
		t.Errorf("the host grew by %d MiB", grown/mib)
	}
	deaf.Signal(t, os.Kill)
	<-sent
	p.awaitClients(5)
	for _, c := range others {
		c.echo("d0", "last")
	}
}

// goOn has clients make calls of both servers, and none of them wait. A call that came
// behind the two gigabytes took half a minute where this was measured; one behind what
// a server is given at once takes a part of a second.
func goOn(t *testing.T, clients []*client) {
	t.Helper()
	const most = 20 * time.Second
	var slowest time.Duration
	for range 20 {
		for _, c := range clients {
			began := time.Now()
			c.echo("d0", "again")
			c.echo("d1", "again")
			slowest = max(slowest, time.Since(began))
		}
	}
	if slowest > most {
		t.Errorf("a client waited for %v", slowest)
	}
	t.Logf("the slowest two calls took %v", slowest)
}

// TestHTTPClientThatNeverReadsHoldsUpNobody: the same where the one comes over HTTP.
func TestHTTPClientThatNeverReadsHoldsUpNobody(t *testing.T) {
	p := newPlace(t, demos(t, 2), nil)
	p.host("--http", "127.0.0.1:0")
	var others []*client
	for range 5 {
		c := p.client()
		c.echo("d0", "first")
		c.echo("d1", "first")
		others = append(others, c)
	}
	address := strings.TrimPrefix(p.httpOf(), "http://")
	address = address[:strings.IndexByte(address, '/')]
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mcp_call","arguments":{"server":"d0","tool":"big","args":{"bytes":4000000}},` + modernMeta + `}}`
	for range 16 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: mcp_call\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body)
		if err != nil {
			t.Fatal(err)
		}
	}
	goOn(t, others)
}

// residentOf is the memory of a process in bytes; 0 where the system does not tell.
func residentOf(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kb int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	t.Fatalf("no VmRSS in %s", text)
	return 0
}
