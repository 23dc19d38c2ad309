package web

import (
	"context"
	"encoding/json"

	"github.com/metamcp/metamcp/messages"
)

// Host is what the page shows, without secrets. Its methods are called from many goroutines at
// a time and must return soon after their context ends.
type Host interface {
	// Status describes the host as it is now. The result is not changed.
	Status(ctx context.Context) (*messages.HostStatus, error)
	// Trace streams records until ctx ends. The channel is bounded and lossy
	// (drops come as [messages.TraceDropped] records), and closed when the host
	// ends.
	Trace(ctx context.Context) (<-chan messages.TraceRecord, error)
	// Search finds tools; it may start servers that were never seen. The error
	// is a *[messages.Error] where the reader can do something about it.
	Search(ctx context.Context, q Query) (*Found, error)
	// Tool returns a tool's whole definition, as MCP lists it. Errors are as of
	// Search.
	Tool(ctx context.Context, server, tool string) (json.RawMessage, error)
}

// Query is a search of the catalog.
type Query struct {
	Text   string
	Server string // ""; all
}

// Found is what a search found.
type Found struct {
	Matches []Match  `json:"matches"` // best first
	Pending []string `json:"pending"` // servers that were not ready in time
	Failed  []Failed `json:"failed"`  // servers that could not be asked
	Notes   []string `json:"notes"`   // what was not as it should be
	// Soon says that the same search may find more by meaning in a moment.
	Soon bool `json:"soon"`
}

// Match is a tool that fits a query.
type Match struct {
	Server    string  `json:"server"`
	Tool      string  `json:"tool"`
	Summary   string  `json:"summary"`
	Score     float64 `json:"score"` // in [0,1]
	Connected bool    `json:"connected"`
	Hidden    bool    `json:"hidden"` // its texts held invisible characters
}

// Failed is a server that could not be asked.
type Failed struct {
	Server string `json:"server"`
	Error  string `json:"error"`
}
