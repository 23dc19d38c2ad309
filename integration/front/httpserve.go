package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of a listener.
const (
	// maxConns bounds the connections; see gate.
	maxConns       = 4096
	maxHeaderBytes = 32 << 10
	headerTime     = 10 * time.Second // to send the headers of a request
	answerTime     = time.Minute      // to read an answer that is no stream
	farewell       = 2 * time.Second  // for answers that are being written when all ends
	betweenTime    = 2 * time.Minute  // between two requests of a connection
)

// ListenOptions say where an [HTTP] is served.
type ListenOptions struct {
	// Addr is what [CheckHTTPAddr] takes.
	Addr string
	// TLSCert and TLSKey are PEM files; "": no TLS. ClientCA is one with the
	// authorities whose certificates clients must have; "": they need none.
	TLSCert, TLSKey, ClientCA string
	// Proven says that every request must prove whom it comes from, in a way
	// beside certificates.
	Proven bool
	// Inherited listens already, for instance since another process passed it on;
	// nil: a new socket does. It is closed with the [Listener].
	Inherited net.Listener
	Log       *slog.Logger

	headerTime            time.Duration // 0: 10 s
	maxConns, maxUnproven int           // 0: those of the constants
}

// CheckHTTPAddr returns the address to listen on, and whether only this machine
// reaches it: ":8090" and "localhost:8090" mean 127.0.0.1, "0.0.0.0:8090" every
// network. Port 0 is any free one.
func CheckHTTPAddr(addr string) (checked string, loopback bool, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", false, fmt.Errorf("%q is no address; use a port, such as :8090, or an address with one, such as 127.0.0.1:8090", addr)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", false, fmt.Errorf("%q is no port; use a number up to 65535, or 0 for any free one", port)
	}
	port = strconv.FormatUint(n, 10)
	if host == "" || strings.EqualFold(host, "localhost") {
		return net.JoinHostPort("127.0.0.1", port), true, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "", false, fmt.Errorf("%q is no address of this machine; use a number such as 127.0.0.1, or 0.0.0.0 for all networks", host)
	}
	return net.JoinHostPort(ip.String(), port), ip.Unmap().IsLoopback(), nil
}

// ServesAt tells whether a socket that listens is one for an address that
// [CheckHTTPAddr] takes. Any port will do for port 0.
func ServesAt(l net.Listener, addr string) bool {
	checked, _, err := CheckHTTPAddr(addr)
	if err != nil {
		return false
	}
	wanted, err := netip.ParseAddrPort(checked)
	if err != nil {
		return false
	}
	has, err := netip.ParseAddrPort(l.Addr().String())
	return err == nil && has.Addr().WithZone("") == wanted.Addr().WithZone("") && (wanted.Port() == 0 || has.Port() == wanted.Port())
}

// Listener serves an [HTTP] until it is closed.
type Listener struct {
	h      *HTTP
	url    string
	http   *http.Server
	gate   *gate
	socket net.Listener
	serve  func() error // returns when nothing more is accepted
	begin  sync.Once
	left   atomic.Bool // see Leave
	served chan struct{}
	failed error // once served is closed
}

// Listen serves h. An address that other machines reach is refused where
// clients prove nothing; the error says what to do. h is closed with the
// listener.
func (h *HTTP) Listen(ctx context.Context, o ListenOptions) (*Listener, error) {
	l, err := h.Prepare(ctx, o)
	if err == nil {
		l.Start()
	}
	return l, err
}

// Prepare is [HTTP.Listen] for who serves later: until [Listener.Start] clients
// wait in the system's queue.
func (h *HTTP) Prepare(ctx context.Context, o ListenOptions) (*Listener, error) {
	addr, loopback, err := CheckHTTPAddr(o.Addr)
	if err != nil {
		return nil, err
	}
	if !loopback && !o.Proven && o.ClientCA == "" {
		return nil, fmt.Errorf("%s is reached from other machines, and there is nothing by which clients prove who they are: whoever reaches it could use every server; "+
			"make a token for each (metamcp token add NAME), or set http.clientCa, or listen on a loopback address such as 127.0.0.1:8090", addr)
	}
	conf, err := o.tls()
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := o.Inherited
	if l == nil {
		if l, err = new(net.ListenConfig).Listen(ctx, network(addr), addr); err != nil {
			return nil, fmt.Errorf("cannot listen on %s; choose another port, such as :8091, or :0 for any free one: %w", addr, err)
		}
	}
	scheme := "http"
	s := &Listener{h: h, socket: l, served: make(chan struct{})}
	s.http = &http.Server{
		Handler: h, ReadHeaderTimeout: orElse(o.headerTime, headerTime), ReadTimeout: orElse(o.headerTime, headerTime) + h.o.Patience, WriteTimeout: answerTime, IdleTimeout: betweenTime,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), TLSConfig: conf, ConnContext: gated, ConnState: atRest,
	}
	s.gate = newGate(l, orElse(o.maxConns, maxConns), orElse(o.maxUnproven, maxUnproven), o.Log)
	s.serve = func() error { return s.http.Serve(s.gate) }
	if conf != nil {
		scheme = "https"
		s.serve = func() error { return s.http.ServeTLS(s.gate, "", "") }
	} else if !loopback {
		o.Log.Warn("clients of other machines send their tokens unencrypted; set http.tlsCert and http.tlsKey, or put a proxy with TLS before it", "address", addr)
	}
	s.url = scheme + "://" + reachable(l.Addr()) + Endpoint
	return s, nil
}

// Start begins to serve. Further calls do nothing.
func (s *Listener) Start() {
	s.begin.Do(func() {
		go func() {
			defer close(s.served)
			if err := s.serve(); !errors.Is(err, http.ErrServerClosed) && !s.left.Load() {
				s.failed = fmt.Errorf("the front over HTTP takes no more requests: %w", err)
			}
		}()
	})
}

// Socket is what listens. Who passes it on to another process calls
// [Listener.Leave] once that one serves.
func (s *Listener) Socket() net.Listener { return s.socket }

// Leave takes no more connections, and lets clients open their next one
// elsewhere: requests on those that there are are still answered, and each of
// these answers ends its connection. [Listener.Close] ends the rest.
func (s *Listener) Leave() {
	s.left.Store(true)
	s.h.leaving.Store(true)
	_ = s.socket.Close() // it is closed, or will be with the server
}

// tls returns the configuration of TLS; nil: none.
func (o *ListenOptions) tls() (*tls.Config, error) {
	if o.TLSCert == "" && o.TLSKey == "" {
		if o.ClientCA != "" {
			return nil, errors.New("http.clientCa asks clients for certificates, which needs TLS; set http.tlsCert and http.tlsKey")
		}
		return nil, nil //nolint:nilnil // none is asked for
	}
	if o.TLSCert == "" || o.TLSKey == "" {
		return nil, errors.New("http.tlsCert and http.tlsKey belong together; set both")
	}
	pair, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("http.tlsCert and http.tlsKey cannot be used: %w", err)
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if o.ClientCA != "" {
		pem, err := os.ReadFile(o.ClientCA)
		if err != nil {
			return nil, fmt.Errorf("http.clientCa cannot be read: %w", err)
		}
		conf.ClientCAs = x509.NewCertPool()
		if !conf.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("http.clientCa: there is no certificate in %s", o.ClientCA)
		}
		conf.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return conf, nil
}

// URL is what clients are told.
func (s *Listener) URL() string { return s.url }

// Done is closed when nothing is served any more; [Listener.Close] then says
// why, if nobody asked for it.
func (s *Listener) Done() <-chan struct{} { return s.served }

// Close takes no new clients, lets what is in flight be answered as
// [HTTP.Close] says, and ends all connections.
func (s *Listener) Close(ctx context.Context) error {
	s.begin.Do(func() { // it never served
		_ = s.socket.Close()
		close(s.served)
	})
	err := s.h.Close(ctx)
	flushing, stop := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer stop()
	if shutErr := s.http.Shutdown(flushing); shutErr != nil {
		_ = s.http.Close() // the listener is closed already; connections have no errors that matter
	}
	<-s.served
	return errors.Join(err, s.failed)
}
