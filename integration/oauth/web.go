package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/netguard"
)

const (
	// requestTime bounds one request, its answer included.
	requestTime = 15 * time.Second
	maxBody     = 1 << 20
	maxHops     = 3
)

// addressError is an address that nobody is to be sent to.
type addressError struct{ error }

// Unwrap returns what was wrong with it.
func (r *addressError) Unwrap() error { return r.error }

// web makes the requests that are not for the MCP server itself. Their
// addresses come from what servers say, so they lead to the internet only, or
// to where the MCP server is that the user configured.
type web struct {
	guard  *netguard.Guard
	client *http.Client

	own  []*url.URL // addresses that the user wrote
	once sync.Once
	// loopback and private say that one of own is there.
	loopback, private bool
}

func newWeb(own ...*url.URL) *web {
	w := &web{guard: netguard.Public(), own: own}
	public := w.guard.Allow
	w.guard.Allow = func(addr netip.Addr) error {
		w.once.Do(w.look)
		switch {
		case addr.IsLoopback() && w.loopback, addr.IsPrivate() && w.private:
			return nil
		}
		return public(addr)
	}
	w.client = &http.Client{Transport: w.guard.Transport(), Timeout: requestTime, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		switch {
		case req.Method != http.MethodGet || via[0].Method != http.MethodGet:
			return http.ErrUseLastResponse // what was posted is for nobody else
		case len(via) > maxHops:
			return fmt.Errorf("it redirects more than %d times", maxHops)
		}
		return w.check(req.URL)
	}}
	return w
}

// look finds out where the user's own servers are. That a name stands for the
// loopback is believed of localhost only: whoever has a name can let it stand
// for anything.
func (w *web) look() {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, u := range w.own {
		host := u.Hostname()
		if addr, err := netip.ParseAddr(host); err == nil || isLocalhost(host) {
			w.loopback = w.loopback || err != nil || addr.Unmap().IsLoopback()
			w.private = w.private || err == nil && addr.Unmap().IsPrivate()
			continue
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		private := err == nil && len(addrs) > 0
		for _, a := range addrs {
			private = private && a.Unmap().IsPrivate()
		}
		w.private = w.private || private
	}
}

func isLocalhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// isLoopback says whether a URL names this machine.
func isLoopback(u *url.URL) bool {
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return isLocalhost(u.Hostname())
}

// check says what is wrong with an address before anything is sent there.
func (w *web) check(u *url.URL) error {
	var err error
	switch {
	case u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		err = errors.New("it is no http or https URL")
	case u.Scheme == "http" && !isLoopback(u):
		err = fmt.Errorf("%s is not https", bare(u))
	case u.User != nil:
		err = fmt.Errorf("%s://%s holds a user or a password", u.Scheme, u.Host)
	default:
		err = w.guard.RefuseHost(u.Hostname())
	}
	if err != nil {
		return &addressError{err}
	}
	return nil
}

// address parses and checks one.
func (w *web) address(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, &addressError{errors.New("it is longer than an address may be")}
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, &addressError{errors.New("it is no URL")}
	}
	return u, w.check(u)
}

// bare is a URL without what may be secret.
func bare(u *url.URL) string { return u.Scheme + "://" + u.Host + u.EscapedPath() }

// errNotThere says that an address has no such document.
var errNotThere = errors.New("there is none")

// document reads a JSON object. The error is or wraps errNotThere where the
// server answered with something else.
func (w *web) document(ctx context.Context, address string, into any) error {
	u, err := w.address(address)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	// Servers of 2025-03-26 choose what to say by it.
	req.Header.Set("MCP-Protocol-Version", "2025-11-25")
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if passes(resp.StatusCode) {
		return fmt.Errorf("it answers with HTTP %d", resp.StatusCode)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: HTTP %d", errNotThere, resp.StatusCode)
	}
	return decode(resp, into)
}

// decode reads a JSON object of a bounded size.
func decode(resp *http.Response, into any) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxBody:
		return fmt.Errorf("%w, but more than %d bytes", errNotThere, maxBody)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); strings.Contains(kind, "html") {
		return fmt.Errorf("%w, but a page for people", errNotThere)
	}
	if trimmed := bytes.TrimSpace(body); len(trimmed) == 0 || trimmed[0] != '{' || json.Unmarshal(trimmed, into) != nil {
		return fmt.Errorf("%w, but something that is not the JSON of one", errNotThere)
	}
	return nil
}

// postJSON posts a JSON object and reads one, whatever the status is.
func (w *web) postJSON(ctx context.Context, address string, body, into any) (status int, err error) {
	u, err := w.address(address)
	if err != nil {
		return 0, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(text))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode, decode(resp, into)
}
