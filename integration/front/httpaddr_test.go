package front

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
)

// 0.0.0.0 is IPv4 alone, and what is printed is an address that a client can use.
func TestAllNetworksOfIPv4(t *testing.T) {
	for addr, want := range map[string]string{"0.0.0.0:1": "tcp4", "127.0.0.1:1": "tcp4", "[::]:1": "tcp", "[::1]:1": "tcp"} {
		if got := network(addr); got != want {
			t.Errorf("%s is listened on with %s, want %s", addr, got, want)
		}
	}
	h := NewHTTP(HTTPOptions{Authorize: func(*http.Request) (Principal, error) { return Principal{}, nil }})
	l, err := h.Listen(t.Context(), ListenOptions{Addr: "0.0.0.0:0", Proven: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if url := l.URL(); strings.Contains(url, "0.0.0.0") || strings.Contains(url, "[::]") || !strings.HasPrefix(url, "http://") {
		t.Errorf("clients are told %s", url)
	}
}

func TestOutwardAddress(t *testing.T) {
	nets := func(list ...string) (out []net.Addr) {
		for _, text := range list {
			ip, n, err := net.ParseCIDR(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, &net.IPNet{IP: ip, Mask: n.Mask})
		}
		return out
	}
	for want, got := range map[string]string{
		"192.0.2.7":   outward(nets("127.0.0.1/8", "fe80::1/64", "2001:db8::7/64", "192.0.2.7/24"), false),
		"2001:db8::7": outward(nets("::1/128", "2001:db8::7/64"), false),
		"":            outward(nets("127.0.0.1/8", "2001:db8::7/64"), true),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
