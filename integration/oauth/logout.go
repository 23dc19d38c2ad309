package oauth

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Logout forgets the login and the registrations, and tells the authorization
// server where it wants to know. A login that is none of the entry any more is given
// back by the client to which it was given, with nothing of the entry. had is false
// where there was nothing. told says whether the authorization server confirmed it;
// the error only that something is still stored.
func (c *Client) Logout(ctx context.Context) (had, told bool, err error) {
	unlock, err := c.shelf.lock(ctx)
	if err != nil {
		return false, false, err
	}
	defer unlock()
	c.mu.Lock()
	kept, readErr := c.now()
	c.mu.Unlock()
	if readErr == nil {
		had = kept.Login != nil || kept.foreign != nil || len(kept.Clients) > 0
		if l := kept.Login; l != nil {
			told = c.revoke(ctx, l, c.granting(l, nil, nil))
		} else if l := kept.foreign; l != nil {
			told = c.revoke(ctx, l, l.granting(nil, nil))
		}
	} else {
		had = true
	}
	if err := c.shelf.forget(ctx); err != nil {
		return had, told, fail("what is stored in %s cannot be removed: %v", c.shelf.dir, err)
	}
	c.mu.Lock()
	c.read, c.unsaved = false, nil
	c.mu.Unlock()
	return had, told, nil
}

// revoke gives the tokens back, RFC 7009: the one with which there would be others
// first. It reports whether the authorization server confirmed it.
func (c *Client) revoke(ctx context.Context, l *login, as *granting) bool {
	if l.Revocation == "" {
		return false
	}
	for _, t := range []struct{ hint, token string }{{"refresh_token", l.Refresh}, {"access_token", l.Access}} {
		if t.token != "" && c.revokeOne(ctx, l.Revocation, as, t.hint, t.token) != nil {
			return false
		}
	}
	return true
}

func (c *Client) revokeOne(ctx context.Context, endpoint string, g *granting, hint, token string) error {
	u, err := c.web.address(endpoint)
	if err != nil {
		return err
	}
	form := url.Values{"token": {token}, "token_type_hint": {hint}}
	method := g.method()
	switch method {
	case methodJWT:
		assertion, err := g.assertion()
		if err != nil {
			return err
		}
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion)
		form.Set("client_id", g.client.ID)
	case methodPost:
		form.Set("client_secret", g.client.Secret)
		form.Set("client_id", g.client.ID)
	case methodNone:
		form.Set("client_id", g.client.ID)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if method == methodBasic {
		req.SetBasicAuth(url.QueryEscape(g.client.ID), url.QueryEscape(g.client.Secret))
	}
	resp, err := c.web.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, maxBody)
	if resp.StatusCode != http.StatusOK {
		return fail("HTTP %d", resp.StatusCode)
	}
	return nil
}
