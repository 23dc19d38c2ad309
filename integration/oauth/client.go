package oauth

import (
	"context"
	"io/fs"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Client is the client of one server. Its methods may be called from any
// goroutine.
type Client struct {
	m      *Manager
	spec   *messages.ServerSpec
	server *url.URL
	web    *web
	shelf  *shelf

	mu    sync.Mutex
	read  bool // the shelf was
	stamp fs.FileInfo
	kept  *saved
	known []string // secrets, those that are used last
	// unsaved is kept where the shelf did not take it, as when the disk is full,
	// and tried when it was last tried: the authorization server may take no
	// older token any more. nil: the shelf has what there is.
	unsaved *saved
	tried   time.Time
	flight  *flight
	forced  forced

	offered offered
}

// forced is the last token that was renewed since the server refused the one
// before.
type forced struct {
	access string
	at     time.Time
}

// useless says that renewing the token is of no use: the server has been given
// a new one a moment ago, and has never taken it.
func (f *forced) useless(token string) bool {
	const moment = time.Minute
	return token != "" && f.access == token && time.Since(f.at) < moment
}

// Taken takes note that the server took a request that was sent with token: when
// it refuses the token later, that has been good.
func (c *Client) Taken(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.forced.access == token {
		c.forced = forced{}
	}
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
	w := newWeb(own...)
	w.trust(spec, server)
	return &Client{m: m, spec: spec, server: server, web: w, shelf: newShelf(m.o.StateDir, spec.Name, spec.URL)}, nil
}

// itself says whether the client logs in without a person.
func (c *Client) itself() bool { return c.spec.OAuth != nil && c.spec.OAuth.ClientCredentials }

// now returns what is stored, which another process may have changed. Its Login is
// one of the entry: nothing that the entry has meets a login of another
// authorization server. c.mu is held.
func (c *Client) now() (*saved, error) {
	stamp := c.shelf.stamp()
	if c.read && unchanged(stamp, c.stamp) {
		return c.kept, nil
	}
	kept, err := c.shelf.read()
	if err != nil {
		return nil, err
	}
	kept.setAside(c.spec.OAuth)
	// What another process has stored since is newer than what was not stored.
	c.read, c.stamp, c.kept, c.unsaved = true, stamp, kept, nil
	c.learn(kept)
	return kept, nil
}

// learn tells the secrets before anybody uses them. c.mu is held.
func (c *Client) learn(v *saved) {
	var used []string
	add := func(s string) {
		const shortest = 6 // shorter ones stand in every text
		if len(s) >= shortest && !slices.Contains(used, s) {
			used = append(used, s)
		}
	}
	for _, id := range v.Clients {
		add(id.Secret)
	}
	for _, l := range []*login{v.foreign, v.Login} {
		if l != nil {
			add(l.Client.Secret)
			add(l.Refresh)
			add(l.Access)
		}
	}
	if !slices.ContainsFunc(used, func(s string) bool { return !slices.Contains(c.known, s) }) {
		return
	}
	// Those before may be on their way still; older ones are worth nothing.
	const most = 3
	former := slices.DeleteFunc(c.known, func(s string) bool { return slices.Contains(used, s) })
	c.known = slices.Concat(former[max(len(former)-most, 0):], used)
	if c.m.o.Learned != nil {
		c.m.o.Learned(c.spec.Name, slices.Clone(c.known))
	}
}

// keep stores v and tells what is secret in it. After an error it is used all the
// same, and stored later.
func (c *Client) keep(ctx context.Context, v *saved) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.Login != nil {
		v.foreign = nil // it is replaced
		if id, ok := configured(c.spec.OAuth); ok {
			v.bind(id.ID, v.Login.Issuer) // which counts when the entry names no issuer any more
		}
	}
	c.learn(v)
	c.unsaved = v
	return c.save(ctx)
}

// keepToken is keep for a token that can be used whether it is stored or not.
func (c *Client) keepToken(ctx context.Context, v *saved) {
	if err := c.keep(ctx, v); err != nil {
		c.m.o.Log.Warn("a token was renewed and could not be stored, which is tried again; a host that starts meanwhile may need a new login", "server", c.spec.Name, "error", err)
	}
}

// save stores what is unsaved. c.mu is held.
func (c *Client) save(ctx context.Context) error {
	v := c.unsaved
	err := c.shelf.write(ctx, v)
	if err == nil {
		c.unsaved = nil
	}
	c.read, c.stamp, c.kept, c.tried = true, c.shelf.stamp(), v, time.Now()
	return err
}

// saveAgain is how long it takes until something is tried once more that could not
// be stored.
const saveAgain = 10 * time.Second

// due reports whether something unsaved is to be tried again, once for each time.
// c.mu is held.
func (c *Client) due() bool {
	if c.unsaved == nil || time.Since(c.tried) < saveAgain {
		return false
	}
	c.tried = time.Now()
	return true
}

// saveLate tries to store what could not be stored.
func (c *Client) saveLate(ctx context.Context) {
	c.mu.Lock()
	none := c.unsaved == nil
	c.mu.Unlock()
	if none {
		return
	}
	unlock, err := c.shelf.lock(ctx)
	if err != nil {
		return
	}
	defer unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.now(); err != nil || c.unsaved == nil {
		return
	}
	if c.save(ctx) == nil {
		c.m.o.Log.Info("a renewed token that could not be stored is stored now", "server", c.spec.Name)
	}
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
	l, due := kept.Login, c.due()
	c.mu.Unlock()
	if due {
		c.m.start(func() { c.saveLate(c.m.ctx) }) // Close tries as well
	}
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
