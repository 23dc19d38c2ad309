package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

// hostState is the state that a host has a server in, for people.
func hostState(s *messages.HostServer) string {
	switch {
	case s.Disabled:
		return stateDisabled
	case s.State == "FAILED" || s.Error != nil && s.Living() == 0:
		return "failed"
	case s.Living() == 0 && s.State == "IDLE":
		return "not started"
	}
	return strings.ToLower(oneLine(s.State))
}

// connections is how many connections with a server live, and how many are being
// ended, which have their places until then.
func connections(s *messages.HostServer) string {
	living := strconv.Itoa(s.Living())
	if n := len(s.Instances) - s.Living(); n > 0 {
		return living + ", " + strconv.Itoa(n) + " ending"
	}
	return living
}

// beingEnded is how many connections of all servers are being ended.
func beingEnded(servers []messages.HostServer) (n int) {
	for i := range servers {
		n += len(servers[i].Instances) - servers[i].Living()
	}
	return n
}

// toolCount is how many of a server's tools may be used.
func toolCount(s *messages.HostServer) string {
	switch {
	case !s.Known:
		return "?"
	case s.Enabled < s.Tools:
		return fmt.Sprintf("%d of %d", s.Enabled, s.Tools)
	}
	return strconv.Itoa(s.Tools)
}
