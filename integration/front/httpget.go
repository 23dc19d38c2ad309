package front

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// full refuses a client that sends too much at once, or too fast. What it says
// to requests that are in flight is taken all the same. A legacy client's
// requests stay in flight when it has closed their connections.
func (s *httpSession) full(request bool) *refusal {
	s.mu.Lock()
	busy := s.busy
	s.mu.Unlock()
	if request && max(busy, s.c.inFlight()+1) > s.h.o.MaxEach {
		return &refusal{
			status: http.StatusTooManyRequests, code: codeTooMany, retry: time.Second,
			why: fmt.Sprintf("%d requests of this client are open, which is the most; wait for answers", s.h.o.MaxEach),
		}
	}
	if now := time.Now(); !s.rate.AllowN(now, 1) {
		wait := time.Second
		if missing := 1 - s.rate.TokensAt(now); missing > 0 {
			wait = max(wait, time.Duration(missing/float64(s.h.o.MaxRate)*float64(time.Second)))
		}
		return &refusal{
			status: http.StatusTooManyRequests, code: codeTooMany, retry: wait,
			why: fmt.Sprintf("this client sends more than %d requests a second; send them slower", s.h.o.MaxRate),
		}
	}
	return nil
}

// get opens the stream of what belongs to no request, or resumes one that its
// client lost.
func (h *HTTP) get(w http.ResponseWriter, r *http.Request, who Principal) {
	if _, stream := accepts(r); !stream || r.Header.Get("Accept") == "" {
		refuseHTTP(w, nil, &refusal{
			status: http.StatusNotAcceptable, code: codeInvalid,
			why: "this is an endpoint of the Model Context Protocol, for programs: a GET accepts text/event-stream",
		})
		return
	}
	s, f := h.session(r, who)
	if f == nil && !s.enter() {
		f = refuseUnknown
	}
	if f != nil {
		refuseHTTP(w, nil, f)
		return
	}
	defer s.leave()
	if f := s.full(true); f != nil {
		refuseHTTP(w, nil, f)
		return
	}
	x := &exchange{h: h, w: w, r: r, s: s, st: s.general, sse: true, resumed: true, unread: true}
	if last := r.Header.Get(mcp.HeaderLastEventID); last != "" {
		number, event, ok := eventOf(last)
		if ok {
			x.st, x.from, x.unread = s.kept(number), event, false
		}
		if !ok || x.st == nil {
			refuseHTTP(w, nil, &refusal{
				status: http.StatusBadRequest, code: codeInvalid,
				why: "the stream of this Last-Event-ID is not kept any more; what was on it is lost, so ask again",
			})
			return
		}
	}
	x.serve()
}

// eventID is what a client is told of an event: its stream and its number.
func eventID(stream, event uint64) string {
	return strconv.FormatUint(stream, 10) + "-" + strconv.FormatUint(event, 10)
}

func eventOf(id string) (stream, event uint64, ok bool) {
	a, b, ok := strings.Cut(id, "-")
	stream, err := strconv.ParseUint(a, 10, 64)
	event, err2 := strconv.ParseUint(b, 10, 64)
	return stream, event, ok && errors.Join(err, err2) == nil
}
