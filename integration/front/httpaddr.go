package front

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// network is what an address is to be listened on with: one of IPv4 is that of IPv4
// alone, though the system would take 0.0.0.0 for all of IPv6 as well.
func network(addr string) string {
	if at, err := netip.ParseAddrPort(addr); err == nil && at.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// reachable is host and port as a client may be told them: where all networks are
// listened on, by an address of this machine that others reach, else by its name.
func reachable(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return a.String()
	}
	port := strconv.Itoa(tcp.Port)
	addrs, err := net.InterfaceAddrs()
	if host := outward(addrs, tcp.IP.To4() != nil); err == nil && host != "" {
		return net.JoinHostPort(host, port)
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		return net.JoinHostPort(name, port)
	}
	return net.JoinHostPort("localhost", port)
}

// IsAt tells whether a URL plainly leads to this listener: by its path and port, at an
// address on which it listens. Names other than localhost are not looked up, so that one
// of a proxy in front is not known.
func (s *Listener) IsAt(rawURL string) bool {
	at, ok := s.socket.Addr().(*net.TCPAddr)
	u, err := url.Parse(rawURL)
	if !ok || err != nil || strings.TrimSuffix(u.Path, "/") != Endpoint {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if port != strconv.Itoa(at.Port) {
		return false
	}
	own, _ := netip.AddrFromSlice(at.IP)
	own = own.Unmap()
	asked, err := netip.ParseAddr(u.Hostname())
	switch asked = asked.Unmap(); {
	case err != nil:
		return strings.EqualFold(u.Hostname(), "localhost") && (own.IsLoopback() || own.IsUnspecified())
	case asked.IsUnspecified(): // who dials that gets the loopback
		return own.IsLoopback() || own.IsUnspecified()
	case own.IsUnspecified():
		return (own.Is6() || asked.Is4()) && (asked.IsLoopback() || ofThisMachine(asked)) // see network
	}
	return asked.WithZone("") == own
}

// ofThisMachine tells whether an address is one of this machine's networks.
func ofThisMachine(ip netip.Addr) bool {
	addrs, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip.AsSlice())
	})
}

// outward is the first address that is no loopback's and no link's, one of IPv4
// first; "": there is none.
func outward(addrs []net.Addr, only4 bool) string {
	var list []net.IP
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (!only4 || n.IP.To4() != nil) {
			list = append(list, n.IP)
		}
	}
	if at := slices.IndexFunc(list, func(ip net.IP) bool { return ip.To4() != nil }); at >= 0 {
		return list[at].String()
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].String()
}
