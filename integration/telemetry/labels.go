package telemetry

import "sync"

// Series are kept for as long as the host runs, so what names them is bounded.
const (
	maxServers   = 1000
	otherName    = "_other"   // beyond the bound
	unknownName  = "_unknown" // what a client made up
	toolsUnnamed = ""         // where no tool is to be named
)

// label names a server and a tool in metrics.
type label struct {
	server, tool           string
	knownServer, knownTool bool
}

type labels struct {
	toolLimit int

	mu      sync.RWMutex
	servers map[string]bool
	tools   map[[2]string]bool // server and tool
}

func newLabels(toolLimit int) *labels {
	return &labels{toolLimit: toolLimit, servers: map[string]bool{}, tools: map[[2]string]bool{}}
}

// of returns how metrics name a tool; "" is none.
func (l *labels) of(server, tool string, known func(server, tool string) (bool, bool)) label {
	out := label{server: unknownName, tool: toolsUnnamed}
	out.knownServer, out.knownTool = known(server, tool)
	if out.knownServer {
		out.server = server
	}
	if l.toolLimit > 0 && tool != toolsUnnamed {
		out.tool = unknownName
		if out.knownTool {
			out.tool = tool
		}
	}
	if !out.knownServer {
		return out
	}
	wantsTool := out.knownTool && l.toolLimit > 0
	pair := [2]string{server, tool}
	l.mu.RLock()
	seenServer, seenTool := l.servers[server], l.tools[pair]
	l.mu.RUnlock()
	if seenServer && (seenTool || !wantsTool) {
		return out
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.servers[server] {
		if len(l.servers) >= maxServers {
			out.server, out.tool = otherName, otherName
			return out
		}
		l.servers[server] = true
	}
	if wantsTool && !l.tools[pair] {
		if len(l.tools) >= l.toolLimit {
			out.tool = otherName
			return out
		}
		l.tools[pair] = true
	}
	return out
}
