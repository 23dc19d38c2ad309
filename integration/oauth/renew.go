package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

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
		if code := errorCode(err); judged(code) {
			// The token that is left is not tried for ever.
			l.Refresh = ""
			next.Login = &l
			return errors.Join(c.loginNeeded("its login is not valid any more (%s), and a new one is needed", code), c.keep(ctx, &next))
		}
		return err
	}
	l.take(t)
	next.Login = &l
	c.keepToken(ctx, &next)
	return nil
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
	c.keepToken(ctx, &next)
	return nil
}

// granting is a request for a login of the entry, by its client.
func (c *Client) granting(l *login, algs []string, params url.Values) *granting {
	g := l.granting(algs, params)
	// The user may have corrected the secret since.
	if id, ok := configured(c.spec.OAuth); ok && id.ID == l.Client.ID {
		g.client.Secret, g.key = id.Secret, c.spec.OAuth.PrivateKey
	}
	return g
}

// granting is a request by the client to which the login was given.
func (l *login) granting(algs []string, params url.Values) *granting {
	return &granting{issuer: l.Issuer, endpoint: l.Token, methods: l.Methods, algs: algs, client: l.Client, params: params}
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
	v.bind(client, now)
	return nil
}
