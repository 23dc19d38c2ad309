package messages

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// ParseRequestID reads the id of a request that we gave out, which is a whole number
// below 2^53, from what a server says. Servers that turn numbers into strings or floating
// point ("7", 7.0, 1e3) are forgiven. False: no id of ours can be written so.
func ParseRequestID(raw json.RawMessage) (uint64, bool) {
	if n := len(raw); n >= 2 && raw[0] == '"' && raw[n-1] == '"' {
		raw = raw[1 : n-1]
	}
	const longest = 16 // all whole numbers of so many digits fit
	if len(raw) == 0 {
		return 0, false
	}
	var id uint64
	for i, c := range raw {
		if c < '0' || c > '9' {
			return parseFloatID(string(raw))
		}
		if i == longest {
			return 0, false
		}
		id = id*10 + uint64(c-'0')
	}
	return id, true
}

func parseFloatID(s string) (uint64, bool) {
	const longest, exact = 40, 1 << 53
	if len(s) > longest || strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f >= exact || f != math.Trunc(f) {
		return 0, false
	}
	return uint64(f), true
}
