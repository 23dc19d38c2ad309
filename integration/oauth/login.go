package oauth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const callback = "/callback"

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
	c.shelf.dropChallenge()
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
	if l != nil {
		next.Login = l
	}
	return c.keep(ctx, &next)
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

// scopes are those to ask for: what the refusal named, or the entry, or the
// server; together with what was there before where a login is to be widened.
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

// listen opens the port to which the browser is sent: the one that the user
// configured, that of an earlier registration, or a free one.
func (c *Client) listen(ctx context.Context, v *saved, p *place) (net.Listener, error) {
	var lc net.ListenConfig
	open := func(port int) (net.Listener, error) {
		return lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	if o := c.spec.OAuth; o != nil && o.RedirectPort != 0 {
		l, err := open(o.RedirectPort)
		if err != nil {
			return nil, &Error{Message: "the port of oauth.redirectPort cannot be used", Cause: err}
		}
		return l, nil
	}
	if u, err := url.Parse(v.Clients[p.issuer.Issuer].Redirect); err == nil && u.Port() != "" {
		port, err := strconv.Atoi(u.Port())
		if err == nil {
			if l, err := open(port); err == nil {
				return l, nil
			}
		}
	}
	l, err := open(0)
	if err != nil {
		return nil, &Error{Message: "no port of this machine can be opened for the answer", Cause: err}
	}
	return l, nil
}

// answer waits for what the authorization server answers through the browser.
func (c *Client) answer(ctx context.Context, person Person, at net.Listener, meta *issuerMetadata, state, address string) (url.Values, error) {
	came := make(chan url.Values, 1)
	take := func(q url.Values) error {
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			return errors.New("it is not the answer to this login")
		}
		select {
		case came <- q:
		default: // there was one already
		}
		return nil
	}
	server := &http.Server{Handler: landing(take), ReadHeaderTimeout: requestTime, WriteTimeout: requestTime, MaxHeaderBytes: 64 << 10}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(at) // it ends with the answer
	}()
	defer func() {
		// The browser gets its page first.
		const patience = 2 * time.Second
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		<-served
	}()
	person.Visit(address)
	pasted := person.Pasted
	for {
		select {
		case q := <-came:
			return q, judge(q, meta)
		case text, ok := <-pasted:
			if !ok {
				pasted = nil
				continue
			}
			u, err := url.Parse(strings.TrimSpace(text))
			if err == nil {
				err = take(u.Query())
			}
			if err != nil && person.Complain != nil {
				person.Complain("this is not the address to which the browser was sent: it begins with http://127.0.0.1 and holds a code and a state of this login")
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// judge says what is wrong with an answer. Its issuer is compared, RFC 9207,
// before anything else of it is believed or shown.
func judge(q url.Values, meta *issuerMetadata) error {
	switch iss := q.Get("iss"); {
	case iss != "" && iss != meta.Issuer, q.Has("iss") && iss == "":
		return fail("the answer came from another authorization server than the one that was asked, %s; nothing was sent to either", oneLine(meta.Issuer))
	case iss == "" && meta.SaysIssuer:
		return fail("the answer does not say that it is of the authorization server %s, which promises to say so; nothing was sent to it", oneLine(meta.Issuer))
	}
	if code := q.Get("error"); code != "" {
		e := fail("the authorization server %s refuses the login: %s", oneLine(meta.Issuer), oneLine(code+" "+q.Get("error_description")))
		if code == "access_denied" {
			e.Advice = "Somebody said no there. Log in again to allow it."
		}
		return e
	}
	if q.Get("code") == "" {
		return fail("the answer of the authorization server %s holds no code", oneLine(meta.Issuer))
	}
	return nil
}

// landing is where the browser ends.
func landing(take func(url.Values) error) http.Handler {
	const page = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>metamcp</title><body><p>%s</p></body></html>\n"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+callback, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Connection", "close")
		if err := take(r.URL.Query()); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, page, "This is not the answer to a login that metamcp waits for.")
			return
		}
		_, _ = fmt.Fprintf(w, page, "metamcp has the answer. You can close this window and go back to the terminal.")
	})
	return mux
}

// Status is what is known of the login at one server. It holds no secret.
type Status struct {
	Server string `json:"server"`
	URL    string `json:"url"`
	// State is "logged in", "expired" (only a new login helps), "wanted" (the
	// server has asked for one) or "none".
	State   string     `json:"state"`
	Issuer  string     `json:"issuer,omitempty"`
	Client  string     `json:"clientId,omitempty"`
	Scopes  []string   `json:"scopes,omitempty"`
	Expires *time.Time `json:"expires,omitempty"` // of the access token
	Renewed bool       `json:"renewed"`           // it is renewed without a login
	// Wants are scopes that the server asks for and the login does not have.
	Wants []string `json:"wants,omitempty"`
}

// The states of a login.
const (
	LoggedIn = "logged in"
	Expired  = "expired"
	Wanted   = "wanted"
	None     = "none"
)

// Status says what is known of the login, without asking anybody.
func (c *Client) Status() (*Status, error) {
	c.mu.Lock()
	kept, err := c.now()
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s := &Status{Server: c.spec.Name, URL: bare(c.server), State: None}
	ch, wanted := c.shelf.readChallenge()
	l := kept.Login
	if l == nil {
		if wanted {
			s.State, s.Wants = Wanted, ch.Scopes
		}
		return s, nil
	}
	s.State, s.Issuer, s.Client, s.Scopes, s.Renewed = LoggedIn, l.Issuer, l.Client.ID, l.Granted, l.Refresh != "" || c.itself()
	if !l.Expires.IsZero() {
		s.Expires = &l.Expires
	}
	if !s.Renewed && !l.fresh(time.Now()) {
		s.State = Expired
	}
	if wanted {
		s.Wants = slices.DeleteFunc(ch.Scopes, func(scope string) bool { return slices.Contains(l.Requested, scope) })
		if len(s.Wants) == 0 {
			s.State = Expired // the server has asked for a login since
		}
	}
	return s, nil
}

// Logout forgets the login and the registrations, and tells the authorization
// server where it wants to know. had is false where there was nothing. told says
// whether the authorization server confirmed it; the error only that something is
// still stored.
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
		had = kept.Login != nil || len(kept.Clients) > 0
		if l := kept.Login; l != nil && l.Revocation != "" {
			told = c.revoke(ctx, l) == nil
		}
	} else {
		had = true
	}
	if err := c.shelf.forget(ctx); err != nil {
		return had, told, fail("what is stored in %s cannot be removed: %v", c.shelf.dir, err)
	}
	c.mu.Lock()
	c.read = false
	c.mu.Unlock()
	return had, told, nil
}

// revoke gives the tokens back, RFC 7009: the one with which there would be
// others first.
func (c *Client) revoke(ctx context.Context, l *login) error {
	for _, t := range []struct{ hint, token string }{{"refresh_token", l.Refresh}, {"access_token", l.Access}} {
		if t.token == "" {
			continue
		}
		if err := c.revokeOne(ctx, l, t.hint, t.token); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) revokeOne(ctx context.Context, l *login, hint, token string) error {
	u, err := c.web.address(l.Revocation)
	if err != nil {
		return err
	}
	g := c.granting(l, nil, nil)
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
