package remote

import (
	"context"
	"errors"
	"net/http"
)

// Authorizer has the bearer tokens for one server. Its methods are called from
// many goroutines at once, and may take as long as their context. An error that
// is or wraps a *[Error] says itself what a breaker is to make of it.
type Authorizer interface {
	// Token returns the token for the next request; "": none, and whether one is
	// needed shows.
	Token(ctx context.Context) (string, error)
	// Refused takes a refusal with 401 or 403 of a request that was sent with
	// token, and says whether there is another one now, with which the request is
	// to be sent again. With neither that nor an error the refusal stands.
	Refused(ctx context.Context, token string, status int, header http.Header) (again bool, err error)
	// LoggedIn says whether there is a login, so that a refusal is one of its token.
	LoggedIn() bool
	// Taken hears that the server took a request that was sent with token.
	Taken(token string)
}

// ours marks a request whose Authorization header was not configured.
type ours struct{}

// do makes a request, authorized where the link has somebody to do that.
func (k *Link) do(req *http.Request) (*http.Response, error) {
	if k.auth == nil {
		return k.l.client.Do(req)
	}
	// A token may run out, and then lack a scope; whoever has the tokens says
	// earlier that there is no better one.
	const most = 3
	ctx := req.Context()
	for tries := 0; ; tries++ {
		token, err := k.auth.Token(ctx)
		if err != nil {
			return nil, notRun(err)
		}
		next := req.Clone(context.WithValue(ctx, ours{}, true))
		if req.GetBody != nil {
			if next.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		if token != "" {
			next.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := k.l.client.Do(next)
		if err == nil && token != "" && resp.StatusCode < http.StatusBadRequest {
			k.auth.Taken(token)
		}
		if err != nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden || tries == most {
			return resp, err
		}
		again, err := k.auth.Refused(ctx, token, resp.StatusCode, resp.Header)
		if err == nil && !again {
			return resp, nil
		}
		drain(resp)
		if err != nil {
			return nil, notRun(err)
		}
	}
}

// notRun is why there is no token, said of a request that was not sent for the lack of
// it, or was refused: the server has not carried it out, whatever kept the token away.
func notRun(err error) error {
	var f *Error
	if !errors.As(err, &f) {
		return err
	}
	own := *f // it may be told of other requests as well
	own.NotRun = true
	return &own
}

// refusedAs returns the status with which a server refused, where that is why a
// request failed; 0: it is not.
func refusedAs(err error) int {
	var f *Error
	if errors.As(err, &f) {
		return f.Status
	}
	return 0
}
