package oauth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/metamcp/metamcp/integration/netguard"
)

// Error is why there is no token. It holds no token, secret or code.
type Error struct {
	Message string
	// Advice is what to do about it; "": nothing is known that helps.
	Advice string
	// Forbidden says that the server refuses one request with what it would
	// take others; otherwise it refuses all.
	Forbidden bool
	// Cause is an error of the network; nil: somebody refused, and trying again
	// is of no use.
	Cause error

	login   bool   // only a login cures it
	nothing bool   // there is nothing to log in to
	code    string // with which a token endpoint refused
}

// Error returns the message, and the cause where there is one.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

func fail(format string, args ...any) *Error { return &Error{Message: fmt.Sprintf(format, args...)} }

// unreachable makes the error of an HTTP client fit for people: without the
// query of the address, which may be a secret.
func unreachable(what string, err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var refused *addressError
	var inside *netguard.RefusedError
	switch {
	case errors.As(err, &refused):
		return &Error{Message: what + ": " + refused.Error()}
	case errors.As(err, &inside):
		return &Error{Message: what + ": " + inside.Error()}
	}
	e = &Error{Message: what, Cause: err}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		e.Advice = "Its certificate cannot be verified. If it comes from an authority of your own, name the file with that authority's certificate as \"tls\": {\"ca\": …} of the server."
	}
	return e
}

// errorCode is the code of OAuth with which a token endpoint refused; "": it
// said none, or something else happened.
func errorCode(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.code
	}
	return ""
}

// needsLogin says whether only a login cures an error.
func needsLogin(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.login
}

// oneLine is what somebody else said, for people. Secrets that are known to be
// ours are taken out of it.
func oneLine(text string, secrets ...string) string {
	const enough = 300
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	text = strings.ToValidUTF8(text[:min(len(text), enough)], "")
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)), " ")
}
