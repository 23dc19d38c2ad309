package front

import (
	"sync"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// maxNames bounds the table of names; the names beyond are made anew each
// time.
const maxNames = 4096

// names keeps the names of servers and tools as strings, so that a call does
// not make them anew. It is safe for use from any goroutine.
type names struct {
	mu    sync.RWMutex
	known map[string]string // raw JSON string, with quotes → name
}

// of returns the string that raw quotes; "" where it quotes none.
func (n *names) of(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	n.mu.RLock()
	name, ok := n.known[string(raw)]
	n.mu.RUnlock()
	if ok {
		return name
	}
	name, err := jsonrpc.Unquote(raw)
	if err != nil {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil {
		n.known = make(map[string]string)
	}
	// A name of more than 256 bytes exists nowhere; keeping it would let one
	// client fill the memory.
	if len(n.known) < maxNames && len(raw) <= 256 {
		n.known[string(raw)] = name
	}
	return name
}
