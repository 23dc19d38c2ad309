// Package netguard makes HTTP requests to addresses that somebody else chose:
// what a name stands for is looked at when it is dialled, so that neither the
// name nor a redirect leads to this machine or to the network behind it.
package netguard

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Guard says who may be spoken with. All fields are required but TLS.
type Guard struct {
	// Allow returns why an address may not be dialled, or nil. It is never given
	// an IPv4 address in IPv6 form.
	Allow func(netip.Addr) error
	TLS   *tls.Config
	// Proxy is that of [http.Transport]. The proxy itself is the user's own,
	// wherever it is; whom it may reach is up to it.
	Proxy func(*http.Request) (*url.URL, error)
}

// Public returns a guard that lets pass what the whole internet can reach.
func Public() *Guard {
	return &Guard{
		Allow: ssrf.New(ssrf.WithAnyPort()).SafeAddr,
		TLS:   &tls.Config{MinVersion: tls.VersionTLS12},
		Proxy: http.ProxyFromEnvironment,
	}
}

// Transport makes a transport of its own, whose connections are not kept.
func (g *Guard) Transport() http.RoundTripper {
	const dialTimeout = 15 * time.Second
	plain := &net.Dialer{Timeout: dialTimeout}
	guarded := &net.Dialer{Timeout: dialTimeout, ControlContext: g.control}
	return throughProxy{g, &http.Transport{
		Proxy: g.Proxy, TLSClientConfig: g.TLS, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, kind, address string) (net.Conn, error) {
			if proxy, ok := ctx.Value(proxyKey{}).(string); ok && proxy == address {
				return plain.DialContext(ctx, kind, address)
			}
			return guarded.DialContext(ctx, kind, address)
		},
	}}
}

// control looks at the address behind a name, after it was resolved.
func (g *Guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return g.Refuse(to.Addr())
}

// RefusedError says that an address may not be spoken with.
type RefusedError struct {
	Addr  netip.Addr
	Cause error
}

// Error returns which address it is.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s is an address of this machine, of a private network or of nobody: %v", e.Addr, e.Cause)
}

// Unwrap returns what the address is.
func (e *RefusedError) Unwrap() error { return e.Cause }

// Refuse says why an address may not be spoken with, or nil; the error is a
// *[RefusedError].
func (g *Guard) Refuse(addr netip.Addr) error {
	if err := g.Allow(addr.Unmap()); err != nil {
		return &RefusedError{addr, err}
	}
	return nil
}

// RefuseHost is [Guard.Refuse] for the host of a URL; a name passes, since it
// is looked at when it is dialled.
func (g *Guard) RefuseHost(host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.Refuse(addr)
	}
	return nil
}

type proxyKey struct{}

// throughProxy tells the dialer which address is that of the proxy.
type throughProxy struct {
	g *Guard
	t *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (p throughProxy) RoundTrip(req *http.Request) (*http.Response, error) {
	if proxy, err := p.g.Proxy(req); err == nil && proxy != nil {
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
