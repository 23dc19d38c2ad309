//go:build unix

package control_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/metamcp/metamcp/integration/control"
)

// A socket that was passed on is the same one: connections that came before
// anybody accepted are the new owner's as well.
func TestSocketIsPassedOn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, control.Options{Host: newFakeHost(), Socket: l, HTTP: "http://" + l.Addr().String() + "/mcp"})
	if s.PassedOn() {
		t.Error("nobody asked for the socket yet")
	}
	other, err := control.TakeSocket(t.Context(), s.Info())
	if err != nil {
		t.Fatal(err)
	}
	if !s.PassedOn() || other.Addr().String() != l.Addr().String() {
		t.Errorf("%v was passed on as %v", l.Addr(), other.Addr())
	}
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	// The first owner's descriptor still waits with the runtime, not in a thread.
	if err := l.(*net.TCPListener).SetDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("the first owner accepted though its time was over")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := other.Accept()
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, []byte("hello")) {
		t.Errorf("the new owner reads %q, %v", got, err)
	}
	if err := errors.Join(client.Close(), conn.Close(), other.Close()); err != nil {
		t.Error(err)
	}
}

// A host without such a socket says so.
func TestNoSocketToPassOn(t *testing.T) {
	s := start(t, control.Options{Host: newFakeHost()})
	l, err := control.TakeSocket(t.Context(), s.Info())
	var e *control.Error
	if !errors.As(err, &e) || e.Status != http.StatusNotFound || e.Code != control.CodeNotFound {
		t.Errorf("%v, %v", l, err)
	}
}
