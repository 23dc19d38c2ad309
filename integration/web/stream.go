package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
)

const (
	// backlog is how many records a page gets at a time, and so how many it
	// sees of what was before it came; the page keeps as many.
	backlog = 500
	// batchPause is the least time between two batches.
	batchPause = 100 * time.Millisecond
	// heartbeat is how long a stream says nothing; a dead browser is noticed
	// by it.
	heartbeat = 15 * time.Second
)

// batch is what a page gets of the trace at a time.
type batch struct {
	Records []messages.TraceRecord `json:"records"`
	Dropped uint64                 `json:"dropped"` // before these
	Next    uint64                 `json:"next"`    // what to continue after
}

// events streams statuses and batches of records until the page or the host
// goes.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		writeFailure(w, &failure{http.StatusServiceUnavailable, codeTooMany, fmt.Sprintf("%d pages are open already", MaxStreams), "Close one of them."})
		return
	}
	var at cursor
	text := r.URL.Query().Get("after")
	if text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			writeFailure(w, &failure{http.StatusBadRequest, codeBadRequest, fmt.Sprintf("the parameter after is %q", text), "Use the number of a batch's next."})
			return
		}
		at.record = n
	}
	if err := s.hub.join(); err != nil {
		writeFailure(w, err)
		return
	}
	defer s.hub.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	s.follow(r.Context(), w, rc, at, text == "")
	// The end of the answer is written when the handler has returned.
	_ = rc.SetWriteDeadline(time.Now().Add(s.patience)) // a connection that has gone has no end to write
}

func (s *Server) follow(ctx context.Context, w http.ResponseWriter, rc *http.ResponseController, at cursor, fresh bool) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		n := s.hub.since(&at, backlog)
		if fresh {
			n.dropped, fresh = 0, false // nobody promised what was before
		}
		text := encode(&n, at)
		if err := rc.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
			return
		}
		if _, err := w.Write(text); err != nil {
			return
		}
		if err := rc.Flush(); err != nil || n.over {
			return
		}
		pause.Reset(batchPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		pause.Reset(heartbeat)
		select {
		case <-s.hub.wait(at):
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}

// encode writes news as server-sent events, or a comment where there is none.
func encode(n *news, at cursor) []byte {
	var out bytes.Buffer
	if n.status != nil {
		fmt.Fprintf(&out, "event: status\ndata: %s\n\n", n.status)
	}
	if len(n.records) > 0 || n.dropped > 0 {
		if n.records == nil {
			n.records = []messages.TraceRecord{}
		}
		text, err := json.Marshal(batch{n.records, n.dropped, at.record})
		if err != nil { // a payload that is no JSON, which the trace never makes
			text, _ = json.Marshal(batch{[]messages.TraceRecord{}, n.dropped + uint64(len(n.records)), at.record}) // numbers always marshal
		}
		fmt.Fprintf(&out, "event: records\ndata: %s\n\n", text)
	}
	if n.over {
		out.WriteString("event: over\ndata: {}\n\n")
	}
	if out.Len() == 0 {
		out.WriteString(": nothing new\n\n")
	}
	return out.Bytes()
}
