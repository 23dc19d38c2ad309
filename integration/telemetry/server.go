package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// The bounds of the HTTP server.
const (
	maxConns       = 32
	maxHeaderBytes = 16 << 10
	requestTime    = 10 * time.Second
	answerTime     = 15 * time.Second
	idleTime       = time.Minute
)

// serverList are the servers that [Telemetry.Serve] has started.
type serverList struct {
	mu     sync.Mutex
	closed bool
	list   []*server
}

type server struct {
	http *http.Server
	done chan struct{}
}

// Serve offers the endpoints over HTTP at addr until Close, and returns the
// address that it listens at. addr is HOST:PORT, or a PORT alone, which means
// the loopback; a host that others can reach has to be written out, 0.0.0.0 and
// :: included. Port 0 takes a free one. From now on durations are recorded.
func (t *Telemetry) Serve(addr string) (net.Addr, error) {
	addr, err := parseAddr(addr)
	if err != nil {
		return nil, fmt.Errorf("metrics are not served: %w", err)
	}
	t.servers.mu.Lock()
	defer t.servers.mu.Unlock()
	if t.servers.closed {
		return nil, errors.New("metrics are not served: the host ends")
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("metrics are not served: %w; choose another address with --metrics, or 0 for a free port", err)
	}
	local := isLoopback(l.Addr())
	if !local {
		t.log.Warn("metrics are served to everybody who can reach this machine", "address", l.Addr().String())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Metrics())
	mux.HandleFunc("GET /healthz", t.healthz)
	mux.HandleFunc("GET /readyz", t.readyz)
	handler := http.MaxBytesHandler(mux, 0)
	if local {
		handler = onlyLocalNames(handler)
	}
	s := &server{done: make(chan struct{}), http: &http.Server{
		Handler: handler, ReadHeaderTimeout: requestTime, ReadTimeout: requestTime, WriteTimeout: answerTime,
		IdleTimeout: idleTime, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelDebug),
	}}
	t.recording.Store(true)
	t.servers.list = append(t.servers.list, s)
	go func() {
		defer close(s.done)
		if err := s.http.Serve(netutil.LimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			t.log.Error("metrics are served no more", "error", err)
		}
	}()
	return l.Addr(), nil
}

// close ends all servers; scrapes that run may end before ctx does.
func (s *serverList) close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, srv := range s.list {
		if srv.http.Shutdown(ctx) != nil {
			errs = append(errs, srv.http.Close())
		}
		<-srv.done
	}
	return errors.Join(errs...)
}

// parseAddr makes HOST:PORT of what was written; without a host it is the
// loopback.
func parseAddr(addr string) (string, error) {
	host, port := "", addr
	if strings.Contains(addr, ":") {
		var err error
		if host, port, err = net.SplitHostPort(addr); err != nil {
			return "", fmt.Errorf("the address %q is not HOST:PORT: %w", addr, err)
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("the address %q has no port from 0 to 65535", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// onlyLocalNames refuses requests that a web page on another host sent here by
// a name that points to the loopback.
func onlyLocalNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.Trim(host, "[]")
		if ip, err := netip.ParseAddr(host); (err != nil || !ip.IsLoopback()) && !strings.EqualFold(host, "localhost") {
			http.Error(w, "this is served to local names only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// healthz says that the process works; a host that does not should be started
// anew.
func (t *Telemetry) healthz(w http.ResponseWriter, _ *http.Request) { say(w, t.opts.Health()) }

// readyz says whether the host takes calls.
func (t *Telemetry) readyz(w http.ResponseWriter, r *http.Request) {
	err := t.opts.Health()
	if err == nil {
		err = t.ready(r.Context())
	}
	say(w, err)
}

func (t *Telemetry) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	draining, err := t.opts.Draining(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("the host does not answer: %w", err)
	case draining:
		return errors.New("the host ends and takes no new calls")
	}
	return nil
}

func say(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, err) // whoever asked is gone otherwise
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}
