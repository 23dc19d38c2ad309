package control

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/metamcp/metamcp/integration/attach"
)

// single is the lock that one host has for a state folder and a configuration.
// The system frees it with the process, so that a dead one is no obstacle.
type single struct {
	lock *flock.Flock // nil: not a shared host
	once sync.Once
}

// claimSingle takes the lock, or says who has it.
func (r registry) claimSingle(configs []string) (*single, error) {
	path := r.singlePath(configs)
	l := flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(os.O_CREATE|os.O_RDWR))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		_ = l.Close() // it holds nothing
		who := "another process"
		if pid := r.awaitHolder(configs); pid != 0 {
			who = "the process " + strconv.Itoa(pid)
		}
		return nil, &Error{
			Code: CodeAlreadyRuns, Message: "a host runs already for this state folder and configuration: " + who + " has " + path,
			Hint: "metamcp host status shows it, metamcp host restart replaces it",
		}
	}
	if err := os.WriteFile(r.holderPath(configs), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		_ = l.Close() // nothing else was done
		return nil, err
	}
	return &single{lock: l}, nil
}

func (s *single) release() {
	s.once.Do(func() {
		if s.lock != nil {
			_ = s.lock.Close() // closing unlocks
		}
	})
}

// singlePath is the lock's file, which stays: who removes such a file may
// remove the next one's.
func (r registry) singlePath(configs []string) string {
	return filepath.Join(r.dir, ".shared-"+attach.Key(configs)+".lock")
}

// holderPath is the file with the process id of who has the lock: a file that
// is locked cannot be read on every system.
func (r registry) holderPath(configs []string) string {
	return strings.TrimSuffix(r.singlePath(configs), ".lock") + ".pid"
}

// holderPatience is how long who took the lock may take to say so, and holderRetry
// the time between two looks.
const (
	holderPatience = time.Second
	holderRetry    = 10 * time.Millisecond
)

// awaitHolder is the process that has the lock; 0: unknown.
func (r registry) awaitHolder(configs []string) int {
	for deadline := time.Now().Add(holderPatience); ; time.Sleep(holderRetry) {
		// The one before may have left its own number.
		if pid := r.singleHolder(configs); pid != 0 && lives(pid) {
			return pid
		}
		if time.Now().After(deadline) {
			return 0
		}
	}
}

// lives tells whether a process may be there.
func lives(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }() // only looked at
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// singleHolder is the process that says that it has the lock; 0: unknown.
func (r registry) singleHolder(configs []string) int {
	text, err := os.ReadFile(r.holderPath(configs))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
