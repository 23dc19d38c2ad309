package oauth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/oauth2"

	"github.com/metamcp/metamcp/integration/clienttls"
)

// A Person logs in.
type Person struct {
	// Visit hands over the address to open in a browser. It must not block.
	Visit func(address string)
	// Pasted brings addresses to which the browser was sent, from a person
	// whose browser is on another machine; nil: nobody pastes any.
	Pasted <-chan string
	// Complain is told of an answer that belongs to no login; nil: nobody is.
	Complain func(why string)
}

// Login logs a person in, or the client itself where it is configured so, and
// keeps the tokens. It takes as long as the person, or until ctx ends. The error
// is an *[Error], or that of ctx.
func (c *Client) Login(ctx context.Context, person Person) (*Status, error) {
	c.mu.Lock()
	before, err := c.now()
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	ch, asked, err := c.asks(ctx)
	if err != nil {
		return nil, err
	}
	if c.itself() {
		used := ""
		if before.Login != nil {
			used = before.Login.Access
		}
		if err := c.renew(ctx, used, &ch); err != nil {
			return nil, err
		}
		c.shelf.dropChallenge()
		return c.Status()
	}
	preferred := ""
	if before.Login != nil {
		preferred = before.Login.Issuer
	}
	p, err := c.web.discover(ctx, c.server, c.spec.OAuth, ch, asked, preferred)
	if err != nil {
		return nil, err
	}
	if err := usable(&p.issuer); err != nil {
		return nil, err
	}
	clients := saved{Clients: maps.Clone(before.Clients), Bound: before.Bound}
	l, err := c.authorize(ctx, person, p, &clients, c.scopes(before.Login, p, ch))
	// A registration is kept even where the login failed, and has been stopped.
	if err := errors.Join(err, c.keepLogin(context.WithoutCancel(ctx), &clients, l)); err != nil {
		return nil, err
	}
	return c.Status()
}

// keepLogin stores what a login has brought; l nil: only registrations. A host
// may have renewed the token of the last login meanwhile.
func (c *Client) keepLogin(ctx context.Context, clients *saved, l *login) error {
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
	next := *kept
	next.Clients, next.Bound = clients.Clients, clients.Bound
	if l == nil {
		return c.keep(ctx, &next)
	}
	next.Login = l
	if err := c.keep(ctx, &next); err != nil {
		return err
	}
	c.shelf.dropChallenge()
	return nil
}

// usable refuses an authorization server with which a code could be stolen.
func usable(meta *issuerMetadata) error {
	switch {
	case meta.Authorization == "":
		return fail("the authorization server %s has no authorization endpoint: nobody can log in there with a browser", oneLine(meta.Issuer))
	case !meta.assumed && !slices.Contains(meta.Challenges, "S256"):
		return fail("the authorization server %s does not say that it knows PKCE (S256), without which a login could be stolen", oneLine(meta.Issuer))
	}
	return nil
}

// scopes are those to ask for: what the entry names together with what the
// refusal named, or what the refusal named, or what the server's metadata name;
// together with what was there before where a login is to be widened.
func (c *Client) scopes(before *login, p *place, ch challenge) []string {
	var list []string
	switch o := c.spec.OAuth; {
	case o != nil && len(o.Scopes) > 0:
		list = union(o.Scopes, ch.Scopes)
	case len(ch.Scopes) > 0:
		list = ch.Scopes
	default:
		list = p.scopes
	}
	if before != nil && before.Issuer == p.issuer.Issuer && len(ch.Scopes) > 0 {
		list = union(before.Requested, list)
	}
	if len(list) > 0 && slices.Contains(p.issuer.Scopes, "offline_access") {
		list = union(list, []string{"offline_access"})
	}
	return list
}

// asks returns what the server asks for, as it was noted when it refused, or
// asks it; asked says that it did refuse.
func (c *Client) asks(ctx context.Context) (ch challenge, asked bool, _ error) {
	if ch, ok := c.shelf.readChallenge(); ok {
		return ch, true, nil
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"metamcp","version":"1"}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.String(), bytes.NewReader([]byte(hello)))
	if err != nil {
		return ch, false, err
	}
	for name, value := range c.spec.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	// The address is the user's own, so it is reached as every request of theirs.
	client := &http.Client{Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if c.spec.TLS != nil {
		cfg := &tls.Config{MinVersion: tls.VersionTLS12}
		if err := clienttls.Use(cfg, c.spec); err != nil {
			return ch, false, fail("%v", err)
		}
		client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return ch, false, unreachable("the server cannot be reached", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusUnauthorized {
		return ch, false, nil
	}
	return readChallenge(resp.Header), true, nil
}

// authorize sends the person to the authorization server and makes a login of
// what it answers.
func (c *Client) authorize(ctx context.Context, person Person, p *place, v *saved, scopes []string) (*login, error) {
	at, err := c.listen(ctx, v, p)
	if err != nil {
		return nil, err
	}
	defer func() { _ = at.Close() }()
	redirect := fmt.Sprintf("http://127.0.0.1:%d%s", at.Addr().(*net.TCPAddr).Port, callback)
	id, err := c.identify(ctx, v, p, redirect, scopes)
	if err != nil {
		return nil, err
	}
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	cfg := &oauth2.Config{ClientID: id.ID, RedirectURL: redirect, Scopes: scopes, Endpoint: oauth2.Endpoint{AuthURL: p.issuer.Authorization}}
	answer, err := c.answer(ctx, person, at, &p.issuer, state,
		cfg.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", p.resource)))
	if err != nil {
		return nil, err
	}
	l := &login{
		Issuer: p.issuer.Issuer, Token: p.issuer.Token, Revocation: p.issuer.Revocation, Methods: p.issuer.AuthMethods,
		Resource: p.resource, Client: id, Requested: scopes,
	}
	t, err := c.web.grant(ctx, c.granting(l, p.issuer.SigningAlgs, url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")}, "code_verifier": {verifier}, "redirect_uri": {redirect}, "resource": {p.resource},
	}))
	if err != nil {
		if code := errorCode(err); code == "invalid_client" || code == "unauthorized_client" {
			delete(v.Clients, p.issuer.Issuer) // the next login registers anew
		}
		return nil, err
	}
	l.take(t)
	return l, nil
}
