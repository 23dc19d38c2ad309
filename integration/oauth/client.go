package oauth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
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
// a new one that is not stored is lost.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	const patience = 2 * time.Second
	limit := time.AfterFunc(patience, m.cancel)
	m.work.Wait()
	limit.Stop()
	m.cancel()
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
	if c := m.clients[spec.Name]; c != nil && c.spec.URL == spec.URL && reflect.DeepEqual(c.spec.OAuth, spec.OAuth) {
		return c, nil
	}
	c, err := newClient(m, spec)
	if err != nil {
		return nil, err
	}
	m.clients[spec.Name] = c
	return c, nil
}

// Client is the client of one server. Its methods may be called from any
// goroutine.
type Client struct {
	m      *Manager
	spec   *messages.ServerSpec
	server *url.URL
	web    *web
	shelf  *shelf

	mu     sync.Mutex
	read   bool // the shelf was
	stamp  fs.FileInfo
	kept   *saved
	known  []string // secrets, the latest last
	flight *flight
	forced forced
}

// forced is the last token that was renewed since the server refused the one
// before.
type forced struct {
	access string
	at     time.Time
}

// useless says that renewing the token is of no use: the server has been given
// a new one a moment ago.
func (f *forced) useless(token string) bool {
	const moment = time.Minute
	return token != "" && f.access == token && time.Since(f.at) < moment
}

// flight is a token that is being renewed.
type flight struct {
	done chan struct{}
	err  error
}

func newClient(m *Manager, spec *messages.ServerSpec) (*Client, error) {
	server, err := url.Parse(spec.URL)
	if err != nil || server.Host == "" {
		return nil, fail("the url of %q is no http or https URL", spec.Name)
	}
	own := []*url.URL{server}
	if o := spec.OAuth; o != nil && o.Issuer != "" {
		if u, err := url.Parse(o.Issuer); err == nil {
			own = append(own, u)
		}
	}
	return &Client{m: m, spec: spec, server: server, web: newWeb(own...), shelf: newShelf(m.o.StateDir, spec.Name, spec.URL)}, nil
}

// itself says whether the client logs in without a person.
func (c *Client) itself() bool { return c.spec.OAuth != nil && c.spec.OAuth.ClientCredentials }

// now returns what is stored, which another process may have changed. c.mu is
// held.
func (c *Client) now() (*saved, error) {
	stamp := c.shelf.stamp()
	if c.read && unchanged(stamp, c.stamp) {
		return c.kept, nil
	}
	kept, err := c.shelf.read()
	if err != nil {
		return nil, err
	}
	c.read, c.stamp, c.kept = true, stamp, kept
	c.learn(kept)
	return kept, nil
}

// learn tells the secrets before anybody uses them. c.mu is held.
func (c *Client) learn(v *saved) {
	before := len(c.known)
	add := func(s string) {
		const shortest = 6 // shorter ones stand in every text
		if len(s) >= shortest && !slices.Contains(c.known, s) {
			c.known = append(c.known, s)
		}
	}
	for _, id := range v.Clients {
		add(id.Secret)
	}
	if l := v.Login; l != nil {
		add(l.Client.Secret)
		add(l.Refresh)
		add(l.Access)
	}
	const most = 64 // old ones are worth nothing
	if len(c.known) > before && c.m.o.Learned != nil {
		c.known = c.known[max(len(c.known)-most, 0):]
		c.m.o.Learned(c.spec.Name, slices.Clone(c.known))
	}
}

// keep stores v and tells what is secret in it.
func (c *Client) keep(ctx context.Context, v *saved) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learn(v)
	err := c.shelf.write(ctx, v)
	c.read, c.stamp, c.kept = true, c.shelf.stamp(), v
	return err
}

// Token returns the access token for the next request; "": there is none, and
// whether one is needed shows with the request. One that is about to expire is
// renewed first; goroutines and processes that want the same wait for one of
// them. The error is an *[Error], or that of ctx.
func (c *Client) Token(ctx context.Context) (string, error) {
	c.mu.Lock()
	kept, err := c.now()
	if err != nil {
		c.mu.Unlock()
		return "", err
	}
	l := kept.Login
	c.mu.Unlock()
	switch {
	case l == nil:
		return "", nil
	case l.fresh(time.Now()), l.Refresh == "" && !c.itself():
		return l.Access, nil
	}
	if err := c.renew(ctx, l.Access, nil); err != nil {
		if l.Access != "" && time.Now().Before(l.Expires) && !needsLogin(err) {
			return l.Access, nil // it is good for a moment, and so may be the next try
		}
		return "", err
	}
	return c.access()
}

func (c *Client) access() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, err := c.now()
	if err != nil || kept.Login == nil {
		return "", err
	}
	return kept.Login.Access, nil
}

// loginNeeded says that a person has to do something.
func (c *Client) loginNeeded(format string, args ...any) *Error {
	e := fail(format, args...)
	e.login = true
	e.Advice = "Run `metamcp auth login " + shellWord(c.spec.Name) + "` in a shell, which opens a browser; then repeat the call. Repeating it before does not help."
	return e
}

// shellWord writes a name so that a shell takes it as it is.
func shellWord(word string) string {
	if word != "" && strings.IndexFunc(word, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("_.,:@%/+-", r)
	}) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Refused takes the answer to a request that was sent with token ("": without)
// and refused with 401 or 403. It reports that there is another token now, with
// which the request is to be sent again. The error says why there is none; with
// neither the refusal has nothing to do with tokens.
func (c *Client) Refused(ctx context.Context, token string, status int, header http.Header) (again bool, _ error) {
	ch := readChallenge(header)
	switch {
	case status == http.StatusForbidden && ch.bearer && ch.code == "insufficient_scope":
		return c.insufficient(ctx, token, ch)
	case status != http.StatusUnauthorized, !ch.bearer && ch.other != "" && c.spec.OAuth == nil && token == "":
		return false, nil // it wants something else
	}
	c.mu.Lock()
	kept, err := c.now()
	if err != nil {
		c.mu.Unlock()
		return false, err
	}
	l, useless := kept.Login, c.forced.useless(token)
	c.mu.Unlock()
	switch {
	case l != nil && l.Access != "" && l.Access != token:
		return true, nil // somebody else was faster
	case !useless && (c.itself() || l != nil && l.Refresh != ""):
		if err := c.renew(ctx, token, &ch); err != nil {
			if needsLogin(err) {
				c.note(ch, l)
			}
			return false, err
		}
		access, err := c.access()
		if token != "" {
			// If it is refused as well, renewing it once more is of no use.
			c.mu.Lock()
			c.forced = forced{access, time.Now()}
			c.mu.Unlock()
		}
		return err == nil && access != "" && access != token, err
	case c.itself():
		e := fail("it refuses a token that its authorization server has just given")
		e.Advice = "Ask whoever runs it: the client may lack a permission."
		return false, e
	}
	c.note(ch, l)
	if token == "" {
		return false, c.loginNeeded("it wants a login (OAuth)")
	}
	return false, c.loginNeeded("it does not take its token any more, and a new login is needed")
}

// insufficient takes a refusal for the sake of scopes.
func (c *Client) insufficient(ctx context.Context, token string, ch challenge) (again bool, _ error) {
	c.mu.Lock()
	kept, err := c.now()
	if err != nil {
		c.mu.Unlock()
		return false, err
	}
	l := kept.Login
	c.mu.Unlock()
	wanted := strings.Join(ch.Scopes, " ")
	switch {
	case l != nil && l.Access != token:
		return true, nil
	case l != nil && within(ch.Scopes, l.Requested):
		e := fail("it refuses this with the scopes %q, which were asked for at the login already (%q were granted)", wanted, strings.Join(l.Granted, " "))
		e.Forbidden, e.Advice = true, "Whoever logged in may lack the permission for this. Other tools of the server can be used; repeating the call does not help."
		return false, e
	case c.itself():
		if err := c.renew(ctx, token, &ch); err != nil {
			return false, err
		}
		return true, nil
	}
	c.note(ch, l)
	e := c.loginNeeded("it wants a login with further scopes for this: %q", wanted)
	e.Forbidden = true
	return false, e
}

// note keeps what a login has to ask for.
func (c *Client) note(ch challenge, l *login) {
	if l != nil {
		ch.Scopes = union(l.Requested, ch.Scopes)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.shelf.readChallenge(); ok && old.Metadata == ch.Metadata && slices.Equal(old.Scopes, ch.Scopes) {
		return
	}
	if err := c.shelf.writeChallenge(ch); err != nil {
		c.m.o.Log.Warn("what a server asks of a login could not be kept", "server", c.spec.Name, "error", err)
	}
}

// renew gets another token than used, or waits for whoever does; asked is the
// refusal that made it necessary, nil where only time did. It goes on when ctx
// ends: a token that was renewed and not stored is lost.
func (c *Client) renew(ctx context.Context, used string, asked *challenge) error {
	c.mu.Lock()
	f := c.flight
	if f == nil {
		f = &flight{done: make(chan struct{})}
		started := c.m.start(func() {
			f.err = c.renewAlone(c.m.ctx, used, asked)
			c.mu.Lock()
			c.flight = nil
			c.mu.Unlock()
			close(f.done)
		})
		if !started {
			c.mu.Unlock()
			return fail("metamcp is ending")
		}
		c.flight = f
	}
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// renewAlone renews the token while no other process does.
func (c *Client) renewAlone(ctx context.Context, used string, asked *challenge) error {
	const enough = lockTime + 6*requestTime
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	unlock, err := c.shelf.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	c.mu.Lock()
	kept, err := c.now()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	l := kept.Login
	if l != nil && l.Access != used && l.fresh(time.Now()) {
		return nil // another process did
	}
	if c.itself() {
		return c.ownGrant(ctx, kept, asked)
	}
	if l == nil || l.Refresh == "" {
		return c.loginNeeded("its token has expired, and a new login is needed")
	}
	if asked != nil {
		// The server may have changed its authorization server, and what was
		// granted by the old one is of no use then.
		p, err := c.web.discover(ctx, c.server, c.spec.OAuth, *asked, true, l.Issuer)
		if err != nil {
			return err
		}
		if p.issuer.Issuer != l.Issuer {
			return c.loginNeeded("it is under another authorization server now, %s, and a new login is needed", oneLine(p.issuer.Issuer))
		}
	}
	return c.refresh(ctx, kept)
}

// refresh uses the refresh token.
func (c *Client) refresh(ctx context.Context, kept *saved) error {
	next, l := *kept, *kept.Login
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {l.Refresh}, "resource": {l.Resource}}
	t, err := c.web.grant(ctx, c.granting(&l, nil, params))
	if err != nil {
		switch errorCode(err) {
		case "invalid_grant", "invalid_client", "unauthorized_client":
			// The token that is left is not tried for ever.
			l.Refresh = ""
			next.Login = &l
			return errors.Join(c.loginNeeded("its login is not valid any more (%s), and a new one is needed", errorCode(err)), c.keep(ctx, &next))
		}
		return err
	}
	l.take(t)
	next.Login = &l
	return c.keep(ctx, &next)
}

// ownGrant gets a token for the client itself.
func (c *Client) ownGrant(ctx context.Context, kept *saved, asked *challenge) error {
	next := *kept
	l := kept.Login
	var algs []string
	if l == nil || asked != nil {
		ch := challenge{}
		if asked != nil {
			ch = *asked
		}
		p, err := c.web.discover(ctx, c.server, c.spec.OAuth, ch, asked != nil, "")
		if err != nil {
			return err
		}
		id, _ := configured(c.spec.OAuth)
		if err := bind(&next, id.ID, c.spec.OAuth.Issuer, p.issuer.Issuer); err != nil {
			return err
		}
		requested := union(c.spec.OAuth.Scopes, ch.Scopes)
		if len(requested) == 0 {
			requested = p.scopes
		}
		if l != nil {
			requested = union(l.Requested, requested)
		}
		algs = p.issuer.SigningAlgs
		l = &login{
			Issuer: p.issuer.Issuer, Token: p.issuer.Token, Revocation: p.issuer.Revocation, Methods: p.issuer.AuthMethods,
			Resource: p.resource, Client: id, Requested: requested,
		}
	} else {
		again := *l
		l = &again
	}
	l.Client, _ = configured(c.spec.OAuth)
	params := url.Values{"grant_type": {"client_credentials"}, "resource": {l.Resource}}
	if len(l.Requested) > 0 {
		params.Set("scope", strings.Join(l.Requested, " "))
	}
	t, err := c.web.grant(ctx, c.granting(l, algs, params))
	if err != nil {
		return err
	}
	l.take(t)
	next.Login = l
	return c.keep(ctx, &next)
}

func (c *Client) granting(l *login, algs []string, params url.Values) *granting {
	g := &granting{issuer: l.Issuer, endpoint: l.Token, methods: l.Methods, algs: algs, client: l.Client, params: params}
	// The user may have corrected the secret since.
	if id, ok := configured(c.spec.OAuth); ok && id.ID == l.Client.ID {
		g.client.Secret, g.key = id.Secret, c.spec.OAuth.PrivateKey
	}
	return g
}

// bind holds a client that the user configured to the authorization server that
// it was registered with.
func bind(v *saved, client, issuer, now string) error {
	if issuer != "" {
		return nil // discover has compared it
	}
	if before, ok := v.Bound[client]; ok && before != now {
		e := fail("the client %s was used with the authorization server %s, and the server names %s now", oneLine(client), oneLine(before), oneLine(now))
		e.Advice = fmt.Sprintf("A client is known to one authorization server only. If the new one is right, register there and write the new clientId, or \"issuer\": %q, into oauth of the entry.", oneLine(now))
		return e
	}
	bound := map[string]string{client: now}
	v.Bound = bound
	return nil
}
