//go:build unix

package front

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// oneSocket is a connection as a process inherits it: its end is in blocking mode.
func oneSocket(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	if err := unix.SetNonblock(fds[0], true); err != nil { // for its deadlines
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	t.Cleanup(func() { _ = ours.Close(); _ = theirs.Close() })
	return ours, theirs
}

// One socket for both directions, as socat, inetd and systemd hand it over, is waited
// at like two pipes: what switches it for the answers switches it for the requests.
func TestOneSocketForBothDirections(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("and for standard error %v", all), func(t *testing.T) {
			ours, theirs := oneSocket(t)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "FRONT_TEST_ROLE=serve")
			cmd.Stdin, cmd.Stdout = theirs, theirs
			var stderr strings.Builder
			if cmd.Stderr = &stderr; all {
				cmd.Stderr = theirs
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if err := ours.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(ours)
			// The process comes to wait before most of them: an answer is written by
			// another goroutine than that which reads on.
			failed := error(nil)
			for i := 0; i < 200 && failed == nil; i++ {
				var got string
				if _, failed = fmt.Fprintf(ours, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i); failed == nil {
					got, failed = lines.ReadString('\n')
				}
				if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n", i); failed == nil && got != want {
					failed = fmt.Errorf("request %d is answered with %q", i, got)
				}
			}
			endInput(t, ours)
			if err := cmd.Wait(); err != nil || failed != nil {
				t.Errorf("%v, %v: %s", failed, err, stderr.String())
			}
			if isNonblocking(t, theirs) {
				t.Error("the socket is left in non-blocking mode")
			}
			_ = theirs.Close()
			if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
				t.Errorf("behind the answers: %q, %v", rest, err)
			}
		})
	}
}

func endInput(t *testing.T, socket *os.File) {
	t.Helper()
	conn, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if controlErr := conn.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) }); controlErr != nil || err != nil {
		t.Errorf("ending the input: %v, %v", controlErr, err)
	}
}

// A session over one socket ends while its reader waits, and leaves the mode as it was.
func TestEndOverOneSocket(t *testing.T) {
	_, theirs := oneSocket(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, theirs, theirs, Options{MCP: newMCP(nil), Engine: &fakeEngine{}, Ready: func(*Peer) { cancel() }})
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if isNonblocking(t, theirs) {
		t.Error("the socket is left in non-blocking mode")
	}
}
