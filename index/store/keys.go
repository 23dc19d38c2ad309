package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
)

// schemaVersion is what this program writes.
const schemaVersion = 1

// schemaKey is where a store says which version its records have. It is the one
// key that no version may move.
var schemaKey = []byte("meta/schema")

// The prefixes of version 1.
var (
	toolsPrefix  = []byte("v1/tools/")
	modelPrefix  = []byte("v1/model/")
	vectorPrefix = []byte("v1/vector/")
)

// prefixOf returns the prefix of all keys of a version.
func prefixOf(version int) []byte { return []byte("v" + strconv.Itoa(version) + "/") }

// maxPlainName is the longest escaped name that is a key as it is, in bytes.
const maxPlainName = 512

// safe makes any text usable as one part of a key, without collisions: what is
// not plain is escaped, so that neither '/' nor '#' stand in the result, and
// what is long becomes '#' and its SHA-256.
func safe(name string) string {
	if len(name) <= maxPlainName {
		if escaped := url.PathEscape(name); len(escaped) <= maxPlainName {
			return escaped
		}
	}
	sum := sha256.Sum256([]byte(name))
	return "#" + hex.EncodeToString(sum[:])
}

func modelKey(model string) []byte {
	return append(bytes.Clone(modelPrefix), safe(model)...)
}

// under returns the prefix of all records of name below prefix.
func under(prefix []byte, name string) []byte {
	return append(append(bytes.Clone(prefix), safe(name)...), '/')
}

// hashIn reads the hash at the end of a vector's key.
func hashIn(key []byte) (hash [32]byte, ok bool) {
	if len(key) < len(vectorPrefix)+len(hash) {
		return hash, false
	}
	return [32]byte(key[len(key)-len(hash):]), true
}
