package metamcp

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/metamcp/metamcp/integration/front"
)

// publicURL reads http.publicUrl; nil: there is none. What is entered on a page
// below it are secrets, so it is https, or on the loopback.
func publicURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // there need be none
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("http.publicUrl is no address of a host; use one such as https://mcp.example.com")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme != "https" && u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("http.publicUrl begins with %s://, and users enter secrets below it: use https", u.Scheme)
	}
	u.Host = front.WithoutDefaultPort(u.Scheme, u.Host)
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), ""
	return u, nil
}
