//go:build unix

package e2e_test

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// One process serves the client that started it and others over HTTP, with one
// process for each server, and ends with that client.
func TestStdioAndHTTPInOneProcess(t *testing.T) {
	p := newPlace(t, demos(t, 2), nil)
	proc := p.run("serve", "--stdio", "--http", ":0")
	c := &client{Lines: proc.Lines(t), p: proc, t: t}
	c.Handshake()
	url := proc.AwaitHTTP(t)
	over := webClient(t, true)
	for _, server := range []string{"d0", "d1"} {
		c.echoes(server, "over stdio")
		if err := modernEcho(t.Context(), over, url, server, "over HTTP"); err != nil {
			t.Error(err)
		}
	}
	if procs := alive(t, p.mark); len(procs) != 2 {
		t.Errorf("two servers have %d processes: %v", len(procs), procs)
	}
	// The address is taken: the client that started the process is served all the same.
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	second := p.run("serve", "--stdio", "--http", addr)
	other := &client{Lines: second.Lines(t), p: second, t: t}
	other.Handshake()
	other.echoes("d0", "without HTTP")
	eventually(t, "it is said of the address that it is taken", func() bool { return second.Stderr.Contains("choose another port") })
	for _, proc := range []*testkit.Process{proc, second} {
		proc.CloseStdin()
		if code := proc.Wait(t, patience); code != 0 {
			t.Errorf("it ended with status %d: %s", code, proc.Stderr)
		}
	}
	testkit.AwaitMarkedGone(t, patience, p.mark)
	// A host that runs is not attached to: the address would be nobody's.
	p.host()
	own := p.run("serve", "--stdio", "--http", addr)
	oc := &client{Lines: own.Lines(t), p: own, t: t}
	oc.Handshake()
	if err := modernEcho(t.Context(), webClient(t, true), url, "d0", "beside a host"); err != nil {
		t.Error(err)
	}
	p.awaitClients(0)
}
