//go:build unix

package control

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/messages"
)

// A host that could not be asked has gone, unless it is known to be there, or nothing was
// learned of it at all.
func TestWentAway(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  bool
	}{
		{errors.New("connection reset by peer"), true},
		{&attach.HangsError{}, false},
		{&attach.NotOursError{Cause: errors.New("the folder is open to others")}, false},
		{&os.PathError{Op: "connect", Path: "control.sock", Err: fs.ErrPermission}, false},
	} {
		if got := WentAway(&Error{Code: CodeUnreachable, Cause: tt.cause}); got != tt.want {
			t.Errorf("%T: %v, want %v", tt.cause, got, tt.want)
		}
	}
}

// Wherever a host ends that sends its trace, it went away; one that sends what is not
// understood is there.
func TestTraceOfAHostThatEnds(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, tt := range map[string]struct {
		says string
		code string
	}{
		"before it answers":  {"", CodeUnreachable},
		"within its answer":  {head[:20], CodeUnreachable},
		"before a record":    {head, CodeUnreachable},
		"within a record":    {head + "9\r\n{\"kind\":", CodeUnreachable},
		"after nonsense":     {head + "7\r\nhello!\n\r\n", CodeInternal},
		"after far too much": {head + "1100000\r\n" + strings.Repeat("x", 0x1100000) + "\r\n", CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "mm") //nolint:usetesting // The folder of a test is too long for a socket.
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			l, err := net.Listen("unix", filepath.Join(dir, "s"))
			if err != nil {
				t.Fatal(err)
			}
			c, err := Dial(HostInfo{Name: "h", PID: 7, Socket: filepath.Join(dir, "s")})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 2 { // Dial's, which says nothing, and that of the request
					conn, err := l.Accept()
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
						_, _ = io.WriteString(conn, tt.says) // a client that has read enough closes
					}
					conn.Close()
				}
				l.Close()
			}()
			var got error
			for _, got = range c.Trace(t.Context()) {
			}
			<-done
			var e *Error
			if !errors.As(got, &e) || e.Code != tt.code || WentAway(got) != (tt.code == CodeUnreachable) {
				t.Errorf("%v", got)
			}
			for record, err := range c.Trace(t.Context()) {
				if !WentAway(err) {
					t.Errorf("when it has ended: %v, %v", record, err)
				}
			}
		})
	}
	if WentAway(nil) || WentAway(&messages.Error{Code: messages.CodeShuttingDown}) {
		t.Error("who answers is there")
	}
}
