package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/messages"
)

// routes returns all endpoints. A pattern of others that cannot be is an
// error.
func (s *Server) routes() (mux *http.ServeMux, err error) {
	mux = http.NewServeMux()
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("GET /v1/trace", s.trace)
	mux.HandleFunc("GET /v1/logs/{server}", s.logs)
	mux.HandleFunc("GET "+attach.Endpoint, s.attached)
	mux.HandleFunc("GET "+socketEndpoint, s.passSocket)
	mux.HandleFunc("POST /v1/stop", s.stop)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, map[string]string{"status": "ok"}) })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, &Error{
			Status: http.StatusNotFound, Code: CodeNotFound, Message: fmt.Sprintf("there is no endpoint %s %s", r.Method, r.URL.Path),
			Hint: "this host has version " + s.o.Version + "; docs/CONTROL.md lists its endpoints",
		})
	})
	pattern := ""
	defer func() {
		if cause := recover(); cause != nil { // ServeMux has no other way to say it
			err = fmt.Errorf("the endpoint %q: %v", pattern, cause)
		}
	}()
	for p, h := range s.o.Handlers {
		pattern = p
		mux.Handle(p, h)
	}
	return mux, nil
}

// describe asks the host, and fills in what the server knows.
func (s *Server) describe(parent context.Context, actors bool) (*messages.HostStatus, error) {
	ctx, cancel := context.WithTimeout(parent, statusTime)
	defer cancel()
	st, err := s.o.Host.Status(ctx, actors)
	if err != nil {
		return nil, s.orEnding(parent, err)
	}
	out := *st
	out.Servers = slices.Clone(st.Servers)
	out.Name = s.Info().Name
	if out.PID == 0 {
		out.PID = s.Info().PID
	}
	if out.Version == "" {
		out.Version = s.Info().Version
	}
	if out.Started.IsZero() {
		out.Started = s.Info().Started
	}
	if out.Configs == nil {
		out.Configs = s.Info().Configs
	}
	return &out, nil
}

// orEnding says that the host ends where that is why something failed.
func (s *Server) orEnding(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return &Error{Status: http.StatusServiceUnavailable, Code: CodeShuttingDown, Message: "the host is about to end", Cause: err}
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	actors, err := flag(r, "actors")
	usage, failed := flag(r, "usage")
	if err = errors.Join(err, failed); err != nil {
		writeError(w, err)
		return
	}
	st, err := s.describe(r.Context(), actors)
	if err != nil {
		writeError(w, err)
		return
	}
	if m, ok := s.o.Host.(Measurer); ok && usage {
		m.Usage(st)
	}
	writeJSON(w, st)
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTime)
	defer cancel()
	draining, err := s.o.Host.Draining(ctx)
	switch {
	case err != nil:
		e := *asError(s.orEnding(r.Context(), err))
		e.Status = http.StatusServiceUnavailable
		writeError(w, &e)
	case draining:
		writeError(w, &Error{Status: http.StatusServiceUnavailable, Code: CodeShuttingDown, Message: "the host drains: calls in flight end, new ones are refused"})
	default:
		writeJSON(w, map[string]string{"status": "ready"})
	}
}

// flag reads a parameter that is 1 or true, 0 or false, or absent.
func flag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: fmt.Sprintf("the parameter %s is %q", name, text), Hint: "use 1 or 0"}
	}
	return on, nil
}

func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a client that has gone needs no answer
}

func writeError(w http.ResponseWriter, err error) {
	e := asError(err)
	text, err := json.Marshal(e)
	if err != nil {
		text = []byte(`{"code":"` + CodeInternal + `","message":"the error cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(text, '\n')) // a client that has gone needs no answer
}
