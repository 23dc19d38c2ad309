package attach

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/regular"
)

// Key is a short name for configuration files, for the names of files of their
// host.
func Key(configs []string) string { return keyOf(direct(configs)) }

// Keys are those of all ways to the files that a host has: where they are, and as
// they were named, should a link on the way lead elsewhere by tomorrow.
func Keys(configs []string) []string {
	keys := []string{Key(configs)}
	if named := keyOf(configs); named != keys[0] {
		keys = append(keys, named)
	}
	return keys
}

func keyOf(paths []string) string {
	const enough = 8
	sum := sha256.Sum256([]byte(strings.Join(paths, "\x00")))
	return hex.EncodeToString(sum[:enough])
}

// direct are the files without links on the way to them.
func direct(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = p
		if target, err := filepath.EvalSymlinks(p); err == nil {
			out[i] = target
		}
	}
	return out
}

// comingTime is how long a host that is about to take the place of another is
// believed to be.
const comingTime = 30 * time.Second

func comingPath(stateDir string, configs []string) string {
	return filepath.Join(stateDir, HostsDir, ".shared-"+Key(configs)+".next")
}

// Announce says that a host is about to take the place of another, so that a
// client that finds none meanwhile waits; over takes that back.
func Announce(stateDir string, configs []string) (over func(), err error) {
	path := comingPath(stateDir, configs)
	if err := regular.Write(path, []byte(strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, fmt.Errorf("that a host comes cannot be announced: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil // what stays is not believed for long
}

// Coming tells whether a host is about to take the place of another.
func Coming(stateDir string, configs []string) bool {
	info, err := os.Stat(comingPath(stateDir, configs))
	if err != nil {
		return false
	}
	since := time.Since(info.ModTime())
	return since < comingTime && since > -comingTime
}
