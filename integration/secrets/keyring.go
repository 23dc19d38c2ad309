package secrets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	zalando "github.com/zalando/go-keyring"
)

// keyring is that of the operating system for one state folder.
type keyring interface {
	get(name string) (string, error) // ErrNotFound
	set(name, value string) error
	remove(name string) error // ErrNotFound
}

// ErrNoKeyring says that this machine, or this session of its user, has none.
var ErrNoKeyring = errors.New("there is no keyring here")

var errHung = fmt.Errorf("it did not answer within %v; unlock it", patience)

// patience is how long a keyring may take; a locked one asks its user first.
const patience = 30 * time.Second

// system is what zalando/go-keyring reaches: the Keychain, the Credential
// Manager, the Secret Service of D-Bus.
type system struct {
	service string
	hung    *outstanding
}

// outstanding is the call that a keyring has not answered, nil: there is none. Until
// it does it is not asked anything else: each call may prompt the user once more, and
// none can be interrupted.
type outstanding struct{ atomic.Pointer[chan struct{}] }

// hung is for all who ask the system's keyring in this process, since each load of a
// configuration opens the store anew.
var hung outstanding

func systemKeyring(stateDir string) keyring {
	// Two state folders have secrets of the same name.
	return system{"metamcp " + stateDir, &hung}
}

// hangs says whether the keyring still owes an answer.
func (o *outstanding) hangs() bool {
	returned := o.Load()
	if returned == nil {
		return false
	}
	select {
	case <-*returned:
		return false
	default:
		return true
	}
}

// reachable keeps the library from starting a bus of its own where there is
// none.
func reachable() bool {
	switch runtime.GOOS {
	case "darwin", "windows":
		return true
	}
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return true
	}
	run := os.Getenv("XDG_RUNTIME_DIR")
	if run == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(run, "bus"))
	return err == nil
}

// ask calls the keyring and does not wait for one that hangs: the call cannot
// be interrupted, and its goroutine ends with it.
func ask[T any](hung *outstanding, call func() (T, error)) (T, error) {
	return askWithin(patience, hung, call)
}

func askWithin[T any](most time.Duration, hung *outstanding, call func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if !reachable() {
		return none, ErrNoKeyring
	}
	if hung.hangs() {
		return none, errHung
	}
	done, returned := make(chan answer, 1), make(chan struct{})
	go func() {
		defer close(returned)
		value, err := call()
		done <- answer{value, err}
	}()
	limit := time.NewTimer(most)
	defer limit.Stop()
	select {
	case a := <-done:
		if errors.Is(a.err, zalando.ErrNotFound) {
			return none, ErrNotFound
		}
		return a.value, a.err
	case <-limit.C:
		hung.Store(&returned)
		return none, errHung
	}
}

func (s system) get(name string) (string, error) {
	return ask(s.hung, func() (string, error) { return zalando.Get(s.service, name) })
}

func (s system) set(name, value string) error {
	_, err := ask(s.hung, func() (struct{}, error) { return struct{}{}, zalando.Set(s.service, name, value) })
	return err
}

func (s system) remove(name string) error {
	_, err := ask(s.hung, func() (struct{}, error) { return struct{}{}, zalando.Delete(s.service, name) })
	return err
}
