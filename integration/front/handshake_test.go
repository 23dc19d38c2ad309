package front

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// A session that does nothing holds little of its client's handshake, however much
// that client said of itself.
func TestHandshakesAreNotKept(t *testing.T) {
	const clients, large = 4, 256 << 10
	// said is what a client says of itself, which no two clients share.
	said := func(i int) (info, can string) {
		long := fmt.Sprint(i, strings.Repeat("x", large))
		return fmt.Sprintf(`{"name":"%[1]s","version":"%[1]s","title":"%[1]s"}`, long),
			`{"experimental":{"a":{"list":[` + strings.Repeat(`{"b":0},`, large/100) + `{}]}}}`
	}
	initialize := func(i int) string {
		info, can := said(i)
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":%s}}`, can, info)
	}
	opened := func(t *testing.T, r *reply) {
		t.Helper()
		if r.StatusCode != 200 || strings.Contains(r.body, `"error"`) {
			t.Fatalf("%d, %.200s", r.StatusCode, r.body)
		}
	}
	for name, greet := range map[string]func(t *testing.T) (one func(i int) *Peer){
		"over HTTP": func(t *testing.T) func(i int) *Peer {
			f := startHTTP(t, HTTPOptions{})
			return func(i int) *Peer {
				opened(t, f.post(initialize(i), nil))
				return f.peer(i)
			}
		},
		"over HTTP without sessions": func(t *testing.T) func(i int) *Peer {
			f := startHTTP(t, HTTPOptions{})
			return func(i int) *Peer {
				info, can := said(i)
				meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":` + info + `,"io.modelcontextprotocol/clientCapabilities":` + can
				opened(t, f.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{`+meta+`}}}`, modernHeaders("tools/list", "")))
				return f.peer(i)
			}
		},
		"over stdio": func(t *testing.T) func(i int) *Peer {
			return func(i int) *Peer {
				ready := make(chan *Peer, 1)
				s := start(t, Options{Ready: func(p *Peer) { ready <- p }})
				s.send(initialize(i))
				if answer := s.recv(); !strings.Contains(answer, `"result"`) {
					t.Fatalf("%.200s", answer)
				}
				s.lines = nil // it takes more than the session
				return <-ready
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			one := greet(t)
			one(0)
			before := heap()
			peers := make([]*Peer, 0, clients)
			for i := range clients {
				peers = append(peers, one(i+1))
			}
			if grown := heap() - before; grown > 4*large {
				t.Errorf("%d sessions hold %d bytes more", clients, grown)
			}
			for i, p := range peers {
				if info := p.GetClientInfo(); !strings.HasPrefix(info.Name, fmt.Sprint(i+1, "x")) || len(info.Name) > 300 {
					t.Errorf("client %d is called %q (%d bytes)", i+1, messages.Cut(info.Name, 20), len(info.Name))
				}
			}
		})
	}
}

// heap is how many bytes are in use that something refers to.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what a pool let go of in the first one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
