package proctree

import (
	"strconv"
	"strings"
)

// MarkerVar is the environment variable that every process of a child's tree
// inherits.
const MarkerVar = "METAMCP_TREE"

// Marker is the value of [MarkerVar] for one child of one host.
func Marker(hostID string, instance uint64) string {
	return hostID + "." + strconv.FormatUint(instance, 10)
}

// OfHost reports whether marker belongs to any child of that host.
func OfHost(marker, hostID string) bool {
	return hostID != "" && len(marker) > len(hostID) && marker[len(hostID)] == '.' && strings.HasPrefix(marker, hostID)
}
