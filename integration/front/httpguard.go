package front

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// foreign refuses what a page in a browser must not do here: a name that
// somebody made point at this server would make it part of their origin. It
// writes the headers by which browsers let the pages of allowed origins read
// answers.
func (h *HTTP) foreign(w http.ResponseWriter, r *http.Request) *refusal {
	if !h.knownHost(r.Host) {
		return &refusal{
			status: http.StatusForbidden, code: codeInvalid,
			why: "this server is not called that; use its address or localhost, or name the host in the setting http.allowedHosts",
		}
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	if len(origins) > 1 || !h.knownOrigin(origins[0], r) {
		return &refusal{
			status: http.StatusForbidden, code: codeInvalid,
			why: "pages of this origin must not talk to this server; name the origin in the setting http.allowedOrigins if they should",
		}
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origins[0])
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, Retry-After")
	if r.Method == http.MethodOptions {
		header.Set("Access-Control-Allow-Methods", allMethods)
		// Mcp-Param-… are named by the tools, so that what is asked for is allowed.
		if asked := r.Header.Get("Access-Control-Request-Headers"); len(asked) <= 1024 {
			header.Set("Access-Control-Allow-Headers", asked)
		}
		header.Set("Access-Control-Max-Age", "600")
	}
	return nil
}

// knownHost says whether a client may call the server so. Addresses point
// where they say; names are anybody's.
func (h *HTTP) knownHost(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" || h.hosts[name] || h.hosts[strings.ToLower(host)] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.Unmap().IsLoopback() || !h.o.LoopbackOnly)
}

// asSent is an origin as browsers send it, in lower case.
func asSent(origin string) string {
	origin = strings.ToLower(strings.TrimSuffix(origin, "/"))
	if scheme, host, ok := strings.Cut(origin, "://"); ok {
		origin = scheme + "://" + WithoutDefaultPort(scheme, host)
	}
	return origin
}

// WithoutDefaultPort is the host of a URL as browsers call it, in the Host header and
// in origins: they leave out the port that its scheme has anyhow. The scheme is in
// lower case.
func WithoutDefaultPort(scheme, host string) string {
	switch scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	}
	return host
}

// knownOrigin says whether the pages of an origin may talk to this server: its
// own, which has none, and those that the settings name.
func (h *HTTP) knownOrigin(origin string, r *http.Request) bool {
	if h.origin[strings.ToLower(origin)] {
		return true
	}
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

// accepts says which kinds of answers a client takes.
func accepts(r *http.Request) (object, stream bool) {
	given := r.Header.Values("Accept")
	if len(given) == 0 {
		return true, true
	}
	for part := range strings.SplitSeq(strings.Join(given, ","), ",") {
		switch kind, _, _ := mime.ParseMediaType(part); kind { // a broken one is none
		case "*/*":
			object, stream = true, true
		case "application/json", "application/*":
			object = true
		case "text/event-stream", "text/*":
			stream = true
		}
	}
	return object, stream
}
