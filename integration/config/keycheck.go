package config

import (
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/integration/tracelog"
)

// checkPattern takes the patterns of [path.Match].
func checkPattern(text string) error {
	if _, err := path.Match(text, ""); err != nil {
		return fmt.Errorf("%s is no pattern; use *, ? and [a-z]", quote(text))
	}
	return nil
}

// checkHost takes what stands in the Host header of a request, without its port.
func checkHost(text string) error {
	host := text
	if h, _, err := net.SplitHostPort(text); err == nil {
		host = h
	}
	switch {
	case strings.Contains(text, "*"):
		return fmt.Errorf("%s is a pattern, and names are compared whole; write each name, such as mcp.example.com", quote(text))
	case host == "", strings.ContainsAny(text, "/\\@?# \t,"), strings.Contains(host, ":") && net.ParseIP(strings.Trim(host, "[]")) == nil:
		return fmt.Errorf("%s is no name of a host; write it without http:// and a path, such as mcp.example.com", quote(text))
	}
	return nil
}

// checkOrigin takes what browsers send as Origin.
func checkOrigin(text string) error {
	scheme, host, ok := strings.Cut(strings.TrimSuffix(text, "/"), "://")
	switch {
	case strings.Contains(text, "*"):
		return fmt.Errorf("%s is a pattern, and origins are compared whole; write each origin, such as https://example.com", quote(text))
	case text != "null" && (!ok || scheme == "" || host == "" || strings.ContainsAny(host, "/\\@?# \t,")):
		return fmt.Errorf("%s is no origin; write scheme and host, such as https://example.com", quote(text))
	}
	return nil
}

// checkListen takes a port, or an address with one.
func checkListen(text string) error {
	port := text
	if _, p, err := net.SplitHostPort(text); err == nil {
		port = p
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s is no PORT and no HOST:PORT; use a number up to 65535, such as 9464 or 127.0.0.1:9464", quote(text))
	}
	return nil
}

func checkTraceFilter(text string) error {
	_, err := tracelog.ParseFilter([]string{text})
	return err
}
