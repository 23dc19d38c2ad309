package control

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/lockedfile"
	"github.com/metamcp/metamcp/integration/regular"
)

// single are the locks that one host has for a state folder and a configuration.
// The system frees them with the process, so that a dead one is no obstacle.
type single struct {
	locks []*flock.Flock // nil: not a shared host
	once  sync.Once
}

// claimSingle takes the locks, or says who has one.
func (r registry) claimSingle(configs []string) (*single, error) {
	s := &single{}
	for _, key := range attach.Keys(configs) {
		if err := r.claimKey(s, key); err != nil {
			s.release()
			return nil, err
		}
	}
	return s, nil
}

// CheckPlace says why no host could take a place in a state folder, apart from another
// one that has it.
func CheckPlace(ctx context.Context, stateDir string, configs []string) error {
	r := newRegistry(stateDir)
	if err := r.prepare(); err != nil {
		return err
	}
	release, err := r.lock(ctx)
	if err != nil {
		return err
	}
	release()
	for _, key := range attach.Keys(configs) {
		for _, path := range []string{r.singlePath(key), r.holderPath(key)} {
			if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
				return fmt.Errorf("%s is no regular file; move it away", path)
			}
		}
	}
	return nil
}

func (r registry) claimKey(s *single, key string) error {
	path := r.singlePath(key)
	l, err := lockedfile.New(path)
	if err != nil {
		return fmt.Errorf("the host: %w", err)
	}
	ok, err := l.TryLock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		_ = l.Close() // it holds nothing
		who := "another process"
		if pid := r.awaitHolder(key); pid != 0 {
			who = "the process " + strconv.Itoa(pid)
		}
		return &Error{
			Code: CodeAlreadyRuns, Message: "a host runs already for this state folder and configuration: " + who + " has " + path,
			Hint: "metamcp host status shows it, metamcp host restart replaces it; where they do not find it, its files were removed: end that process",
		}
	}
	s.locks = append(s.locks, l)
	if err := regular.Write(r.holderPath(key), []byte(strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return fmt.Errorf("who has the lock of the host cannot be written down: %w", err)
	}
	return nil
}

func (s *single) release() {
	s.once.Do(func() {
		for _, l := range s.locks {
			_ = l.Close() // closing unlocks
		}
	})
}

// singlePath is the lock's file, which stays: who removes such a file may
// remove the next one's.
func (r registry) singlePath(key string) string {
	return filepath.Join(r.dir, ".shared-"+key+".lock")
}

// holderPath is the file with the process id of who has the lock: a file that
// is locked cannot be read on every system.
func (r registry) holderPath(key string) string {
	return strings.TrimSuffix(r.singlePath(key), ".lock") + ".pid"
}

// holderPatience is how long who took the lock may take to say so, and holderRetry
// the time between two looks.
const (
	holderPatience = time.Second
	holderRetry    = 10 * time.Millisecond
)

// awaitHolder is the process that has the lock; 0: unknown.
func (r registry) awaitHolder(key string) int {
	for deadline := time.Now().Add(holderPatience); ; time.Sleep(holderRetry) {
		// The one before may have left its own number.
		if pid := r.singleHolder(key); pid != 0 && attach.Lives(pid) {
			return pid
		}
		if time.Now().After(deadline) {
			return 0
		}
	}
}

// singleHolder is the process that says that it has the lock; 0: unknown.
func (r registry) singleHolder(key string) int {
	const most = 64
	text, _, err := regular.Read(r.holderPath(key), most)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
