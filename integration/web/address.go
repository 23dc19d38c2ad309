package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// addressInUse is Windows' own number for a port that is taken.
const addressInUse = 10048

// CheckAddr returns the address to listen on: ":7777" and "localhost:7777" mean
// 127.0.0.1. Port 0 is any free one. An address that other machines reach is
// refused.
func CheckAddr(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%q is no address for the page; use a port, such as :7777, or 127.0.0.1:7777", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q is no port for the page; use a number up to 65535, or 0 for any free one", port)
	} else if port = strconv.FormatUint(n, 10); host == "" || strings.EqualFold(host, "localhost") {
		return net.JoinHostPort("127.0.0.1", port), nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Unmap().IsLoopback() || ip.Zone() != "" {
		return "", fmt.Errorf("the page is for this machine alone, and %s is no loopback address; use :%s, and from elsewhere a tunnel: ssh -L %s:127.0.0.1:%s THIS-MACHINE", host, port, port, port)
	}
	return net.JoinHostPort(ip.Unmap().String(), port), nil
}

// listenError says what to do about a port that cannot be had.
func listenError(addr string, err error) error {
	var no syscall.Errno
	if errors.Is(err, syscall.EADDRINUSE) || runtime.GOOS == "windows" && errors.As(err, &no) && no == addressInUse {
		_, port, splitErr := net.SplitHostPort(addr)
		next, parseErr := strconv.Atoi(port)
		if splitErr != nil || parseErr != nil || next >= 65535 {
			next = 7776
		}
		return fmt.Errorf("no web page: %s is taken by another program, perhaps another metamcp host; choose another port, such as --web=:%d, or --web=:0 for any free one: %w", addr, next+1, err)
	}
	return fmt.Errorf("no web page: %w", err)
}
