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

// A host must not be a server of its own.
func TestIsAt(t *testing.T) {
	for addr, want := range map[string]map[string]bool{
		"127.0.0.1:0": {
			"http://127.0.0.1:PORT/mcp": true, "http://localhost:PORT/mcp": true, "https://LocalHost:PORT/mcp/?x=y": true, "http://0.0.0.0:PORT/mcp": true,
			"http://[::ffff:127.0.0.1]:PORT/mcp": true, "http://127.0.0.2:PORT/mcp": false, "http://[::1]:PORT/mcp": false,
			"http://127.0.0.1:PORT/": false, "http://127.0.0.1:PORT/mcp/x": false, "http://127.0.0.1:1/mcp": false, "http://127.0.0.1/mcp": false,
			"http://example.com:PORT/mcp": false, "http://192.0.2.7:PORT/mcp": false, "": false, "://": false,
		},
		"0.0.0.0:0": {
			"http://127.0.0.1:PORT/mcp": true, "http://127.0.0.2:PORT/mcp": true, "http://localhost:PORT/mcp": true, "http://[::1]:PORT/mcp": false, "http://192.0.2.7:PORT/mcp": false, "http://127.0.0.1:1/mcp": false,
		},
	} {
		h := NewHTTP(HTTPOptions{Authorize: func(*http.Request) (Principal, error) { return Principal{}, nil }})
		l, err := h.Listen(t.Context(), ListenOptions{Addr: addr, Proven: true})
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(l.Socket().Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if !l.IsAt(l.URL()) {
			t.Errorf("%s is not its own", l.URL())
		}
		for url, want := range want {
			if got := l.IsAt(strings.Replace(url, "PORT", port, 1)); got != want {
				t.Errorf("%s is at %s: %t", addr, url, got)
			}
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
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
