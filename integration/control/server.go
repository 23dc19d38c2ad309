package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/gate"
)

// The bounds of a server.
const (
	// MaxStreams is how many traces and logs are streamed at a time; who comes
	// then is told so.
	MaxStreams = 32
	// maxConns bounds the connections; more wait in the system's queue.
	maxConns           = 128
	maxHeaderBytes     = 16 << 10
	maxBodyBytes       = 1 << 20
	defaultRequestTime = 10 * time.Second // to read a request
	answerTime         = 30 * time.Second // to answer one that is no stream
	idleTime           = 30 * time.Second // between two requests of a connection
	statusTime         = 5 * time.Second  // for the host to describe itself
	// flushTime is how long an end waits for answers that are being written.
	flushTime = time.Second
	// defaultWriteTimeout is how long a viewer may read nothing.
	defaultWriteTimeout = 10 * time.Second
)

// Options say what a [Server] serves.
type Options struct {
	// StateDir is the folder of the host's state; it is made where it does not
	// exist.
	StateDir string
	// Name is asked for; another running host that has it makes this one
	// NAME-2, NAME-3 and so on. Empty: host-PID.
	Name    string
	Version string
	Started time.Time // zero: now
	Configs []string  // the paths of the configuration files
	Host    Host
	// Handlers are further endpoints by pattern of [http.ServeMux], such as
	// "GET /metrics". They have 30 s to answer, may read bodies of 1 MiB, and
	// end when the request's context does. One that streams moves its own
	// deadlines with an [http.ResponseController].
	Handlers map[string]http.Handler
	// Attach serves clients that attach; nil: nobody can. With it this is a
	// shared host, and there is one for StateDir and Configs: where another runs,
	// [Serve] fails with [CodeAlreadyRuns].
	Attach AttachFunc
	// AttachNotes says to a client that attaches what of its settings is not
	// followed; nil: nothing.
	AttachNotes func(hello attach.Hello) []string
	// AttachMode and Manager are announced; see [HostInfo].
	AttachMode, Manager string
	// HTTP, Flags and LogFile are announced, too. Socket is what listens there, which
	// another host of the same user may ask for; nil: nothing.
	HTTP, LogFile string
	Flags         []string
	Socket        net.Listener
	// Stop lets the host end, in order or at once; it does not wait. nil: nobody
	// may ask for that.
	Stop func(now bool)
	// Log gets what goes wrong inside; nil: nobody.
	Log *slog.Logger
	// WriteTimeout is how long a viewer may read nothing of a stream before it
	// is dropped; 0: 10 s.
	WriteTimeout time.Duration

	requestTime time.Duration // to read a request; 0: 10 s
}

// Server answers the control socket of one host. It is safe for any goroutine.
type Server struct {
	o       Options
	info    atomic.Pointer[HostInfo] // only its Configs change
	place   registry
	http    *http.Server
	streams chan struct{} // a place for each
	clients chan struct{} // a place for each that is attached
	cancel  context.CancelFunc
	served  chan struct{} // closed when nothing is accepted any more

	handlers gate.Gate

	listener     net.Listener
	withdrawn    atomic.Bool
	withdrawOnce sync.Once
	withdrawErr  error

	placing sync.Mutex // held by who changes the place
	single  *single

	passedOn atomic.Bool // the socket for HTTP

	closeOnce sync.Once
	closeErr  error
}

// Serve announces a host and serves its control socket until [Server.Close].
// Where that cannot be, for instance because StateDir is not writable, the
// error says why; a host can do without.
func Serve(o Options) (*Server, error) {
	s, err := serve(o)
	var other *Error
	if errors.As(err, &other) && other.Code == CodeAlreadyRuns {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("no control socket (metamcp status, ps and trace do not find this host): %w", err)
	}
	return s, nil
}

func serve(o Options) (*Server, error) {
	switch {
	case o.Host == nil:
		return nil, errors.New("Options.Host is nil")
	case o.StateDir == "":
		return nil, errors.New("there is no state folder")
	}
	stateDir, err := filepath.Abs(o.StateDir)
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = fmt.Sprintf("host-%d", os.Getpid())
	}
	if err := checkName(o.Name); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	if o.requestTime <= 0 {
		o.requestTime = defaultRequestTime
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		o: o, place: newRegistry(stateDir), cancel: cancel,
		streams: make(chan struct{}, MaxStreams), clients: make(chan struct{}, clientPlaces()), single: &single{}, served: make(chan struct{}),
	}
	mux, err := s.routes()
	if err != nil {
		cancel()
		return nil, err
	}
	own := HostInfo{
		PID: os.Getpid(), Started: o.Started.UTC().Round(0), Version: o.Version, Configs: append([]string{}, o.Configs...),
		Shared: o.Attach != nil, Attach: o.AttachMode, Manager: o.Manager,
		HTTP: o.HTTP, Flags: o.Flags, Log: o.LogFile,
	}
	if own.Shared {
		if err = s.place.prepare(); err == nil {
			s.single, err = s.place.claimSingle(own.Configs)
		}
		if err != nil {
			cancel()
			return nil, err
		}
	}
	if why := openFolder(stateDir); why != "" {
		o.Log.Warn("the state folder is not safe", "reason", why)
	}
	l, info, err := s.place.claim(ctx, o.Name, own)
	if err != nil {
		s.single.release()
		cancel()
		return nil, err
	}
	s.info.Store(&info)
	s.listener = newBoundedListener(l, maxConns)
	s.http = &http.Server{
		Handler:           s.counted(http.MaxBytesHandler(mux, maxBodyBytes)),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: o.requestTime, ReadTimeout: o.requestTime, WriteTimeout: answerTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) && !s.withdrawn.Load() {
			o.Log.Warn("the control socket takes no more requests", "error", err)
		}
	}()
	return s, nil
}

// Info returns how the host is announced, its final name included.
func (s *Server) Info() HostInfo { return *s.info.Load() }

// Follow announces the host as that of other configuration files, as when the first
// one appears after the host began without. A shared host has their place then, and no
// longer that of the files before; where another host has it already, or the folder
// cannot be written to, all stays as it was, and the error says why. A host that has
// withdrawn is announced no more, which is no error.
func (s *Server) Follow(ctx context.Context, configs []string) error {
	s.placing.Lock()
	defer s.placing.Unlock()
	info := s.Info()
	if s.withdrawn.Load() || slices.Equal(info.Configs, configs) {
		return nil
	}
	info.Configs = append([]string{}, configs...)
	claimed := &single{}
	if info.Shared {
		var err error
		if claimed, err = s.place.claimSingle(configs); err != nil {
			return err
		}
	}
	if err := s.place.announceAnew(ctx, &info); err != nil {
		claimed.release()
		return err
	}
	s.info.Store(&info)
	s.single.release()
	s.single = claimed
	return nil
}

// Close withdraws the host, ends all streams and waits for every handler, for
// as long as ctx lasts. A second call returns what the first did.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *Server) close(ctx context.Context) error {
	err := s.Withdraw(ctx)
	s.cancel()
	quiet := s.handlers.Close()
	// Answers that are complete still reach their clients; connections that
	// never sent a request are not waited for.
	flushing, stop := context.WithTimeout(ctx, flushTime)
	defer stop()
	if shutErr := s.http.Shutdown(flushing); shutErr != nil {
		_ = s.http.Close() // the listener is closed already; connections have no errors that matter
	}
	select {
	case <-quiet:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("requests at the control socket did not end in time: %w", context.Cause(ctx)))
	}
	<-s.served
	return err
}

// counted counts the handlers that run, and lets none begin when the server
// ends.
func (s *Server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.handlers.Enter() {
			writeError(w, &Error{Status: http.StatusServiceUnavailable, Code: CodeShuttingDown, Message: "the host is about to end"})
			return
		}
		defer s.handlers.Leave()
		next.ServeHTTP(w, r)
	})
}
