package limits

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

	"github.com/metamcp/metamcp/messages"
)

// Groups makes control groups (version 2) for children, where the system has handed
// the group that this host is in over to it: systemd does so for a unit with
// Delegate=yes. It is safe for any goroutine.
type Groups struct {
	// where control groups are mounted, and the process file system
	mount, proc string
	// delegated tells whether a group was handed over to this user.
	delegated func(dir string) bool

	once sync.Once
	dir  string // what was handed over; "": nothing was
	why  error  // where it is ""
}

// NewGroups looks at this machine, once the first group is wanted.
func NewGroups() *Groups {
	return &Groups{mount: "/sys/fs/cgroup", proc: "/proc", delegated: handedOver}
}

// hostLeaf is the group into which the host and its children without limits go: a
// group that has others below it may hold no process itself.
const hostLeaf = "metamcp-host"

// errNotDelegated says why no group can be made.
var errNotDelegated = errors.New("the control group that this host is in (version 2) was not handed over to it")

// Open makes a group for a child that is about to start, of a name that no other has.
// It is nil where there is nothing to bound, or where memory alone is to be bounded and
// no group can be made: [ApplyTo] bounds that in another way then. The caller closes it
// once nothing lives in it.
func (g *Groups) Open(name string, l messages.Limits) (*Group, error) {
	if l.MemoryMB == 0 && l.Processes == 0 {
		return nil, nil //nolint:nilnil // nothing is to be bounded
	}
	g.once.Do(func() { g.dir, g.why = g.prepare() })
	if g.why != nil {
		if l.Processes == 0 {
			return nil, nil //nolint:nilnil // see above
		}
		return nil, fmt.Errorf("limits.processes needs a control group for the server: %w", g.why)
	}
	group := &Group{path: filepath.Join(g.dir, name)}
	if err := group.fill(l); err != nil {
		return nil, errors.Join(err, group.Close())
	}
	return group, nil
}

// prepare finds the group that was handed over, moves all that is in it into a group
// of its own, and has the kernel bound memory and processes of the others.
func (g *Groups) prepare() (string, error) {
	own := ownGroup(g.proc)
	if own == "" {
		return "", errNotDelegated
	}
	dir := filepath.Join(g.mount, own)
	if !g.delegated(dir) {
		return "", errNotDelegated
	}
	leaf := filepath.Join(dir, hostLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // G301: as systemd makes them
		return "", fmt.Errorf("a control group for the host: %w", err)
	}
	const most = 100 // times that somebody forked meanwhile
	for range most {
		there, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return "", fmt.Errorf("the processes of the host's control group: %w", err)
		}
		if len(there) == 0 {
			break
		}
		for pid := range strings.Lines(string(there)) {
			if err := put(filepath.Join(leaf, "cgroup.procs"), strings.TrimSpace(pid)); err != nil && !errors.Is(err, syscall.ESRCH) {
				return "", fmt.Errorf("move the process %s within the host's control group: %w", strings.TrimSpace(pid), err)
			}
		}
	}
	if err := put(filepath.Join(dir, "cgroup.subtree_control"), "+memory +pids"); err != nil {
		return "", fmt.Errorf("the kernel does not bound memory and processes in the host's control group: %w", err)
	}
	return dir, nil
}

// ownGroup is the path, below the mount, of the group that this host is in or was
// handed over; "": it has none of version 2.
func ownGroup(proc string) string {
	text, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = filepath.Clean("/" + path)
			if filepath.Base(path) == hostLeaf {
				path = filepath.Dir(path)
			}
			return path
		}
	}
	return ""
}

// Group is the control group of one child and of all that it starts. The methods of
// nil, which is none, do nothing.
type Group struct{ path string }

// fill makes the group, with its limits.
func (c *Group) fill(l messages.Limits) error {
	if err := os.Mkdir(c.path, 0o755); err != nil { //nolint:gosec // G301: as systemd makes them
		return fmt.Errorf("a control group for the server: %w", err)
	}
	set := func(file, value string) error {
		if err := put(filepath.Join(c.path, file), value); err != nil {
			return fmt.Errorf("%s of the server's control group could not be set: %w", file, err)
		}
		return nil
	}
	if l.MemoryMB > 0 {
		if err := set("memory.max", strconv.FormatInt(int64(l.MemoryMB)<<20, 10)); err != nil {
			return err
		}
		// A kernel may have no swap, and then no file for it.
		if err := set("memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		// Half a tree would hang.
		if err := set("memory.oom.group", "1"); err != nil {
			return err
		}
	}
	if l.Processes > 0 {
		if err := set("pids.max", strconv.Itoa(l.Processes)); err != nil {
			return err
		}
	}
	return nil
}

// Alive tells whether anything lives in the group.
func (c *Group) Alive() bool { return c.event("cgroup.events", "populated") > 0 }

// OutOfMemory tells whether the kernel has killed what is in the group since it had
// used its memory up.
func (c *Group) OutOfMemory() bool { return c.event("memory.events", "oom_kill") > 0 }

// Refused is how many processes and threads were not started since there were enough.
func (c *Group) Refused() uint64 { return c.event("pids.events", "max") }

func (c *Group) event(file, name string) uint64 {
	if c == nil {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(c.path, file))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64) // 0 where the kernel writes something new
			return n
		}
	}
	return 0
}

// Kill ends whoever is in the group, also those whom nobody finds in the process
// table.
func (c *Group) Kill() {
	if c != nil {
		_ = put(filepath.Join(c.path, "cgroup.kill"), "1") // older kernels than 5.14 have none
	}
}

// Close gives the group up. Who was just killed may take a moment to go, for which it
// waits, a second at most.
func (c *Group) Close() error {
	if c == nil {
		return nil
	}
	const patience, again = time.Second, 5 * time.Millisecond
	for deadline := time.Now().Add(patience); ; time.Sleep(again) {
		switch err := os.Remove(c.path); {
		case err == nil || errors.Is(err, os.ErrNotExist):
			return nil
		case !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline):
			return fmt.Errorf("the control group %s cannot be removed: %w", c.path, err)
		}
	}
}

// put changes a file that is there.
func put(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
