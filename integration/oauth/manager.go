package oauth

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Options say where tokens are kept.
type Options struct {
	// StateDir is the state folder; "": nothing outlives the process.
	StateDir string
	// Learned is told of every secret that a server's login holds, by what it
	// is, before it is used: nobody else knows that they are secrets. It may be
	// called from many goroutines; nil: nobody wants to know.
	Learned func(server string, secrets []string)
	// Log takes what has no other way to people; nil: the default one.
	Log *slog.Logger
}

// Manager has the clients of all servers. It is safe for any goroutine.
type Manager struct {
	o      Options
	ctx    context.Context //nolint:containedctx // the life of what renews tokens
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	clients map[string]*Client
}

// New returns a manager. The caller must close it.
func New(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	m := &Manager{o: o, clients: map[string]*Client{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Close ends what renews tokens; one that is being renewed gets a moment, since
// a new one that is not stored is lost. So does one that could not be stored before.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	const patience = 2 * time.Second
	limit := time.AfterFunc(patience, m.cancel)
	m.work.Wait()
	limit.Stop()
	m.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	m.mu.Lock()
	clients := slices.Collect(maps.Values(m.clients))
	m.mu.Unlock()
	for _, c := range clients {
		c.saveLate(ctx)
	}
}

// start runs f on a goroutine that Close waits for; false: it is closed.
func (m *Manager) start(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.work.Go(f)
	return true
}

// Client returns the client of a server; the same one for as long as its entry
// is the same. The error says why the server can have none.
func (m *Manager) Client(spec *messages.ServerSpec) (*Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.clients[spec.Name]; c != nil && c.spec.URL == spec.URL && reflect.DeepEqual(c.spec.OAuth, spec.OAuth) && reflect.DeepEqual(c.spec.TLS, spec.TLS) {
		return c, nil
	}
	c, err := newClient(m, spec)
	if err != nil {
		return nil, err
	}
	m.forget(m.clients[spec.Name])
	m.clients[spec.Name] = c
	return c, nil
}

// KeepOnly forgets the clients of servers that are there no more. Whoever uses one
// may go on; what it stores is where the next one looks.
func (m *Manager) KeepOnly(thereIs func(server string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.clients, func(server string, c *Client) bool {
		if thereIs(server) {
			return false
		}
		m.forget(c)
		return true
	})
}

// forget has a client that nobody may come back to store what it could not store
// before. m.mu is held.
func (m *Manager) forget(c *Client) {
	if c != nil && !m.closed {
		m.work.Go(func() { c.saveLate(m.ctx) })
	}
}
