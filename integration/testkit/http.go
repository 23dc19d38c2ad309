package testkit

import (
	"errors"
	"net"
	"regexp"
	"testing"
	"time"
)

// listenWait is for a server to begin, on a loaded machine.
const listenWait = 3 * time.Minute

var saidURL = regexp.MustCompile(`MCP over HTTP at (https?://\S+)`)

// StartHTTPHost is [StartHost] for `metamcp serve --http` at a free port, and
// returns the URL where it serves. Args follow.
func StartHTTPHost(tb testing.TB, h Host) (url string, p *Process) {
	tb.Helper()
	h.Args = append([]string{"serve", "--http", ":0"}, h.Args...)
	p = StartHost(tb, h)
	return p.AwaitHTTP(tb), p
}

// AwaitHTTP waits until a host says where it serves over HTTP.
func (p *Process) AwaitHTTP(tb testing.TB) (url string) {
	tb.Helper()
	Eventually(tb, listenWait, func() error {
		m := saidURL.FindStringSubmatch(p.Stderr.String())
		if m == nil {
			p.mustRun(tb)
			return errors.New("the host does not say where it serves")
		}
		url = m[1]
		return nil
	})
	return url
}

// StartListening starts a server that takes its port from the command's arguments
// or environment, and waits until it accepts connections there.
func StartListening(tb testing.TB, port string, c Command) *Process {
	tb.Helper()
	p := StartCommand(tb, c)
	Eventually(tb, listenWait, func() error {
		p.mustRun(tb)
		var d net.Dialer
		conn, err := d.DialContext(tb.Context(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return p
}

// mustRun fails the test where the process has ended.
func (p *Process) mustRun(tb testing.TB) {
	tb.Helper()
	select {
	case <-p.Exited():
		tb.Fatalf("the server ended: %s", p.Stderr)
	default:
	}
}

// FreePort returns a TCP port of 127.0.0.1 that was free a moment ago, for a
// server that cannot say which one the system has given it.
func FreePort(tb testing.TB) string {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	return port
}
