package attach

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

// comingSuffix ends the name of a file that says which process is about to take a
// place: each has its own, so that none takes back what another has announced.
const comingSuffix = ".next"

func comingPrefix(configs []string) string { return ".shared-" + Key(configs) + "." }

func comingPath(stateDir string, configs []string, pid int) string {
	return filepath.Join(stateDir, HostsDir, comingPrefix(configs)+strconv.Itoa(pid)+comingSuffix)
}

// Announce says that a host is about to take the place of another, so that who
// finds none meanwhile waits; over takes that back.
func Announce(stateDir string, configs []string) (over func(), err error) {
	path := comingPath(stateDir, configs, os.Getpid())
	if err := regular.Write(path, nil); err != nil {
		return nil, fmt.Errorf("that a host comes cannot be announced: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil // what stays is not believed for long
}

// Coming tells whether a host is about to take the place of another. Who waits for
// it asks this first, and then whether a host is there: the other way round it may
// have come in between.
func Coming(stateDir string, configs []string) bool {
	found := false
	for _, e := range announcements(stateDir) {
		name, begins := strings.CutPrefix(e.Name(), comingPrefix(configs))
		number, ends := strings.CutSuffix(name, comingSuffix)
		pid, err := strconv.Atoi(number)
		if !begins || !ends || err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it was taken back
		}
		if since := time.Since(info.ModTime()); since >= comingTime || since <= -comingTime {
			_ = os.Remove(comingPath(stateDir, configs, pid)) // or it is looked at again
			continue
		}
		found = found || Lives(pid)
	}
	return found
}

// Lives tells whether a process may be there. One that has ended and that nobody has
// waited for, as happens in containers, is not.
func Lives(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }() // only looked at
	if errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux alone has it
	if err != nil {
		return true
	}
	_, state, found := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return !found || len(state) == 0 || state[0] != 'Z' && state[0] != 'X'
}
