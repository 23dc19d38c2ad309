package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/integration/attach"
)

// maxProbes is how many hosts are tried at a time.
const maxProbes = 8

// Hosts returns the hosts that run with a state folder, the newest first, and
// removes what dead ones left there. No hosts, and no such folder, is no error; one that
// may hold anybody's is, see [attach.CheckShown].
func Hosts(stateDir string) ([]HostInfo, error) {
	if stateDir == "" {
		return nil, &Error{Code: CodeNoHost, Message: "there is no state folder in which hosts could be found", Hint: "name one with --state-dir"}
	}
	r := newRegistry(stateDir)
	var entries []os.DirEntry
	err := attach.CheckShown(r.dir)
	if err == nil {
		entries, err = os.ReadDir(r.dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &Error{Code: CodeNoHost, Message: "the hosts cannot be listed: " + err.Error(), Cause: err}
	}
	ctx := context.Background() // each step has a bound of its own
	var mu sync.Mutex
	var alive []HostInfo
	var gone, orphans []string
	var probes sync.WaitGroup
	slots := make(chan struct{}, maxProbes)
	for _, e := range entries {
		if base, ok := strings.CutSuffix(e.Name(), socketSuffix); ok && !taken(filepath.Join(r.dir, base+infoSuffix)) {
			orphans = append(orphans, base) // its host was killed before it could announce itself, or is about to
		}
		if !strings.HasSuffix(e.Name(), infoSuffix) {
			continue
		}
		h, err := r.read(e.Name())
		if err != nil {
			continue // not a host's, being written, or removed just now
		}
		slots <- struct{}{}
		probes.Go(func() {
			defer func() { <-slots }()
			lost := dead(ctx, h.Socket)
			mu.Lock()
			defer mu.Unlock()
			if lost {
				gone = append(gone, h.Name)
			} else {
				alive = append(alive, *h)
			}
		})
	}
	probes.Wait()
	r.sweepAll(ctx, gone, orphans)
	slices.SortFunc(alive, func(a, b HostInfo) int {
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return alive, nil
}

// sweepAll removes what dead hosts left. Each is tried once more under the
// lock, since another may have taken the name meanwhile. Where the lock is not
// to be had it is left to the next who lists.
func (r registry) sweepAll(ctx context.Context, names, orphans []string) {
	if len(names)+len(orphans) == 0 {
		return
	}
	release, err := r.lock(ctx)
	if err != nil {
		return
	}
	defer release()
	for _, name := range names {
		r.sweep(ctx, name)
	}
	for _, base := range orphans {
		if !taken(filepath.Join(r.dir, base+infoSuffix)) {
			removeDeadSocket(ctx, filepath.Join(r.dir, base+socketSuffix))
		}
	}
}

// Find returns the running host with a name or a process id; with "" the only
// one that runs. Its errors are of type *[Error] and name the hosts to choose
// from; a name counts before a process id.
func Find(stateDir, nameOrPID string) (HostInfo, error) {
	hosts, err := Hosts(stateDir)
	if err != nil {
		return HostInfo{}, err
	}
	if nameOrPID == "" && len(hosts) == 1 {
		return hosts[0], nil
	}
	switch {
	case len(hosts) == 0:
		return HostInfo{}, &Error{
			Code: CodeNoHost, Message: "no host runs with the state folder " + stateDir,
			Hint: "a client starts one of its own; one that clients share: metamcp host start; another folder is named with --state-dir",
		}
	case nameOrPID == "":
		return HostInfo{}, &Error{
			Code: CodeSeveralHosts, Message: fmt.Sprintf("%d hosts run", len(hosts)),
			Hint: "choose one by name or process id: " + listed(hosts),
		}
	}
	for _, h := range hosts {
		if h.Name == nameOrPID {
			return h, nil
		}
	}
	for _, h := range hosts {
		if strconv.Itoa(h.PID) == nameOrPID {
			return h, nil
		}
	}
	return HostInfo{}, &Error{
		Code: CodeHostNotFound, Message: fmt.Sprintf("no running host has the name or process id %q", nameOrPID),
		Hint: "there are: " + listed(hosts),
	}
}

// listed names hosts for a message.
func listed(hosts []HostInfo) string {
	const most = 20
	var words []string
	for i, h := range hosts {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(hosts)-most))
			break
		}
		words = append(words, fmt.Sprintf("%s (pid %d)", h.Name, h.PID))
	}
	return strings.Join(words, ", ")
}
