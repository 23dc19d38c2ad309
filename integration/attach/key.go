package attach

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Key is a short name for configuration files, for the names of files of their
// host.
func Key(configs []string) string {
	const enough = 8
	sum := sha256.Sum256([]byte(strings.Join(direct(configs), "\x00")))
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
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, err
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
