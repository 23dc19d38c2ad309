package oauth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/metamcp/metamcp/messages"
)

// How a client says who it is to a token endpoint.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodJWT   = "private_key_jwt"

	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

const (
	maxToken = 16 << 10
	// skew is how long before its end a token is taken for expired: requests
	// take time, and clocks differ.
	skew = 30 * time.Second
)

// login is what somebody was granted.
type login struct {
	Issuer     string   `json:"issuer"`
	Token      string   `json:"tokenEndpoint"`
	Revocation string   `json:"revocationEndpoint,omitempty"`
	Methods    []string `json:"methods,omitempty"` // of the token endpoint
	Resource   string   `json:"resource"`
	Client     identity `json:"client"`
	// Requested are the scopes that were asked for, Granted those that there are.
	Requested []string  `json:"requested,omitempty"`
	Granted   []string  `json:"granted,omitempty"`
	Access    string    `json:"access"`
	Refresh   string    `json:"refresh,omitempty"`
	Expires   time.Time `json:"expires,omitzero"` // zero: not said
	At        time.Time `json:"at"`
}

// identity is a client at one authorization server.
type identity struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	Method string `json:"method,omitempty"` // "": whichever the server takes
	// Redirect is what was registered; "": any.
	Redirect string    `json:"redirect,omitempty"`
	Ends     time.Time `json:"ends,omitzero"` // of the secret; zero: never
}

// fresh says whether the access token will do for a request that begins now.
func (l *login) fresh(now time.Time) bool {
	return l.Access != "" && (l.Expires.IsZero() || now.Add(skew).Before(l.Expires))
}

// granting is one request to a token endpoint.
type granting struct {
	issuer, endpoint string
	methods, algs    []string
	client           identity
	key              string // PEM; "": none
	params           url.Values
}

// grant asks a token endpoint. The error is an *Error, in which no secret is.
func (w *web) grant(ctx context.Context, g *granting) (*oauth2.Token, error) {
	if _, err := w.address(g.endpoint); err != nil {
		return nil, fail("the token endpoint of %s cannot be used: %v", oneLine(g.issuer), err)
	}
	cfg := &clientcredentials.Config{ClientID: g.client.ID, TokenURL: g.endpoint, EndpointParams: g.params, AuthStyle: oauth2.AuthStyleInParams}
	switch method := g.method(); method {
	case methodJWT:
		assertion, err := g.assertion()
		if err != nil {
			return nil, err
		}
		g.params.Set("client_assertion_type", assertionType)
		g.params.Set("client_assertion", assertion)
	case methodBasic:
		cfg.ClientSecret, cfg.AuthStyle = g.client.Secret, oauth2.AuthStyleInHeader
	case methodPost:
		cfg.ClientSecret = g.client.Secret
	case methodNone:
	default:
		return nil, fail("the authorization server %s wants clients to say who they are by %s, which this version cannot", oneLine(g.issuer), oneLine(method))
	}
	t, err := cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, w.client))
	if err != nil {
		return nil, g.refused(err)
	}
	if !strings.EqualFold(t.Type(), "Bearer") {
		return nil, fail("the token endpoint of %s gave a token of the type %s; only bearer tokens are known here", oneLine(g.issuer), oneLine(t.Type()))
	}
	for _, text := range []string{t.AccessToken, t.RefreshToken} {
		if len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fail("the token endpoint of %s gave a token that can be none: it is too long, or holds characters that no header may have", oneLine(g.issuer))
		}
	}
	return t, nil
}

// method chooses how the client says who it is.
func (g *granting) method() string {
	offers := func(m string) bool { return slices.Contains(g.methods, m) }
	switch {
	case g.key != "":
		return methodJWT
	case g.client.Method != "":
		return g.client.Method
	case g.client.Secret == "":
		return methodNone
	case len(g.methods) == 0, offers(methodBasic): // RFC 8414: it is the default
		return methodBasic
	case offers(methodPost):
		return methodPost
	case offers(methodNone):
		return methodNone
	}
	return g.methods[0]
}

// refused makes an error of what a token endpoint said.
func (g *granting) refused(err error) error {
	what := "the token endpoint of " + oneLine(g.issuer)
	var r *oauth2.RetrieveError
	if !errors.As(err, &r) {
		var u *url.Error
		if errors.As(err, &u) {
			return unreachable(what+" cannot be reached", err)
		}
		// Of a body that breaks off the library has words only; those of one that is
		// no token begin otherwise.
		if strings.HasPrefix(err.Error(), "oauth2: cannot fetch token: ") {
			return &Error{Message: what + " broke off its answer", Cause: io.ErrUnexpectedEOF}
		}
		// The library's words may hold a piece of the answer.
		return fail("%s answered with something that is no token", what)
	}
	secrets := []string{g.client.Secret, g.params.Get("code"), g.params.Get("code_verifier"), g.params.Get("refresh_token"), g.params.Get("client_assertion")}
	status := 0
	if r.Response != nil {
		status = r.Response.StatusCode
	}
	said := ""
	if r.ErrorCode != "" {
		said = ": " + oneLine(r.ErrorCode, secrets...)
		if r.ErrorDescription != "" {
			said += ", " + oneLine(r.ErrorDescription, secrets...)
		}
	}
	e := fail("%s refuses%s", what, said)
	switch {
	case passes(status) && !judged(r.ErrorCode), r.ErrorCode == "temporarily_unavailable", r.ErrorCode == "server_error":
		return &Error{Message: what + " cannot give a token now" + said, Cause: &busy{status}}
	case said != "":
	case status >= 300 && status < 400:
		e.Message = what + " redirects, and a code or a token is sent nowhere else"
	case status >= 400:
		e.Message = fail("%s refuses with HTTP %d", what, status).Message
	default:
		e.Message = what + " answered with something that is no token"
	}
	e.code = r.ErrorCode
	if g.params.Get("grant_type") == "client_credentials" {
		e.Advice = "Check clientId, clientSecret (or privateKey) and scopes in \"oauth\" of the server: this client logs in by itself, and nobody can do it in its place. Repeating the call does not help."
	}
	return e
}

// judged says whether a code of a token endpoint is that of a grant or a client which is
// of no use any more.
func judged(code string) bool {
	return slices.Contains([]string{"invalid_grant", "invalid_client", "unauthorized_client"}, code)
}

// passes says whether a status is that of trouble that may pass: a server which
// answers with it has not judged the request, unless it says that it did.
func passes(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}

// busy is a server that may be able to answer later.
type busy struct{ status int }

// Error names the status.
func (b *busy) Error() string { return fail("HTTP %d", b.status).Message }

// assertion is a token that the client signs itself, RFC 7523.
func (g *granting) assertion() (string, error) {
	key, method, err := signer(g.key)
	if err != nil {
		return "", err
	}
	if len(g.algs) > 0 && !slices.Contains(g.algs, method.Alg()) {
		return "", fail("the authorization server %s takes signatures by %s, and oauth.privateKey makes %s", oneLine(g.issuer), oneLine(strings.Join(g.algs, ", ")), method.Alg())
	}
	const valid = time.Minute
	now := time.Now()
	text, err := jwt.NewWithClaims(method, jwt.RegisteredClaims{
		Issuer: g.client.ID, Subject: g.client.ID, Audience: jwt.ClaimStrings{g.issuer}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(valid)),
	}).SignedString(key)
	if err != nil {
		return "", fail("oauth.privateKey cannot sign")
	}
	return text, nil
}

// signer reads a private key.
func signer(text string) (crypto.PrivateKey, jwt.SigningMethod, error) {
	bad := func() (crypto.PrivateKey, jwt.SigningMethod, error) {
		e := fail("oauth.privateKey is no private key that can be used")
		e.Advice = "It is to be a PEM with an RSA key, an elliptic curve of P-256, P-384 or P-521, or Ed25519."
		return nil, nil, e
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return bad()
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
			if key, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
				return bad()
			}
		}
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return k, jwt.SigningMethodRS256, nil
	case *ecdsa.PrivateKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return k, jwt.SigningMethodES256, nil
		case 384:
			return k, jwt.SigningMethodES384, nil
		case 521:
			return k, jwt.SigningMethodES512, nil
		}
	case ed25519.PrivateKey:
		return k, jwt.SigningMethodEdDSA, nil
	}
	return bad()
}

// take makes a login of a token.
func (l *login) take(t *oauth2.Token) {
	l.Access, l.Expires, l.At = t.AccessToken, t.Expiry.UTC(), time.Now().UTC()
	if t.Expiry.IsZero() {
		l.Expires = time.Time{}
	}
	if t.RefreshToken != "" {
		l.Refresh = t.RefreshToken
	}
	if text, ok := t.Extra("scope").(string); ok && text != "" {
		l.Granted = scopesOf(text)
	} else if l.Granted == nil {
		l.Granted = l.Requested // RFC 6749: nothing is said where they are the same
	}
}

// client is the identity that the user configured; false: none.
func configured(o *messages.OAuth) (identity, bool) {
	if o == nil || o.ClientID == "" {
		return identity{}, false
	}
	return identity{ID: o.ClientID, Secret: o.ClientSecret}, true
}
