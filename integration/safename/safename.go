// Package safename makes names of servers safe for file names on every
// platform.
package safename

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxLen is the longest result in bytes, short enough for any file system
// together with an extension.
const maxLen = 80

// hashLen is the number of hexadecimal digits of a suffix: 64 bits, far more
// than the names on one machine can make collide by chance.
const hashLen = 16

// separator begins a suffix. A name that is kept as it is never holds it, so a
// kept name and a name with a suffix are never the same.
const separator = "@"

// SafeName returns a file name for a server's name: not empty, at most 80
// bytes of letters, digits, '-', '_', '.' and '@', without a leading dot.
//
// A name of lower-case ASCII letters, digits, '-', '_' and inner dots is kept
// as it is. Any other name has what is not allowed replaced by '_' and gets a
// hash of the whole name appended, so that two different names never share a
// file: names that differ only in case (file systems may ignore it), reserved
// names of Windows, long names, names with path separators. The result for a
// name never changes between versions, since files are found again by it.
func SafeName(name string) string {
	if plain(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	suffix := separator + hex.EncodeToString(sum[:])[:hashLen]
	base := make([]byte, 0, maxLen)
	for i := 0; i < len(name) && len(base) < maxLen-len(suffix); i++ {
		c := name[i]
		if !kept(c) && (c < 'A' || c > 'Z') || c == '.' && i == 0 {
			c = '_'
		}
		base = append(base, c)
	}
	return string(base) + suffix
}

func kept(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

func plain(name string) bool {
	if name == "" || len(name) > maxLen || name[0] == '.' || name[len(name)-1] == '.' {
		return false
	}
	for i := 0; i < len(name); i++ {
		if !kept(name[i]) {
			return false
		}
	}
	return !reserved(name)
}

// reserved reports whether Windows takes name for a device, with or without an
// extension.
func reserved(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "con", "prn", "aux", "nul", "conin$", "conout$":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt")
}
