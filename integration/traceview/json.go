package traceview

import (
	"encoding/json"
	"io"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// jsonHop is the slowest hop of a request in JSON.
type jsonHop struct {
	Type   string `json:"type"`
	To     string `json:"to"`
	WaitNs int64  `json:"waitNs"`
	SelfNs int64  `json:"selfNs"`
}

// jsonRequest is a request in JSON.
type jsonRequest struct {
	Request    uint64    `json:"request"`
	Run        int       `json:"run"` // from 1
	Server     string    `json:"server,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	Start      time.Time `json:"start"`
	DurationNs int64     `json:"durationNs"`
	WaitedNs   int64     `json:"waitedNs,omitempty"` // of it, until a script had a process
	Outcome    string    `json:"outcome,omitempty"`
	// These are of a script: the kind of its failure, how many calls it made,
	// and the servers that they went to.
	Failure string   `json:"failure,omitempty"`
	Calls   int      `json:"calls,omitempty"`
	Servers []string `json:"servers,omitempty"`

	Failed   bool     `json:"failed"`
	Messages int      `json:"messages"`
	Events   int      `json:"events"`
	Slowest  *jsonHop `json:"slowest,omitempty"`
	// Records are those of the request, only where one was asked for.
	Records []messages.TraceRecord `json:"records,omitempty"`
}

func toJSON(r *Request, records bool) jsonRequest {
	j := jsonRequest{
		Request: r.ID, Run: r.Run + 1, Server: r.Server, Tool: r.Tool, Start: r.Start, DurationNs: r.Duration.Nanoseconds(), WaitedNs: r.Waited.Nanoseconds(),
		Outcome: r.Outcome, Failure: r.Failure, Calls: r.Calls, Servers: r.Servers, Failed: r.Failed, Messages: r.Messages, Events: r.Events,
	}
	if h := r.SlowestHop(); h != nil {
		j.Slowest = &jsonHop{Type: h.Type, To: h.To, WaitNs: h.WaitNs, SelfNs: h.Self.Nanoseconds()}
	}
	if records {
		for _, rec := range r.Records {
			j.Records = append(j.Records, rec.TraceRecord)
		}
	}
	return j
}

// WriteJSON writes requests as one JSON object with the members "requests" and
// "notes"; each request with its records where that is wanted. The records are
// of the newest version of the format, except that a payload is a text.
func WriteJSON(out io.Writer, requests []*Request, records bool, notes []string) error {
	all := struct {
		Requests []jsonRequest `json:"requests"`
		Notes    []string      `json:"notes,omitempty"`
	}{Requests: []jsonRequest{}, Notes: notes}
	for _, r := range requests {
		all.Requests = append(all.Requests, toJSON(r, records))
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}
