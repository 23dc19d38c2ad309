package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/metamcp/metamcp/integration/gate"
)

// The bounds of a server.
const (
	// MaxStreams is how many pages may be open at a time; who comes then is
	// told so.
	MaxStreams = 8
	// maxSearches bounds the searches at a time.
	maxSearches = 4
	// maxConns bounds the connections; more wait in the system's queue.
	maxConns       = 64
	maxHeaderBytes = 16 << 10
	requestTime    = 10 * time.Second // to read a request
	answerTime     = 30 * time.Second // to answer one that is neither stream nor search
	searchTime     = time.Minute
	idleTime       = 30 * time.Second // between two requests of a connection
	// flushTime is how long an end waits for answers that are being written.
	flushTime = time.Second
	// defaultPatience is how long a browser may read nothing of a stream.
	defaultPatience = 10 * time.Second
)

// ending is what a host says that is about to end.
var ending = &failure{http.StatusServiceUnavailable, codeEnding, "the host is about to end", "Open the page of another host."}

// Options say what a [Server] serves.
type Options struct {
	// Addr is where it listens; see [CheckAddr].
	Addr string
	Host Host
	// Log gets what goes wrong inside; nil: nobody.
	Log *slog.Logger
	// WriteTimeout is how long a browser may read nothing of a stream before
	// it is dropped; 0: 10 s.
	WriteTimeout time.Duration
}

// Server serves the page of one host. It is safe for any goroutine.
type Server struct {
	o        Options
	url      string
	ctx      context.Context //nolint:containedctx // the one that all requests are children of
	cancel   context.CancelFunc
	http     *http.Server
	hub      *hub
	patience time.Duration
	streams  chan struct{} // a place for each
	searches chan struct{}
	served   chan struct{} // closed when nothing is accepted any more

	handlers gate.Gate

	closeOnce sync.Once
	closeErr  error
}

// Serve serves the page until [Server.Close]. Where that cannot be, because the
// address is none of this machine's own or its port is taken, the error says
// what to use instead; a host can do without.
func Serve(o Options) (*Server, error) {
	if o.Host == nil {
		return nil, errors.New("no web page: Options.Host is nil")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	addr, err := CheckAddr(o.Addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		o: o, ctx: ctx, cancel: cancel, hub: newHub(ctx, o.Host, o.Log), patience: o.WriteTimeout,
		streams: make(chan struct{}, MaxStreams), searches: make(chan struct{}, maxSearches),
		served: make(chan struct{}),
	}
	if s.patience <= 0 {
		s.patience = defaultPatience
	}
	mux, err := s.routes()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("no web page: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		cancel()
		return nil, listenError(addr, err)
	}
	ip, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("no web page: %w", err), l.Close())
	}
	g := newGuard(ip, port)
	s.url = "http://" + l.Addr().String() + "/?token=" + url.QueryEscape(g.token)
	s.http = &http.Server{
		Handler:           s.counted(g.wrap(mux)),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: requestTime, ReadTimeout: requestTime, WriteTimeout: answerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(netutil.LimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Warn("the web page takes no more requests", "error", err)
		}
	}()
	return s, nil
}

// URL returns the link for a browser; who has it sees the page, so it is shown
// to the user alone.
func (s *Server) URL() string { return s.url }

// Close ends all streams and waits for every handler, for as long as ctx
// lasts. A second call returns what the first did.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Server) close(ctx context.Context) (err error) {
	s.cancel()
	quiet := s.handlers.Close()
	// Answers that are complete still reach their browsers; connections that
	// never sent a request are not waited for.
	flushing, stop := context.WithTimeout(ctx, flushTime)
	defer stop()
	if shutErr := s.http.Shutdown(flushing); shutErr != nil {
		_ = s.http.Close() // the listener is closed already; connections have no errors that matter
	}
	select {
	case <-quiet:
		s.hub.wg.Wait() // its context has ended
	case <-ctx.Done():
		err = fmt.Errorf("requests of the web page did not end in time: %w", context.Cause(ctx))
	}
	<-s.served
	return err
}

// counted counts the handlers that run, and lets none begin when the server
// ends.
func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.handlers.Enter() {
			writeFailure(w, ending)
			return
		}
		defer s.handlers.Leave()
		next.ServeHTTP(w, r)
	})
}
