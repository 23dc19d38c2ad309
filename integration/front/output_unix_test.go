//go:build unix

package front

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// blockingPipe is a pipe as a process inherits it: in blocking mode.
func blockingPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

func isNonblocking(t *testing.T, f *os.File) bool {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var flags int
	if err := conn.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }); err != nil {
		t.Fatal(err)
	}
	return flags&unix.O_NONBLOCK != 0
}

func TestOutputRestoresMode(t *testing.T) {
	r, w := blockingPipe(t)
	o := newOutput(w, new(Unread), nil)
	if o.direct == nil || !isNonblocking(t, w) {
		t.Error("a pipe is not written to directly")
	}
	if err := o.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	closeOutput(t, o)
	if isNonblocking(t, w) {
		t.Error("the pipe is left in non-blocking mode")
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "hello\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	// The file itself is still open.
	if _, err := w.WriteString("x"); err != nil {
		t.Error(err)
	}
}

func TestOutputLeavesStderrAlone(t *testing.T) {
	_, w := blockingPipe(t)
	old := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = old }()
	o := newOutput(w, new(Unread), nil)
	if o.direct != nil || isNonblocking(t, w) {
		t.Error("a pipe that standard error shares was switched to non-blocking mode")
	}
	if err := o.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	closeOutput(t, o)
}

func TestServeRestoresMode(t *testing.T) {
	inR, inW := blockingPipe(t)
	outR, outW := blockingPipe(t)
	if _, err := inW.WriteString(`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	_ = inW.Close()
	if err := Serve(t.Context(), inR, outW, Options{MCP: newMCP(nil), Engine: &fakeEngine{}}); err != nil {
		t.Error(err)
	}
	if isNonblocking(t, inR) || isNonblocking(t, outW) {
		t.Error("a pipe is left in non-blocking mode")
	}
	if line, err := bufio.NewReader(outR).ReadString('\n'); err != nil || !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":1,"result":{`) {
		t.Errorf("%q, %v", line, err)
	}
}
