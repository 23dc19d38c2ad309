package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/clienttls"
	"github.com/metamcp/metamcp/messages"
)

// The defaults of [Options].
const (
	DefaultMaxMessage = 64 << 20
	DefaultMaxQueue   = 64 << 20
)

// Options say how servers are reached. Parse is required.
type Options struct {
	// Parse takes one message apart into the members of f, which may slice it.
	// It returns an error for what is no JSON-RPC message. It is called from many
	// goroutines at once.
	Parse func(text []byte, f *messages.Frame) error
	// MaxMessage is the longest message that passes, in bytes; 0 means 64 MiB.
	MaxMessage int
	// MaxQueue is how many bytes may be on their way to one server before Send
	// refuses more; 0 means 64 MiB.
	MaxQueue int
	// Reconnect is how long to wait before a stream that broke is opened again,
	// where the server does not say; it doubles with each failure up to 30 s; 0
	// means 1 s.
	Reconnect time.Duration
	// Transport makes the requests; nil: one with the proxy of the environment
	// (HTTP_PROXY, HTTPS_PROXY, NO_PROXY) and the system's certificates, to which
	// SSL_CERT_FILE and SSL_CERT_DIR add.
	Transport http.RoundTripper
	// Authorize returns who has the tokens for a server; nil: nobody. It is not
	// asked about one whose configuration has an Authorization header. It may be
	// nil itself.
	Authorize func(spec *messages.ServerSpec) Authorizer
	// Log takes what has no other way to people; nil: the default one.
	Log *slog.Logger
	// hold is how long the first requests wait for the stream in which a server says what
	// it has changed; 0 means 250 ms.
	hold time.Duration
	// deaf is how long such a stream may be missing before the lists are read anew for that;
	// 0 means twice Reconnect, so that one which is opened again at once costs nothing.
	deaf time.Duration
}

// Launcher opens links. It is safe for any goroutine.
type Launcher struct {
	o      Options
	client *http.Client
}

// NewLauncher checks the options and fills in the defaults.
func NewLauncher(o Options) (*Launcher, error) {
	if o.Parse == nil {
		return nil, errors.New("remote: Options.Parse is missing: nobody could read what the servers say")
	}
	if o.MaxMessage <= 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = DefaultMaxQueue
	}
	if o.Reconnect <= 0 {
		o.Reconnect = time.Second
	}
	if o.hold <= 0 {
		o.hold = 250 * time.Millisecond
	}
	if o.deaf <= 0 {
		o.deaf = 2 * o.Reconnect
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	return &Launcher{o: o, client: &http.Client{Transport: o.Transport, CheckRedirect: sameOrigin}}, nil
}

func newTransport() *http.Transport {
	const (
		dial      = 10 * time.Second
		keepAlive = 30 * time.Second
		idle      = 90 * time.Second
		silence   = 30 * time.Second
		ping      = 10 * time.Second
	)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: proxyRefused,
		DialContext:            (&net.Dialer{Timeout: dial, KeepAlive: keepAlive}).DialContext,
		TLSHandshakeTimeout:    dial,
		ForceAttemptHTTP2:      true,
		// One connection carries all requests, and the next start too: one that died
		// without a word, as behind a router that forgot it, has to be found out.
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: ping},
		MaxIdleConnsPerHost:    maxPosts,
		IdleConnTimeout:        idle,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// proxyRefused is the error where a proxy does not let a connection through: its answer
// is none of the server's.
func proxyRefused(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	f := &Error{Said: "the HTTP proxy on the way answered " + resp.Status, NotRun: true}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusProxyAuthRequired:
		f.Status, f.Said = resp.StatusCode, "the HTTP proxy on the way wants to know who asks"
	default:
		f.Advice = "The proxy does not let it through, whatever the server says: check HTTPS_PROXY, ask whoever runs the proxy, or name the host in NO_PROXY."
	}
	return f
}

// sameOrigin follows a redirect only where the request stays what it is and the
// origin too, the step from http to https on their own ports apart: an answer of
// a server must not make its host send credentials, or anything, to somewhere
// else, and at another port may be somebody else.
func sameOrigin(req *http.Request, via []*http.Request) error {
	const most = 5
	first := via[0]
	refuse := func(said string) error {
		// The other statuses may be what follows upon something done.
		status := req.Response.StatusCode
		notRun := status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
		return &Error{Said: said, NotRun: notRun, Advice: "If " + bare(req.URL) + " is where the server is now, put that into its url in the configuration; nothing was sent there."}
	}
	switch {
	case len(via) > most:
		return &Error{Said: fmt.Sprintf("it redirects more than %d times", most), NotRun: true, Advice: "It may lead in circles: put the address at which the server answers into its url in the configuration."}
	case req.Method != first.Method:
		return refuse("it redirects to " + bare(req.URL) + " in a way that drops the request")
	case !sameHost(first.URL, req.URL):
		return refuse("it redirects to " + bare(req.URL) + ", which is not where it was configured to be")
	}
	if req.URL.Scheme != first.URL.Scheme && first.Context().Value(ours{}) != nil {
		req.Header.Del("Authorization") // a token is for one origin
	}
	return nil
}

// sameHost says whether to is of the origin of from: scheme, host and port. The
// step from http at its port to https at its own stays with the host too.
func sameHost(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) {
		return false
	}
	if from.Scheme == to.Scheme {
		return port(from) == port(to)
	}
	return from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443"
}

// port is that of a URL, that of its scheme where it has none.
func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// bare is a URL without what may be secret.
func bare(u *url.URL) string {
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// with returns a launcher for one server alone, whose connections use the files
// that it is configured with. They are read now: a new connection finds new ones.
func (l *Launcher) with(spec *messages.ServerSpec) (*Launcher, error) {
	transport, ok := l.o.Transport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("the way to servers that was given to metamcp takes no tls of %q", spec.Name)
	}
	transport = transport.Clone()
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if err := clienttls.Use(transport.TLSClientConfig, spec); err != nil {
		return nil, err
	}
	return &Launcher{o: l.o, client: &http.Client{Transport: transport, CheckRedirect: sameOrigin}}, nil
}

// Close ends the connections that are kept for the next request. Links that are
// open are not ended. One whose server has certificates of its own closes its
// connections itself.
func (l *Launcher) Close() { l.client.CloseIdleConnections() }

// Launch makes a link to spec's URL. Nothing is sent yet: whether the server is
// there shows with the first line. The error says that the URL is none.
//
// The caller must end the link with [Link.CloseInput] or [Link.Signal] and call
// [Link.Release].
func (l *Launcher) Launch(spec *messages.ServerSpec, ear Ear) (*Link, error) {
	base, err := url.Parse(spec.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("the url of %q is no http or https URL", spec.Name)
	}
	own := l
	if spec.TLS != nil {
		if own, err = l.with(spec); err != nil {
			return nil, err
		}
	}
	k := newLink(own, spec, base, ear)
	k.own = own != l
	if l.o.Authorize != nil && !spec.HasAuthorization() {
		k.auth = l.o.Authorize(spec)
	}
	if spec.Transport == messages.TransportSSE {
		k.useSSE()
	}
	return k, nil
}
