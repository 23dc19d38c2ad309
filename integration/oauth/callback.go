package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const callback = "/callback"

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
