package front

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/metamcp/metamcp/messages"
)

// notificationBuffer is how many notifications mcp-go can have on their way to
// one client; it drops the ones beyond. [Peer.Notify] has no such limit.
const notificationBuffer = 1024

// maxSelf is how many bytes are kept of each thing that a client says of itself, whose
// session may live for weeks and be one of thousands.
const maxSelf = 256

// barrierMethod marks an element of the notification channel that is no
// notification but asks for a sign that all before it were written.
const barrierMethod = "\x00barrier"

// Peer is one client as mcp-go sees it: its identity, its log level, what it
// subscribed to, and the way to send it notifications. All methods are safe
// for use from any goroutine.
type Peer struct {
	id   string
	out  sink
	full func() bool // nil: never
	log  *slog.Logger

	notifications chan mcp.JSONRPCNotification
	initialized   atomic.Bool
	handshake     atomic.Bool // it sent initialize: a legacy client
	able          abilities
	words         lastWords

	mu      sync.RWMutex
	level   mcp.LoggingLevel
	info    mcp.Implementation
	version string
	filters map[*listener]mcp.SubscriptionFilter
}

var (
	_ server.SessionWithLogging            = (*Peer)(nil)
	_ server.SessionWithClientInfo         = (*Peer)(nil)
	_ server.SessionWithProtocolVersion    = (*Peer)(nil)
	_ server.SessionWithSubscriptionFilter = (*Peer)(nil)
)

func newPeer(opts Options, out sink) *Peer {
	return &Peer{
		id: "front-" + strconv.FormatUint(opts.Session, 10), out: out, log: opts.Log,
		notifications: make(chan mcp.JSONRPCNotification, opts.notifications),
		level:         mcp.LoggingLevelError,
		filters:       make(map[*listener]mcp.SubscriptionFilter),
	}
}

// Notify writes one notification to the client before it returns, so that
// those of a request come before its answer. params is one valid JSON object
// or nil. It neither blocks nor drops; the error is that of the output.
func (p *Peer) Notify(method string, params json.RawMessage) error {
	line := appendNotification(make([]byte, 0, 64+len(method)), method)
	if params != nil {
		return p.out.Write(append(line, `,"params":`...), flat(params), []byte{'}'})
	}
	return p.out.Write(append(line, '}'))
}

// Full says whether so much waits for the client to read it that no more work should
// be done for it before it does. [Options.Room] is called when that is over.
func (p *Peer) Full() bool { return p.full != nil && p.full() }

// Release writes what the output holds back; see [messages.FlushPort].
func (p *Peer) Release() { p.out.Release() }

// Initialize is for mcp-go.
func (p *Peer) Initialize() { p.initialized.Store(true) }

// Initialized says whether the client may be sent notifications.
func (p *Peer) Initialized() bool { return p.initialized.Load() }

// NotificationChannel is for mcp-go, which drops what does not fit into it.
func (p *Peer) NotificationChannel() chan<- mcp.JSONRPCNotification { return p.notifications }

// SessionID returns the name that mcp-go knows the session by.
func (p *Peer) SessionID() string { return p.id }

// SetLogLevel sets the lowest level of log messages that the client wants.
func (p *Peer) SetLogLevel(level mcp.LoggingLevel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level = level
	p.able.level.Store(uint32(messages.ParseLogLevel(string(level))))
}

// GetLogLevel returns the lowest level of log messages that the client wants.
func (p *Peer) GetLogLevel() mcp.LoggingLevel {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.level
}

// GetClientInfo returns the name, version and title of the client, as it gave them but
// for what is long, which is cut.
func (p *Peer) GetClientInfo() mcp.Implementation {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.info
}

// SetClientInfo is for mcp-go. The first name stays, whatever a client says later:
// settings say what clients of a name may do.
func (p *Peer) SetClientInfo(info mcp.Implementation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.info.Name == "" {
		p.info = mcp.Implementation{Name: brief(info.Name), Version: brief(info.Version), Title: brief(info.Title)}
	}
}

// brief is what is kept of a text that a client says of itself. It holds nothing else of
// the message that the text came with.
func brief(text string) string { return strings.Clone(messages.Cut(text, maxSelf)) }

// GetClientCapabilities is for mcp-go, which does not look at them: what is asked of a
// client goes by its abilities, which take no more room the more it declares.
func (p *Peer) GetClientCapabilities() mcp.ClientCapabilities { return mcp.ClientCapabilities{} }

// SetClientCapabilities is for mcp-go, and keeps nothing.
func (p *Peer) SetClientCapabilities(mcp.ClientCapabilities) {}

// ProtocolVersion returns the revision that the handshake settled on, or "".
func (p *Peer) ProtocolVersion() string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.version
}

// SetProtocolVersion is for mcp-go, which calls it during the handshake.
func (p *Peer) SetProtocolVersion(version string) {
	p.handshake.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = version
}

// SetSubscriptionFilter is for mcp-go; each subscription sets its own through
// a session of its own, and this one does nothing.
func (p *Peer) SetSubscriptionFilter(mcp.SubscriptionFilter) {}

// SubscriptionFilter returns the sum of what the client subscribed to. A
// client without a handshake gets nothing that it did not subscribe to.
func (p *Peer) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	var sum mcp.SubscriptionFilter
	for _, f := range p.filters {
		sum.ToolsListChanged = sum.ToolsListChanged || f.ToolsListChanged
		sum.PromptsListChanged = sum.PromptsListChanged || f.PromptsListChanged
		sum.ResourcesListChanged = sum.ResourcesListChanged || f.ResourcesListChanged
	}
	return sum, len(p.filters) > 0 || !p.handshake.Load()
}

// subscribers returns the subscriptions that want method, and whether it is a
// notification that one subscribes to.
func (p *Peer) subscribers(method string) (who []*listener, subscribable bool) {
	var wants func(f mcp.SubscriptionFilter) bool
	switch method {
	case mcp.MethodNotificationToolsListChanged:
		wants = func(f mcp.SubscriptionFilter) bool { return f.ToolsListChanged }
	case mcp.MethodNotificationPromptsListChanged:
		wants = func(f mcp.SubscriptionFilter) bool { return f.PromptsListChanged }
	case mcp.MethodNotificationResourcesListChanged:
		wants = func(f mcp.SubscriptionFilter) bool { return f.ResourcesListChanged }
	default:
		return nil, false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	for l, f := range p.filters {
		if wants(f) {
			who = append(who, l)
		}
	}
	return who, true
}

// pump writes what mcp-go notifies, in order, until stop is closed and the
// channel is empty.
func (p *Peer) pump(stop <-chan struct{}) { pump(p.notifications, stop, p.forward) }

func pump(notifications <-chan mcp.JSONRPCNotification, stop <-chan struct{}, forward func(mcp.JSONRPCNotification)) {
	take := func(n mcp.JSONRPCNotification) {
		if n.Method == barrierMethod {
			close(n.Params.AdditionalFields[barrierMethod].(chan struct{}))
			return
		}
		forward(n)
	}
	for {
		select {
		case n := <-notifications:
			take(n)
		case <-stop:
			for {
				select {
				case n := <-notifications:
					take(n)
				default:
					return
				}
			}
		}
	}
}

func (p *Peer) forward(n mcp.JSONRPCNotification) {
	who, subscribable := p.subscribers(n.Method)
	if !subscribable || len(who) == 0 {
		p.send(p.out, n)
		return
	}
	for _, l := range who {
		l.notify(n)
	}
}

func (p *Peer) send(out sink, n mcp.JSONRPCNotification) {
	if line := p.encoded(n); line != nil {
		_ = out.Write(line) // the session ends when the output fails
	}
}

// encoded is a notification of mcp-go's as one line; nil: it has none.
func (p *Peer) encoded(n mcp.JSONRPCNotification) []byte {
	line, err := encode(n)
	if err != nil {
		p.log.Error("a notification cannot be written as JSON and was dropped", "method", n.Method, "error", err)
		return nil
	}
	return line
}

// settle returns when all notifications that mcp-go has handed over were
// written, or stop is closed.
func (p *Peer) settle(stop <-chan struct{}) { settle(p.notifications, stop) }

func settle(notifications chan<- mcp.JSONRPCNotification, stop <-chan struct{}) {
	written := make(chan struct{})
	barrier := mcp.JSONRPCNotification{}
	barrier.Method = barrierMethod
	barrier.Params.AdditionalFields = map[string]any{barrierMethod: written}
	select {
	case notifications <- barrier:
	case <-stop:
		return
	}
	select {
	case <-written:
	case <-stop:
	}
}

func appendNotification(dst []byte, method string) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"`...)
	return append(append(dst, method...), '"')
}
