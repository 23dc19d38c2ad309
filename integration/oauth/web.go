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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/clienttls"
	"github.com/metamcp/metamcp/integration/netguard"
	"github.com/metamcp/metamcp/messages"
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

	public  func(netip.Addr) error // why the internet cannot reach an address; nil: it can
	own     []*url.URL             // addresses that the user wrote
	resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)

	mu     sync.Mutex // held while it is looked, so that one looks for all
	ours   places
	looked time.Time // when ours was found out; zero: it was not, or not all of it
}

// places are where the user's own servers are.
type places struct {
	// loopback and private say that one of them is there.
	loopback, private bool
	addrs             []netip.Addr
}

func newWeb(own ...*url.URL) *web {
	w := &web{guard: netguard.Public(), own: own, resolve: net.DefaultResolver.LookupNetIP}
	w.public = w.guard.Allow
	w.guard.Allow = func(addr netip.Addr) error {
		if err := w.public(addr); err != nil && (isReserved(addr) || !w.places().have(addr)) {
			return err
		}
		return nil
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

// trust has requests use the "tls" of the server's entry: its authorities everywhere,
// and its certificate where the server itself is asked. The files are read with each
// request, which are few, so that new ones are found.
func (w *web) trust(spec *messages.ServerSpec, server *url.URL) {
	if spec.TLS != nil {
		w.client.Transport = &trusting{w.guard, spec, server}
	}
}

// trusting makes the requests of a server that has a "tls".
type trusting struct {
	guard  *netguard.Guard
	spec   *messages.ServerSpec
	server *url.URL
}

// RoundTrip implements http.RoundTripper.
func (t *trusting) RoundTrip(req *http.Request) (*http.Response, error) {
	own := *t.guard
	own.TLS = own.TLS.Clone()
	if err := clienttls.Use(own.TLS, t.spec); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as who asks expects of every answer, errors too
		}
		return nil, err
	}
	if req.URL.Scheme != t.server.Scheme || !strings.EqualFold(hostPort(req.URL), hostPort(t.server)) {
		own.TLS.Certificates = nil // who else is asked need not know who we are
	}
	return own.Transport().RoundTrip(req)
}

// places returns where the user's own servers are, as it was a moment ago. What was
// not found out is not taken for an answer: it is looked for again.
func (w *web) places() places {
	const moment = time.Minute
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.looked.IsZero() && time.Since(w.looked) < moment {
		return w.ours
	}
	switch found, all := w.look(); {
	case all:
		w.ours, w.looked = found, time.Now()
	case w.looked.IsZero():
		w.ours = found
	}
	return w.ours
}

// look finds out where the user's own servers are; all says that it was found out
// of each. That a name stands for the loopback is believed of localhost only, and one
// that stands for public addresses too is nowhere else: whoever has a name can let it
// stand for anything.
func (w *web) look() (found places, all bool) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all = true
	for _, u := range w.own {
		host := u.Hostname()
		if isLocalhost(host) {
			found.loopback = true
			continue
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			addr = addr.Unmap()
			found.loopback = found.loopback || addr.IsLoopback()
			found.private = found.private || addr.IsPrivate()
			found.addrs = append(found.addrs, addr)
			continue
		}
		addrs, err := w.resolve(ctx, "ip", host)
		all = all && err == nil
		if err != nil || len(addrs) == 0 {
			continue
		}
		private := true
		for i, a := range addrs {
			addrs[i] = a.Unmap()
			private = private && addrs[i].IsPrivate()
		}
		found.private = found.private || private
		if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return w.public(a) == nil }) {
			found.addrs = append(found.addrs, addrs...)
		}
	}
	return found, all
}

// have says whether an address is where one of the user's own servers is. Another
// one of the same private network is; of networks that are neither public nor private,
// such as that of a tailnet, the very address is.
func (p places) have(addr netip.Addr) bool {
	switch {
	case addr.IsLoopback():
		return p.loopback
	case addr.IsPrivate() && p.private:
		return true
	}
	return slices.Contains(p.addrs, addr)
}

// metadata are the addresses, beside those of the link, at which machines of clouds
// learn their own secrets.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon
	netip.MustParseAddr("fd20:ce::254"),    // Google
}

// isReserved says whether an address is one to which nobody is sent, whatever the user
// wrote.
func isReserved(addr netip.Addr) bool {
	return addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() || slices.Contains(metadata, addr)
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

// decode reads a JSON object of a bounded size, and skips a byte order mark, which
// editors put in front of files.
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
	if trimmed := bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))); len(trimmed) == 0 || trimmed[0] != '{' || json.Unmarshal(trimmed, into) != nil {
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
