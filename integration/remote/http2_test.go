package remote

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// overHTTP2 starts a server that speaks HTTP/2, and returns a transport for it that is
// as the default one but for the certificates.
func overHTTP2(t *testing.T, h http.Handler) (*httptest.Server, *http.Transport) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	transport := newTransport()
	transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	return s, transport
}

// router forwards connections until it forgets them: then nothing comes through them
// any more, and nobody is told.
type router struct {
	to   string
	l    net.Listener
	work sync.WaitGroup

	mu     sync.Mutex
	forgot *atomic.Bool // of the connections that there are
	conns  []net.Conn
}

func startRouter(t *testing.T, to string) *router {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &router{to: to, l: l, forgot: new(atomic.Bool)}
	r.work.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.mu.Lock()
		for _, c := range r.conns {
			_ = c.Close()
		}
		r.mu.Unlock()
		r.work.Wait()
	})
	return r
}

func (r *router) accept() {
	for {
		in, err := r.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, in, out)
		forgot := r.forgot
		r.mu.Unlock()
		r.work.Go(func() { forward(out, in, forgot) })
		r.work.Go(func() { forward(in, out, forgot) })
	}
}

func forward(to, from net.Conn, forgot *atomic.Bool) {
	defer func() { _, _ = to.Close(), from.Close() }()
	part := make([]byte, 4<<10)
	for {
		n, err := from.Read(part)
		if err != nil {
			return
		}
		if forgot.Load() {
			continue
		}
		if _, err := to.Write(part[:n]); err != nil {
			return
		}
	}
}

func (r *router) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgot.Store(true)
	r.forgot = new(atomic.Bool)
}

// A connection that died without a word is found out, and those that come after have
// another.
func TestConnectionThatIsDead(t *testing.T) {
	t.Parallel()
	s := newFake()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	s.on["tools/call"] = func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}
	server, transport := overHTTP2(t, s)
	if transport.HTTP2 == nil || transport.HTTP2.SendPingTimeout == 0 {
		t.Fatal("nobody looks whether a connection is alive")
	}
	transport.HTTP2.SendPingTimeout, transport.HTTP2.PingTimeout = 100*time.Millisecond, 5*time.Second
	r := startRouter(t, server.Listener.Addr().String())
	k := openURL(t, messages.TransportHTTP, "https://"+r.l.Addr().String()+"/mcp", Options{Transport: transport})
	k.greet()
	k.say(callLine)
	s.saw(t, 1, calls("tools/call"))
	r.forget()
	if h := k.next("broken"); h.id != "7" || !errors.Is(h.err, io.ErrUnexpectedEOF) {
		t.Errorf("%+v", h)
	}
	ear := &earTrumpet{make(chan heard, 4096)}
	next, err := k.l.Launch(k.spec, ear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(next.Release)
	(&talk{next, t, ear}).greet()
}

// Errors of connections that end too early are of one kind, whichever version of HTTP
// it was and whether the client has a type for them.
func TestErrorsOfConnectionsThatBreakOff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"http2: server sent GOAWAY and closed the connection; LastStreamID=5, ErrCode=NO_ERROR, debug=\"\"": true,
		"http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM":                            true,
		"http2: client connection lost":                                true,
		"http: server closed idle connection":                          true,
		"http2: response header list larger than our advertised limit": false,
		"tls: failed to verify certificate":                            false,
	} {
		f := unreachable(&url.Error{Op: "Post", URL: "https://x.example/?key=s3cret", Err: errors.New(text)})
		if errors.Is(f.Evidence().Err, io.ErrUnexpectedEOF) != want || !strings.Contains(f.Error(), text) || strings.Contains(f.Error(), "s3cret") {
			t.Errorf("%s: %#v", text, f)
		}
	}
}
