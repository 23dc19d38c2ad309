package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/metamcp/metamcp/messages"
)

// specHash covers what a running process or session depends on. Of the host's
// own environment it takes only the rule by which the child gets it: the
// values cannot change while the host lives, and a terminal's window id must
// not make every cached tool list stale at the next start.
func specHash(s *messages.ServerSpec, own []pair, more inherit) string {
	b := make([]byte, 0, 512)
	field := func(text string) {
		b = strconv.AppendInt(b, int64(len(text)), 10)
		b = append(append(b, ':'), text...)
	}
	list := func(texts []string) {
		field(strconv.Itoa(len(texts)))
		for _, t := range texts {
			field(t)
		}
	}
	field("metamcp/server/1")
	field(string(s.Transport))
	field(s.Command)
	list(s.Args)
	list(joinPairs(own))
	field(strconv.FormatBool(more.all))
	list(slices.Compact(slices.Sorted(slices.Values(more.names))))
	field(s.Cwd)
	field(s.URL)
	if len(s.Headers) > 0 {
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			field(name)
			field(s.Headers[name])
		}
	}
	if o := s.OAuth; o != nil {
		for _, text := range []string{o.ClientID, o.ClientSecret, o.PrivateKey, o.MetadataURL, o.Issuer, strconv.Itoa(o.RedirectPort), strconv.FormatBool(o.ClientCredentials)} {
			field(text)
		}
		list(o.Scopes)
	} else {
		field("")
	}
	if s.Asks != defaultAsks() { // a child is told when it starts
		field(fmt.Sprintf("asks %+v", s.Asks))
	}
	if s.TLS != nil {
		list([]string{s.TLS.CA, s.TLS.Cert, s.TLS.Key})
	}
	if s.Limits != (messages.Limits{}) {
		field(fmt.Sprintf("limits %+v", s.Limits))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// brokenHash is the hash of an entry that could not be read: its text.
func brokenHash(text []byte) string {
	sum := sha256.Sum256(append([]byte("metamcp/broken/1\n"), text...))
	return hex.EncodeToString(sum[:])
}
