package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

// MaxClients is how many clients may be attached at a time, and fewer where the
// system lets the host open few files; who comes then is told so.
const MaxClients = 2048

// The codes of endpoints of shared hosts.
const (
	CodeTooManyClients = "TOO_MANY_CLIENTS"
	CodeProtocol       = attach.CodeProtocol
	// CodeAlreadyRuns is of a second host for a state folder and configuration.
	CodeAlreadyRuns = "ALREADY_RUNS"
)

// AttachFunc serves one attached client: lines of MCP from in, answers to out.
// It returns when the client has gone, or soon after ctx is done, and closes
// neither file.
type AttachFunc func(ctx context.Context, in, out *os.File, hello attach.Hello) error

// attached upgrades a connection and serves the client behind it.
func (s *Server) attached(w http.ResponseWriter, r *http.Request) {
	hello, err := s.hello(r)
	if err != nil {
		writeError(w, err)
		return
	}
	select {
	case s.clients <- struct{}{}:
		defer func() { <-s.clients }()
	default:
		writeError(w, &Error{
			Status: http.StatusServiceUnavailable, Code: CodeTooManyClients,
			Message: fmt.Sprintf("%d clients are attached to this host, which is the most for its limit of open files", cap(s.clients)),
			Hint:    "end some of them, or start the host with a higher limit (ulimit -n)",
		})
		return
	}
	if s.withdrawn.Load() {
		writeError(w, &Error{Status: http.StatusServiceUnavailable, Code: CodeShuttingDown, Message: "the host is about to end"})
		return
	}
	welcome, err := json.Marshal(attach.Welcome{
		Protocol: attach.Protocol, Version: s.Info().Version, PID: s.Info().PID, Name: s.Info().Name, Notes: s.notes(hello),
	})
	if err != nil {
		writeError(w, err)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		writeError(w, err)
		return
	}
	if own, ok := conn.(*boundedConn); ok {
		conn = own.detach()
	}
	if err := conn.SetDeadline(time.Time{}); err != nil || buffered.Reader.Buffered() > 0 {
		_ = conn.Close() // a relay says nothing before it is welcomed
		return
	}
	files, err := filesOf(conn)
	if err != nil {
		// No descriptor is left, as a rule; the place of the answer is still there.
		writeRefusal(conn, &Error{
			Status: http.StatusServiceUnavailable, Code: CodeInternal, Message: "the host cannot take the client: " + err.Error(),
			Hint: "where too many files are open: end clients, or raise the limit (ulimit -n) of the host",
		})
		_ = conn.Close()
		return
	}
	defer files.close()
	_, err = fmt.Fprintf(files.out, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n%s: %s\r\n\r\n",
		attach.Upgrade, attach.WelcomeHeader, welcome)
	if err != nil {
		return // the client has gone
	}
	if err := s.o.Attach(r.Context(), files.in, files.out, *hello); err != nil {
		s.o.Log.Warn("the session of an attached client ended early", "pid", hello.PID, "error", err)
	}
}

// writeRefusal is writeError on a connection that the HTTP server gave away.
func writeRefusal(w interface{ Write([]byte) (int, error) }, e *Error) {
	text, err := json.Marshal(e)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", e.Status, http.StatusText(e.Status), len(text), text) // a client that has gone needs no answer
}

// hello reads the greeting of a relay.
func (s *Server) hello(r *http.Request) (*attach.Hello, error) {
	if s.o.Attach == nil {
		return nil, &Error{
			Status: http.StatusNotFound, Code: CodeNotFound, Message: "this host serves one client of its own, and nobody can attach to it",
			Hint: "metamcp host start runs one for all",
		}
	}
	var hello attach.Hello
	if !strings.EqualFold(r.Header.Get("Upgrade"), attach.Upgrade) || json.Unmarshal([]byte(r.Header.Get(attach.HelloHeader)), &hello) != nil {
		return nil, &Error{Status: http.StatusBadRequest, Code: CodeBadRequest, Message: "the request is no upgrade to " + attach.Upgrade, Hint: "metamcp --attach speaks with this endpoint"}
	}
	if hello.Protocol != attach.Protocol {
		return nil, &Error{
			Status: http.StatusUpgradeRequired, Code: CodeProtocol,
			Message: fmt.Sprintf("the host %s (metamcp %s) speaks protocol %d, and the client's metamcp speaks %d", s.Info().Name, s.Info().Version, attach.Protocol, hello.Protocol),
			Hint:    "restart the host with the same version: metamcp host restart",
		}
	}
	return &hello, nil
}

// notes says to a client what of its wishes is not followed.
func (s *Server) notes(hello *attach.Hello) []string {
	if s.o.AttachNotes == nil {
		return nil
	}
	return s.o.AttachNotes(*hello)
}

// stop lets go of the host's name, so that the next host can take it, and then
// lets the host end.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) {
	now, err := flag(r, "now")
	if err == nil && s.o.Stop == nil {
		err = &Error{
			Status: http.StatusNotFound, Code: CodeNotFound, Message: "this host ends with its client",
			Hint: "metamcp host stop ends one that was started by metamcp host",
		}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	// Whatever comes now, the host ends: one that went on without its place would be
	// found by nobody. So who asked may go, and what stays in the folder is only said.
	if err := s.Withdraw(context.WithoutCancel(r.Context())); err != nil {
		s.o.Log.Warn("what announces this host could not be removed", "error", err)
	}
	writeJSON(w, map[string]any{"pid": s.Info().PID})
	s.o.Stop(now)
}

// Withdraw lets go of the host's name and its place, and takes no more
// connections; those that are served go on until [Server.Close]. A second call
// does nothing.
func (s *Server) Withdraw(ctx context.Context) error {
	s.withdrawOnce.Do(func() {
		s.placing.Lock()
		defer s.placing.Unlock()
		s.withdrawn.Store(true)
		s.withdrawErr = errors.Join(s.place.withdraw(ctx, s.info.Load()), s.listener.Close())
		s.single.release()
	})
	return s.withdrawErr
}
