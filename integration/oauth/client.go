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
