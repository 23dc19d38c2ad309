package metamcp

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/control"
	"github.com/metamcp/metamcp/integration/front"
	"github.com/metamcp/metamcp/integration/gate"
	"github.com/metamcp/metamcp/integration/lineage"
	"github.com/metamcp/metamcp/messages"
)

// HostOptions are what a host that many clients share is made from.
type HostOptions struct {
	// Name is what "metamcp status" and others call it; "": "main".
	Name string
	// Manager is who keeps it running, such as "systemd"; "": nobody.
	Manager string
	// HTTP serves clients over HTTP as well, from when the host has its place, and
	// is closed with it; where the host is not opened it stays as it is. nil: it
	// serves none.
	HTTP *front.Listener
	// Flags are those of the command line, and Log is the file of the log; both are
	// announced, for who replaces the host or looks for its log.
	Flags []string
	Log   string
	// Stop is called when somebody asks the host to end, in order or at once. It
	// must not wait.
	Stop func(now bool)
}

// SharedHost is an engine that clients attach to: the metamcp of each is a
// relay between its standard input and output and this host's socket.
type SharedHost struct {
	e      *Engine
	server *control.Server
	http   *front.Listener // nil: none
	ctx    context.Context // of all sessions
	cancel context.CancelFunc

	sessions gate.Gate // closed when it drains

	mu    sync.Mutex
	until time.Time // by when sessions end; zero before it drains
}

// settingAutoProvision is the one setting that a client may narrow for its own
// session.
const settingAutoProvision = "trust.autoProvision"

// OpenHost lets clients attach to the engine. There is one such host for a state
// folder and a configuration: the error is a [*control.Error] with code
// ALREADY_RUNS where another one runs, and says what else is wrong otherwise.
func (e *Engine) OpenHost(o HostOptions) (*SharedHost, error) {
	if o.Name == "" {
		o.Name = "main"
	}
	h := &SharedHost{e: e, http: o.HTTP}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	st := &e.Config().Settings
	opts := control.Options{
		StateDir: st.StateDir, Name: o.Name, Version: e.opts.Version, Started: e.started,
		Host: controlled{e}, Handlers: map[string]http.Handler{"GET /metrics": e.telemetry.Metrics()}, Log: e.log,
		Attach: h.serve, AttachNotes: attachNotes, AttachMode: st.Attach, Manager: o.Manager, Stop: o.Stop, Flags: o.Flags, LogFile: o.Log,
	}
	if o.HTTP != nil {
		opts.HTTP, opts.Socket = o.HTTP.URL(), o.HTTP.Socket()
	}
	server, err := e.announce(opts)
	if err != nil {
		h.cancel()
		return nil, err
	}
	h.server = server
	begin := e.beginLater()
	context.AfterFunc(h.ctx, func() { begin.Stop() })
	if o.HTTP != nil {
		o.HTTP.Start()
	}
	return h, nil
}

// Info is how the host is announced.
func (h *SharedHost) Info() control.HostInfo { return h.server.Info() }

// serve is the session of one attached client.
func (h *SharedHost) serve(ctx context.Context, in, out *os.File, hello attach.Hello) error {
	if !h.sessions.Enter() {
		return nil // its relay looks for the next host
	}
	defer h.sessions.Leave()
	both, stop := context.WithCancel(ctx)
	defer stop()
	unhook := context.AfterFunc(h.ctx, stop)
	defer unhook()
	return h.e.serveSession(both, in, out, client{
		pid: hello.PID, attached: true, since: time.Now(), noProvision: forbidsProvisioning(hello), chain: hello.Chain,
		ready: func(p *front.Peer) {
			if h.sessions.Closed() { // Drain may have told the clients before this one was there
				_ = p.Notify(attach.DrainingMethod, nil) // one that has gone needs no word
			}
		},
		drainLeft: func() time.Duration {
			h.mu.Lock()
			defer h.mu.Unlock()
			return time.Until(h.until) // none is left where nobody drained, as in Close
		},
	})
}

// forbidsProvisioning says whether the client's own settings forbid installing. What
// cannot be understood was meant to say something, and installing is what can do
// harm, so it forbids as well.
func forbidsProvisioning(hello attach.Hello) bool {
	text, said := hello.Settings[settingAutoProvision]
	on, ok := config.ParseBool(text)
	return said && (!ok || !on)
}

// attachNotes says which settings of a client the host does not follow.
func attachNotes(hello attach.Hello) []string {
	var ignored []string
	for path := range hello.Settings {
		if path != settingAutoProvision && path != "attach" && path != "stateDir" {
			ignored = append(ignored, path)
		}
	}
	if ignored == nil {
		return nil
	}
	slices.Sort(ignored)
	return []string{"this client is attached to a host that runs with settings of its own; ignored here: " + strings.Join(ignored, ", ") +
		" (--attach=never starts a host with them)"}
}

// Drain lets go of the host's name, so that the next one can begin, tells the
// clients so, and waits until their calls in flight are answered and they have
// left, for at most patience, or until [Engine.Drain] leaves them no time. Then their
// sessions end.
func (h *SharedHost) Drain(ctx context.Context, patience time.Duration) error {
	err := h.server.Withdraw(ctx)
	h.mu.Lock()
	if h.until.IsZero() {
		h.until = time.Now().Add(patience)
	}
	h.mu.Unlock()
	idle := h.sessions.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.endHTTP(ctx, patience)
	}()
	h.e.clients.Range(func(_, value any) bool {
		if c := value.(client); c.attached {
			_ = c.peer.Notify(attach.DrainingMethod, nil) // one that has gone needs no word
		}
		return true
	})
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	case <-h.e.hurry:
	case <-ctx.Done():
	}
	h.cancel()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	<-ended // ctx bounds it
	return err
}

// Close ends what is left of the socket, after [SharedHost.Drain] and
// [Engine.Close].
func (h *SharedHost) Close(ctx context.Context) error {
	h.cancel()
	return h.server.Close(ctx)
}

// client is one connection of a client.
type client struct {
	peer     *front.Peer
	passed   *passed // the requests of its own that go to servers
	pid      int     // of its relay; 0: it came over HTTP
	attached bool
	since    time.Time
	chain    lineage.Chain       // of its relay
	ready    func(p *front.Peer) // called once the client can be notified; nil: nobody cares
	// drainLeft is how long it has once its host ends its session; nil: nobody but
	// itself ends it before the time.
	drainLeft func() time.Duration
	// noProvision says that its own settings forbid installing.
	noProvision bool
	// token is what it proved itself with over HTTP, by its name; "": nothing.
	token string
	// principal tells clients over HTTP apart by what they proved; "": nothing.
	principal string
	// still says whether it would be let in now; nil: nothing changes that.
	still func() bool
}

// clientStatus describes the clients of the moment, the oldest first.
func (e *Engine) clientStatus() (list []messages.ClientStatus) {
	secrets := e.secrets.Load()
	e.clients.Range(func(_, value any) bool {
		c := value.(client)
		info := c.peer.GetClientInfo()
		list = append(list, messages.ClientStatus{Name: secrets.Text(info.Name), Version: secrets.Text(info.Version), PID: c.pid, Since: c.since})
		return true
	})
	slices.SortFunc(list, func(a, b messages.ClientStatus) int { return a.Since.Compare(b.Since) })
	return list
}
