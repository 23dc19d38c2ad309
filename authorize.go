package metamcp

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/oauth"
	"github.com/metamcp/metamcp/integration/remote"
	"github.com/metamcp/metamcp/integration/scrub"
	"github.com/metamcp/metamcp/messages"
)

// authorizer has the tokens for a remote server.
func (e *Engine) authorizer(spec *messages.ServerSpec) remote.Authorizer {
	c, err := e.logins.Client(spec)
	if err != nil {
		return nil // its address is none, which the connection says
	}
	return authorizer{c}
}

// authorizer is a client of OAuth as a connection sees it.
type authorizer struct{ c *oauth.Client }

// Token implements remote.Authorizer.
func (a authorizer) Token(ctx context.Context) (string, error) {
	token, err := a.c.Token(ctx)
	return token, authError(err)
}

// Taken implements remote.Authorizer.
func (a authorizer) Taken(token string) { a.c.Taken(token) }

// Refused implements remote.Authorizer.
func (a authorizer) Refused(ctx context.Context, token string, status int, header http.Header) (bool, error) {
	again, err := a.c.Refused(ctx, token, status, header)
	return again, authError(err)
}

// LoggedIn implements remote.Authorizer.
func (a authorizer) LoggedIn() bool { return a.c.LoggedIn() }

// authError says what a breaker is to make of the lack of a token: only an error
// of the network may go away by itself.
func authError(err error) error {
	var why *oauth.Error
	if !errors.As(err, &why) {
		return err
	}
	f := &remote.Error{Status: http.StatusUnauthorized, Said: why.Message, Advice: why.Advice, Cause: why.Cause}
	switch {
	case why.Cause != nil:
		f.Status = 0
	case why.Forbidden:
		f.Status = http.StatusForbidden
	}
	return f
}

// loginSecrets are the secrets that logins at servers brought, and those that were
// entered on pages.
type loginSecrets struct {
	mu       sync.Mutex
	byServer map[string][]string
	gone     []loginSecret          // of servers that were removed, the latest last
	entered  map[string]string      // by name
	cfg      *config.Config         // whose secrets are known
	former   []*messages.ServerSpec // of earlier ones, too
	base     *scrub.Set             // of cfg and former alone; nil: nothing is taken out
	stale    int                    // that the scrubber has still, and byServer and entered no more
}

type loginSecret struct{ server, secret string }

// maxGone bounds the secrets of logins at servers that were removed.
const maxGone = 1024

// maxStale bounds the secrets that the scrubber keeps for no more reason than that it
// was not made anew since.
const maxStale = 1024

// forgetGone takes the secrets of servers that are there no more for such ones. mu is
// held.
func (s *loginSecrets) forgetGone(thereIs func(server string) bool) {
	for server, secrets := range s.byServer {
		if thereIs(server) {
			continue
		}
		delete(s.byServer, server)
		for _, secret := range secrets {
			// A server may come and go with the same login.
			if one := (loginSecret{server, secret}); !slices.Contains(s.gone, one) {
				s.gone = append(s.gone, one)
			}
		}
	}
	s.gone = slices.Clone(s.gone[max(0, len(s.gone)-maxGone):])
}

// learnEntered lets the scrubber know of a secret that was entered on a page, before
// it is in the configuration.
func (e *Engine) learnEntered(name, value string) {
	e.tokens.mu.Lock()
	defer e.tokens.mu.Unlock()
	if e.tokens.entered == nil {
		e.tokens.entered = map[string]string{}
	}
	stale := 0
	switch old, known := e.tokens.entered[name]; {
	case known && old == value:
		return
	case known:
		stale = 1
	}
	e.tokens.entered[name] = value
	e.learnMore([]*messages.ServerSpec{enteredSpec(name, value)}, stale)
}

// learnTokens lets the scrubber know of tokens before they are used.
func (e *Engine) learnTokens(server string, secrets []string) {
	e.tokens.mu.Lock()
	defer e.tokens.mu.Unlock()
	if e.tokens.byServer == nil {
		e.tokens.byServer = map[string][]string{}
	}
	before := e.tokens.byServer[server]
	e.tokens.byServer[server] = secrets
	e.learnMore(loginSpecs(server, lacking(before, secrets)), len(lacking(secrets, before)))
}

// lacking are those of all that list has not.
func lacking(list, all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(list, one) })
}
