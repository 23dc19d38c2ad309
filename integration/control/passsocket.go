package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

// socketEndpoint passes on the socket of a host's front over HTTP, as a
// descriptor beside the answer.
const socketEndpoint = "/v1/socket"

const socketAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// passSocket gives the next host what listens for clients over HTTP. Both have
// it then, so that at no moment is a client refused.
func (s *Server) passSocket(w http.ResponseWriter, _ *http.Request) {
	if s.o.Socket == nil {
		writeError(w, &Error{
			Status: http.StatusNotFound, Code: CodeNotFound, Message: "this host serves no clients over HTTP", Hint: "metamcp host --http ADDRESS does",
		})
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		writeError(w, err)
		return
	}
	defer func() { _ = conn.Close() }() // all was said
	plain := conn
	if own, ok := conn.(*boundedConn); ok {
		plain = own.Conn
	}
	err = conn.SetDeadline(time.Now().Add(probePatience))
	if err == nil {
		s.passedOn.Store(true) // before the other can ask this host to end
		err = sendSocket(plain, []byte(socketAnswer), s.o.Socket)
	}
	if err != nil {
		s.o.Log.Warn("another host asked for the socket of clients over HTTP, and did not get it", "error", err)
		writeRefusal(conn, &Error{Status: http.StatusInternalServerError, Code: CodeInternal, Message: "the socket cannot be passed on: " + err.Error()})
	}
}

// PassedOn says whether another process asked for the socket for clients over
// HTTP.
func (s *Server) PassedOn() bool { return s.passedOn.Load() }

// TakeSocket asks a host for the socket on which it serves clients over HTTP. It
// goes on serving there until it is asked to end.
func TakeSocket(ctx context.Context, info HostInfo) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	conn, err := attach.DialSocket(ctx, info.Socket)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // all was said
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: metamcp\r\n\r\n", socketEndpoint); err != nil {
		return nil, err
	}
	text, l, err := receiveSocket(conn)
	if err != nil {
		return nil, err
	}
	if l != nil {
		return l, nil
	}
	// The answer says why not.
	const most = 64 << 10
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(text), io.LimitReader(conn, most))), nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	var e Error
	if json.NewDecoder(resp.Body).Decode(&e) != nil || e.Message == "" {
		return nil, errors.New("the host answers " + resp.Status)
	}
	e.Status = resp.StatusCode
	return nil, &e
}
