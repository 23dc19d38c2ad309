package oauth

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// loginNeeded says that a person has to do something.
func (c *Client) loginNeeded(format string, args ...any) *Error {
	e := fail(format, args...)
	e.login = true
	e.Advice = "Run `metamcp auth login " + messages.ShellWord(c.spec.Name) + "` in a shell, which opens a browser; then repeat the call. Repeating it before does not help."
	return e
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
			if needsLogin(err) && c.note(ctx, token, ch) {
				return true, nil
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
	case useless && c.newer(ctx, token):
		return true, nil
	case c.itself():
		e := fail("it refuses a token that its authorization server has just given")
		e.Advice = "Ask whoever runs it: the client may lack a permission."
		return false, e
	}
	if token == "" && l == nil && !c.offers(ctx, ch) {
		return false, nil // it wants something else
	}
	if c.note(ctx, token, ch) {
		return true, nil
	}
	if token == "" {
		return false, c.loginNeeded("it wants a login (OAuth)")
	}
	return false, c.loginNeeded("it does not take its token any more, and a new login is needed")
}

// newer waits for whoever renews the token in another process, and tells whether
// there is another one than this now.
func (c *Client) newer(ctx context.Context, token string) bool {
	unlock, err := c.shelf.lock(ctx)
	if err != nil {
		return false
	}
	unlock()
	access, err := c.access()
	return err == nil && access != "" && access != token
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
	if c.note(ctx, token, ch) {
		return true, nil
	}
	e := c.loginNeeded("it wants a login with further scopes for this: %q", wanted)
	e.Forbidden = true
	return false, e
}

// note keeps what a login has to ask for. It tells whether somebody has logged in since
// token was sent: then the refusal is of no account any more, and must not be kept,
// since the login would be taken for one that the server refused.
func (c *Client) note(ctx context.Context, token string, ch challenge) (newer bool) {
	failed := func(err error) bool {
		c.m.o.Log.Warn("what a server asks of a login could not be kept", "server", c.spec.Name, "error", err)
		return false
	}
	unlock, err := c.shelf.lock(ctx) // a login stores its tokens under it
	if err != nil {
		return failed(err)
	}
	defer unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	kept, err := c.now()
	if err != nil {
		return failed(err)
	}
	if l := kept.Login; l != nil {
		if l.Access != "" && l.Access != token {
			return true
		}
		ch.Scopes = union(l.Requested, ch.Scopes)
	}
	if old, ok := c.shelf.readChallenge(); ok && old.Metadata == ch.Metadata && slices.Equal(old.Scopes, ch.Scopes) {
		return false
	}
	if err := c.shelf.writeChallenge(ch); err != nil {
		return failed(err)
	}
	return false
}
