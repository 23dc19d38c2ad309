package metamcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/metamcp/metamcp/integration/askpage"
	"github.com/metamcp/metamcp/integration/bearer"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/front"
)

// ListenHTTP serves MCP over Streamable HTTP to many clients, with the settings
// under http, until the listener is closed; that must be before the engine is.
// addr is what [front.CheckHTTPAddr] takes. The error says what to do instead; it is no
// *[Error], but for CANCELLED where ctx ends.
func (e *Engine) ListenHTTP(ctx context.Context, addr string) (*front.Listener, error) {
	l, err := e.PrepareHTTP(ctx, addr, nil)
	if err == nil {
		l.Start()
	}
	return l, err
}

// PrepareHTTP is [Engine.ListenHTTP] for who serves later: nobody is served
// before [front.Listener.Start]. inherited is a socket that listens already; nil:
// a new one does. It stays open where PrepareHTTP fails.
func (e *Engine) PrepareHTTP(ctx context.Context, addr string, inherited net.Listener) (*front.Listener, error) {
	_, loopback, err := front.CheckHTTPAddr(addr)
	if err != nil {
		return nil, err
	}
	if e.lists != nil { // only clients over stdio may come before
		select {
		case <-e.lists:
		case <-ctx.Done():
			return nil, cancelled(ctx, ctx.Err(), "clients are not served over HTTP")
		}
	}
	info, err := json.Marshal(map[string]string{"name": "metamcp", "version": e.opts.Version})
	if err != nil {
		return nil, err
	}
	st := e.Config().Settings
	door, err := newDoor(&st, e.log)
	if err != nil {
		return nil, err
	}
	public, err := publicURL(st.HTTP.PublicURL)
	if err != nil {
		return nil, err
	}
	var pages http.Handler
	if public != nil {
		pages = &e.pages
	}
	// A proxy in front may have clients elsewhere.
	local := loopback && len(st.HTTP.Hosts) == 0
	h := front.NewHTTP(front.HTTPOptions{
		MCP: e.newMCPServer(), Open: func(who front.Principal) (front.Opened, error) { return e.openHTTP(who, local) }, Authorize: door.authorize, CheckParams: e.expose.checkHeaders, Pages: pages, PagesPrefix: askpage.Prefix, Tool: toolCall, ServerInfo: info,
		Hosts: st.HTTP.Hosts, Origins: st.HTTP.Origins, LoopbackOnly: loopback,
		DrainLeft: func() time.Duration { return e.Config().Settings.DrainTimeout }, Hurry: e.hurry, MaxBody: int64(st.HTTP.MaxBodyKB) << 10,
		MaxSessions: st.HTTP.MaxSessions, MaxSessionsEach: st.HTTP.MaxSessionsEach, MaxRate: st.HTTP.MaxRate, MaxEach: st.HTTP.MaxConcurrent,
		IdleTimeout: st.HTTP.IdleTimeout, KeepAlive: st.HTTP.KeepAlive, Log: e.log,
	})
	l, err := h.Prepare(ctx, front.ListenOptions{
		Addr: addr, Inherited: inherited, TLSCert: st.HTTP.TLSCert, TLSKey: st.HTTP.TLSKey, ClientCA: st.HTTP.ClientCA, Proven: door.proven.Load(), Log: e.log,
	})
	if err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	begin := e.beginLater()
	e.http.Store(l)
	go func() {
		<-l.Done()
		begin.Stop()
		e.http.CompareAndSwap(l, nil)
	}()
	return l, nil
}

// openHTTP opens a session for a client over HTTP.
func (e *Engine) openHTTP(who front.Principal, local bool) (front.Opened, error) {
	session, err := e.core.OpenSession(nil)
	if err != nil {
		return front.Opened{}, err
	}
	if who.Key != "" {
		session.BelongsTo(who.Key)
	}
	passed := e.expose.passedFor(session)
	ask := e.newAsker(session, local)
	return front.Opened{
		Session: session.ID(), Engine: &frontEngine{session, e.telemetry, ask}, Passed: passed, Via: session.Client,
		Ready: func(p *front.Peer) {
			e.clients.Store(session.ID(), client{
				peer: p, passed: passed, since: time.Now(), noProvision: who.NoProvision, token: who.Name, principal: who.Key, still: who.Still,
			})
		},
		Close: func() {
			e.clients.Delete(session.ID())
			ask.close()
			passed.close()
			session.Close()
		},
	}, nil
}

// door says who gets in over HTTP.
type door struct {
	tokens *bearer.Store
	// proven says that tokens are asked for. Once they are they stay so: to
	// remove the last one must not let everybody in.
	proven atomic.Bool
}

func newDoor(st *config.Settings, log *slog.Logger) (*door, error) {
	d := &door{tokens: bearer.New(st.StateDir, log)}
	if st.StateDir == "" {
		return d, nil
	}
	there, err := d.tokens.Any()
	d.proven.Store(there)
	return d, err
}

var (
	errNoToken  = errors.New("this host wants a token: send the header Authorization: Bearer TOKEN; metamcp token add NAME makes one")
	errNoScheme = errors.New("the header Authorization is not understood; send Bearer TOKEN")
)

// authorize says whom a request comes from; the error is for the client.
func (d *door) authorize(r *http.Request) (front.Principal, error) {
	var who front.Principal
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		cert := r.TLS.VerifiedChains[0][0]
		sum := sha256.Sum256(slices.Concat(cert.RawIssuer, cert.RawSubject)) // both lie in one buffer
		who = front.Principal{Key: "certificate " + hex.EncodeToString(sum[:]), Name: cert.Subject.CommonName}
	}
	if !d.proven.Load() {
		there, err := d.tokens.Any()
		if err != nil {
			return who, errors.New("the tokens of this host cannot be read, so nobody gets in; metamcp token list says why")
		}
		if !there {
			return who, nil
		}
		d.proven.Store(true)
	}
	given := r.Header.Values("Authorization")
	if len(given) == 0 {
		return who, errNoToken
	}
	scheme, value, ok := strings.Cut(given[0], " ")
	if len(given) > 1 || !ok || !strings.EqualFold(scheme, "Bearer") {
		return who, errNoScheme
	}
	t, err := d.tokens.Check(strings.TrimSpace(value))
	if err != nil {
		return who, err
	}
	return front.Principal{
		Key: "token " + t.Hash + " " + who.Key, Name: t.Name, NoProvision: t.NoProvision,
		Still: func() bool { return d.tokens.Holds(t) },
	}, nil
}
