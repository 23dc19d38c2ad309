package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// stream writes an answer that has no end. Every write has a deadline, so that
// a viewer that stopped reading does not keep its handler.
type stream struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	patient time.Duration
	writing bool // the answer has begun
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.patient)); err != nil {
		return 0, err
	}
	s.writing = true
	return s.w.Write(p)
}

// Flush sends what was written so far.
func (s *stream) Flush() error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.patient)); err != nil {
		return err
	}
	s.writing = true
	return s.rc.Flush()
}

// open takes a place among the streams; the caller gives it back with release.
func (s *Server) open(w http.ResponseWriter, r *http.Request) (out *stream, release func(), err error) {
	if r.ContentLength != 0 {
		// While a body is not read whole nobody sees that its sender has gone.
		return nil, nil, &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: "this request takes no body", Hint: "send it without one"}
	}
	select {
	case s.streams <- struct{}{}:
	default:
		return nil, nil, &Error{
			Status: http.StatusServiceUnavailable, Code: CodeTooManyStreams,
			Message: fmt.Sprintf("%d viewers follow this host already", MaxStreams), Hint: "end one of them, or try again later",
		}
	}
	out = &stream{w: w, rc: http.NewResponseController(w), patient: s.o.WriteTimeout}
	return out, func() {
		// The end of the answer is written when the handler has returned; the
		// deadline of the last write may have passed by then.
		_ = out.rc.SetWriteDeadline(time.Now().Add(out.patient)) // a connection that has gone has no end to write
		<-s.streams
	}, nil
}

func (s *Server) trace(w http.ResponseWriter, r *http.Request) {
	out, release, err := s.open(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	defer release()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	records, err := s.o.Host.Trace(ctx)
	if err != nil {
		writeError(w, s.orEnding(ctx, err))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	_ = s.copyTrace(ctx, out, records) // a viewer that has gone needs no answer
}

// copyTrace ends with ctx, with records, or when the viewer takes no more.
func (s *Server) copyTrace(ctx context.Context, out *stream, records <-chan messages.TraceRecord) error {
	enc := json.NewEncoder(out)
	err := enc.Encode(&messages.TraceRecord{
		V: messages.TraceVersion, Time: time.Now().UTC(), Kind: messages.TraceStart,
		Detail: fmt.Sprintf("metamcp %s, pid %d", s.Info().Version, s.Info().PID),
	})
	if err != nil {
		return err
	}
	for {
		if len(records) == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		select {
		case rec, more := <-records:
			if !more {
				return nil
			}
			if rec.Kind == messages.TraceStart {
				continue
			}
			if err := enc.Encode(&rec); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	o, err := logOptions(r)
	if err != nil {
		writeError(w, err)
		return
	}
	server := r.PathValue("server")
	files := func() ([]string, error) { return s.o.Host.LogFiles(server) }
	if _, err := files(); err != nil {
		writeError(w, err)
		return
	}
	out, release, err := s.open(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	defer release()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if err := CopyLogs(r.Context(), out, files, o); err != nil && !out.writing {
		writeError(w, err)
	}
}

func logOptions(r *http.Request) (o LogOptions, err error) {
	o.Lines = DefaultLines
	if text := r.URL.Query().Get("lines"); text != "" {
		o.Lines, err = strconv.Atoi(text)
		if err != nil || o.Lines < 0 {
			return o, &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: fmt.Sprintf("the parameter lines is %q", text), Hint: "use a number of lines, such as 100"}
		}
	}
	o.Follow, err = flag(r, "follow")
	return o, err
}
