package attach

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/regular"
	"github.com/metamcp/metamcp/integration/safename"
)

// Where hosts announce themselves.
const (
	HostsDir   = "hosts" // in the state folder
	InfoSuffix = ".json"
	// SocketSuffix is of Unix sockets; pipes are in no folder.
	SocketSuffix = ".sock"
	// maxInfo bounds the file of a host: who reads it did not write it.
	maxInfo = 1 << 20
)

// HostInfo is what a running host says of itself on disk.
type HostInfo struct {
	Name    string    `json:"name"` // unique among those that run with this state folder
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Configs []string  `json:"configs"`
	Socket  string    `json:"socket"` // path of the Unix socket, or name of the pipe
	// Shared says that clients may attach; there is one such host for a state
	// folder and a configuration.
	Shared bool `json:"shared,omitempty"`
	// Attach is the setting of that name in the configuration of a shared host.
	Attach string `json:"attach,omitempty"`
	// Manager is who keeps a shared host running, such as "systemd"; "": nobody.
	Manager string `json:"manager,omitempty"`
	// HTTP is the URL at which a shared host serves clients over HTTP; "": nowhere.
	HTTP string `json:"http,omitempty"`
	// Flags are those that the command line of a shared host had, --name=value,
	// without the configuration files: the next host gets them too.
	Flags []string `json:"flags,omitempty"`
	// Log is the file of its log; "": it logs to stderr.
	Log string `json:"log,omitempty"`
}

// Read returns what is announced by a file of a folder of hosts. Anything that
// is not the file of a host is an error, and stays where it is.
func Read(dir, file string) (*HostInfo, error) {
	path := filepath.Join(dir, file)
	if info, err := os.Lstat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() || info.Size() > maxInfo {
		return nil, fmt.Errorf("%s is not the file of a host", path)
	}
	text, _, err := regular.Read(path, maxInfo)
	if err != nil {
		return nil, err
	}
	var h HostInfo
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("%s is not the file of a host: %w", path, err)
	}
	if h.Name == "" || safename.SafeName(h.Name)+InfoSuffix != file || !Plausible(h.Socket, h.Name) {
		return nil, fmt.Errorf("%s is not the file of a host", path)
	}
	return &h, nil
}

// Find returns the shared hosts that are announced in a state folder for these
// configuration files, the newest first. Some may be dead: a connection tells.
func Find(stateDir string, configs []string) []HostInfo {
	var found []HostInfo
	for _, e := range announcements(stateDir) {
		if !strings.HasSuffix(e.Name(), InfoSuffix) {
			continue
		}
		if h, err := Read(filepath.Join(stateDir, HostsDir), e.Name()); err == nil && h.Shared && SameFiles(h.Configs, configs) {
			found = append(found, *h)
		}
	}
	slices.SortFunc(found, func(a, b HostInfo) int { return b.Started.Compare(a.Started) })
	return found
}

// announcements are the files in a state folder's folder of hosts. Where that is not
// there nobody announced anything, and where others can write to it nobody is believed.
func announcements(stateDir string) []os.DirEntry {
	dir := filepath.Join(stateDir, HostsDir)
	if CheckShown(dir) != nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	return entries
}

// SameFiles tells whether two lists of configuration files are the same ones in
// the same order, whichever way leads to them.
func SameFiles(a, b []string) bool {
	return slices.EqualFunc(a, b, func(x, y string) bool {
		if x == y {
			return true
		}
		one, err := os.Stat(x)
		if err != nil {
			return false
		}
		two, err := os.Stat(y)
		return err == nil && os.SameFile(one, two)
	})
}

// Readable tells whether configuration files may be those of a host: one that
// can be read only once, such as a pipe, is nobody else's.
func Readable(configs []string) bool {
	for _, path := range configs {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}
