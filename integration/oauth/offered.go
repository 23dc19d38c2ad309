package oauth

import (
	"context"
	"errors"
	"sync"
	"time"
)

// offered is whether a server has a login of OAuth, as far as it was asked.
type offered struct {
	mu  sync.Mutex // held while it is asked, so that one asks for all
	yes bool
	at  time.Time // of the last no
}

// offers says whether a server that refused with 401, and was sent no token, has a
// login of OAuth: it says where its metadata are, or has some where they are looked
// for. Many refuse so that take a key or a token of their own, which no login
// gives. A no is believed for a while; one that could not be asked is none.
func (c *Client) offers(ctx context.Context, ch challenge) bool {
	if ch.Metadata != "" || c.spec.OAuth != nil {
		return true
	}
	const moment = time.Minute
	c.offered.mu.Lock()
	defer c.offered.mu.Unlock()
	if c.offered.yes || !c.offered.at.IsZero() && time.Since(c.offered.at) < moment {
		return c.offered.yes
	}
	_, err := c.web.discover(ctx, c.server, nil, ch, false, "")
	var e *Error
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil, errors.As(err, &e) && e.Cause == nil && !e.nothing:
		c.offered.yes = true // metadata that are wrong are there, and a login says what is wrong
		return true
	}
	c.offered.at = time.Now()
	return false
}

// LoggedIn says whether somebody is logged in, or the client by itself.
func (c *Client) LoggedIn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, err := c.now()
	return err == nil && (kept.Login != nil || c.itself())
}

// noLogin is the error of a server that refuses with 401 and has no login.
func (c *Client) noLogin() *Error {
	e := fail("the server wants credentials, but offers no login: it has no metadata of OAuth")
	e.Advice = "Put the token or key that it wants into \"headers\" of its entry, such as {\"Authorization\": \"Bearer ${secret:TOKEN}\"} or {\"X-Api-Key\": \"${secret:KEY}\"}; " +
		"metamcp secrets set keeps the value. Its documentation, or whoever runs it, says which."
	e.nothing = true
	return e
}
