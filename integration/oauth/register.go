package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// identify returns who the client is at an authorization server: as the user
// configured it, by a document of the user's own, as it was registered before, or
// registered now. It changes v where something is to be kept.
func (c *Client) identify(ctx context.Context, v *saved, p *place, redirect string, scopes []string) (identity, error) {
	o, issuer := c.spec.OAuth, p.issuer.Issuer
	if id, ok := configured(o); ok {
		return id, bind(v, id.ID, o.Issuer, issuer)
	}
	if o != nil && o.MetadataURL != "" && p.issuer.ByDocument {
		return identity{ID: o.MetadataURL, Method: methodNone}, nil
	}
	if id, ok := v.Clients[issuer]; ok && id.Redirect == redirect && (id.Ends.IsZero() || time.Now().Add(skew).Before(id.Ends)) {
		return id, nil
	}
	if p.issuer.Registration == "" {
		e := fail("the authorization server %s registers no clients by itself", oneLine(issuer))
		e.Advice = c.registerByHand()
		if p.issuer.ByDocument {
			e.Advice += " Or publish a client id metadata document and name it as clientMetadataUrl."
		}
		return identity{}, e
	}
	id, err := c.web.register(ctx, p, redirect, scopes)
	var e *Error
	switch {
	case errors.As(err, &e) && e.nothing && p.issuer.assumed:
		return identity{}, c.noLogin()
	case errors.As(err, &e) && e.code != "":
		e.Advice = c.registerByHand()
		if e.Cause != nil {
			e.Advice = "Try again later. If it stays so: " + e.Advice
		}
		return identity{}, e
	case err != nil:
		return identity{}, err
	}
	if v.Clients == nil {
		v.Clients = map[string]identity{}
	}
	v.Clients[issuer] = id
	return id, nil
}

// registerByHand says how to have a client that does not register itself. The port
// of the answer must be one that stays.
func (c *Client) registerByHand() string {
	port := examplePort
	if o := c.spec.OAuth; o != nil && o.RedirectPort != 0 {
		port = o.RedirectPort
	}
	return fmt.Sprintf("Register a client there by hand, with the redirect URL http://127.0.0.1:%d%s (any free port of this machine will do), and write its id and that port into the entry of the server: "+
		`"oauth": {"clientId": "…", "redirectPort": %d}.`, port, callback, port)
}

// examplePort is proposed for answers of browsers.
const examplePort = 8912

// registration is a request of RFC 7591.
type registration struct {
	Name      string   `json:"client_name"`
	Type      string   `json:"application_type"`
	Redirects []string `json:"redirect_uris"`
	Grants    []string `json:"grant_types"`
	Responses []string `json:"response_types"`
	Method    string   `json:"token_endpoint_auth_method"`
	Scope     string   `json:"scope,omitempty"`
}

// register makes a client of ours known.
func (w *web) register(ctx context.Context, p *place, redirect string, scopes []string) (identity, error) {
	var answer struct {
		ID          string `json:"client_id"`
		Secret      string `json:"client_secret"`
		Ends        int64  `json:"client_secret_expires_at"`
		Method      string `json:"token_endpoint_auth_method"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	status, err := w.postJSON(ctx, p.issuer.Registration, registration{
		Name: "metamcp", Type: "native", Redirects: []string{redirect},
		Grants: []string{"authorization_code", "refresh_token"}, Responses: []string{"code"},
		Method: registrable(p.issuer.AuthMethods), Scope: strings.Join(scopes, " "),
	}, &answer)
	at := "the authorization server " + oneLine(p.issuer.Issuer)
	said := ""
	if answer.Error != "" {
		said = ", " + oneLine(answer.Error+" "+answer.Description)
	}
	const longest = 4 << 10
	switch {
	case passes(status) && !p.issuer.assumed:
		e := &Error{Message: at + " cannot register this client now" + said, Cause: &busy{status}}
		if status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable {
			e.code = "registration" // some never register anybody, and say it so
		}
		return identity{}, e
	case status >= http.StatusBadRequest:
		e := fail("%s does not register this client: HTTP %d%s", at, status, said)
		// What says nothing of OAuth is no authorization server.
		e.code, e.nothing = "registration", answer.Error == ""
		return identity{}, e
	case err != nil:
		return identity{}, unreachable("registering at "+at+" failed", err)
	case answer.ID == "" || len(answer.ID) > longest || len(answer.Secret) > longest:
		return identity{}, fail("%s registered this client without a usable id", at)
	}
	id := identity{ID: answer.ID, Secret: answer.Secret, Redirect: redirect}
	if answer.Ends > 0 && answer.Secret != "" {
		id.Ends = time.Unix(answer.Ends, 0).UTC()
	}
	switch answer.Method {
	case methodBasic, methodPost:
		if id.Secret != "" {
			id.Method = answer.Method
		}
	case methodNone:
		id.Method, id.Secret = methodNone, ""
	}
	return id, nil
}

// registrable chooses how the client will say who it is. A program on the
// user's own machine keeps no secret from that user, so it needs none.
func registrable(methods []string) string {
	for _, m := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(methods, m) {
			return m
		}
	}
	return methodNone
}
