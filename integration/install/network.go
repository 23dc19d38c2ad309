package install

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const maxRedirects = 5

// network says who may be asked for a bundle. Whoever describes a server chooses
// its address, so it must not be one of this machine or of the network behind
// it.
type network struct {
	allow func(netip.Addr) error
	tls   *tls.Config
	proxy func(*http.Request) (*url.URL, error)
}

func publicNetwork() *network {
	return &network{
		allow: ssrf.New(ssrf.WithAnyPort()).SafeAddr,
		tls:   &tls.Config{MinVersion: tls.VersionTLS12},
		proxy: http.ProxyFromEnvironment,
	}
}

// client makes a client of its own, whose connections are not kept.
func (n *network) client() *http.Client {
	const dialTimeout = 15 * time.Second
	plain := &net.Dialer{Timeout: dialTimeout}
	guarded := &net.Dialer{Timeout: dialTimeout, ControlContext: n.control}
	transport := &http.Transport{
		Proxy: n.proxy, TLSClientConfig: n.tls, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, kind, address string) (net.Conn, error) {
			// The proxy is the user's own, wherever it is; whom it may reach is up to
			// it.
			if proxy, ok := ctx.Value(proxyKey{}).(string); ok && proxy == address {
				return plain.DialContext(ctx, kind, address)
			}
			return guarded.DialContext(ctx, kind, address)
		},
	}
	return &http.Client{Transport: throughProxy{n, transport}, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("it redirects again and again")
		}
		return n.check(req.URL)
	}}
}

// control looks at the address behind a name, after it was resolved.
func (n *network) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return n.refuse(to.Addr())
}

func (n *network) refuse(addr netip.Addr) error {
	if err := n.allow(addr.Unmap()); err != nil {
		return fmt.Errorf("%s is an address of this machine, of a private network or of nobody: %w", addr, err)
	}
	return nil
}

// check refuses an address that should not even be given to a proxy.
func (n *network) check(u *url.URL) error {
	switch {
	case u.Scheme != "https":
		return fmt.Errorf("%s is not https", u.Redacted())
	case u.User != nil:
		return errors.New("it holds a user or a password")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return n.refuse(addr)
	}
	return nil
}

type proxyKey struct{}

// throughProxy tells the dialer which address is that of the proxy.
type throughProxy struct {
	n *network
	t *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (p throughProxy) RoundTrip(req *http.Request) (*http.Response, error) {
	if proxy, err := p.n.proxy(req); err == nil && proxy != nil {
		port := proxy.Port()
		if port == "" {
			port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
		}
		if port == "" {
			port = "80"
		}
		req = req.WithContext(context.WithValue(req.Context(), proxyKey{}, net.JoinHostPort(proxy.Hostname(), port)))
	}
	return p.t.RoundTrip(req)
}

// download writes a file of at most so many bytes and holds it to its hash, 64
// hexadecimal digits.
func (n *network) download(ctx context.Context, address, file string, most int64, hash string) (err error) {
	u, err := url.Parse(address)
	if err == nil {
		err = n.check(u)
	}
	if err != nil {
		return fail(Invalid, "", "the bundle cannot be downloaded: %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	client := n.client()
	answer, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // it repeats the address
		}
		return &Error{Reason: Failed, Message: fmt.Sprintf("the bundle cannot be downloaded from %s: %v", u.Host, err), Cause: err}
	}
	defer func() { _ = answer.Body.Close() }() // what counts was read
	tooLarge := fail(BadBundle, "", "the bundle is larger than %d MiB", most>>20)
	switch {
	case answer.StatusCode == http.StatusNotFound, answer.StatusCode == http.StatusGone:
		return fail(NotFound, "", "there is no bundle at %s: %s", u.Redacted(), answer.Status)
	case answer.StatusCode != http.StatusOK:
		return fail(Failed, "", "the bundle cannot be downloaded from %s: %s", u.Host, answer.Status)
	case answer.ContentLength > most:
		return tooLarge
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return onDisk("writing the bundle", err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = onDisk("writing the bundle", closeErr)
		}
	}()
	sum := sha256.New()
	read := &readErrors{r: answer.Body}
	got, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(read, most+1))
	switch {
	case read.err != nil:
		return &Error{Reason: Failed, Message: fmt.Sprintf("the download from %s broke off after %d bytes: %v", u.Host, got, read.err), Hint: "Try again.", Cause: read.err}
	case err != nil:
		return onDisk("writing the bundle", err)
	case got > most:
		return tooLarge
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != hash {
		return fail(BadIntegrity, "It was changed since it was published, or on the way. Do not use it.", "the bundle has the SHA-256 %s and not %s", is, hash)
	}
	return nil
}

// readErrors remembers that it was the reading that failed.
type readErrors struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (r *readErrors) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
