package child

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
	"github.com/metamcp/metamcp/integration/childlog"
	"github.com/metamcp/metamcp/integration/limits"
	"github.com/metamcp/metamcp/messages"
)

// The defaults of [Options].
const (
	DefaultMaxLine    = 64 << 20
	DefaultMaxQueue   = 64 << 20
	DefaultWriteStall = 30 * time.Second
)

// Guard keeps the list of trees that must not outlive this host. Its methods
// are called from the goroutines of Launch and Release, may take some
// milliseconds and report their failures elsewhere.
type Guard interface {
	// HostID is the first part of the markers; see [proctree.Marker].
	HostID() string
	// Ready is called before a process is started, and returns when one that
	// carries the host's marker is covered even if this host is killed before
	// it can call Add.
	Ready()
	// Add is called as soon as the process of a tree was started, Remove once
	// nothing is left of the tree.
	Add(pid int, start uint64, marker string)
	Remove(pid int, start uint64)
}

// Options say how children are run. Parse and Logs are required.
type Options struct {
	// Parse takes one line apart into the members of f. The line belongs to
	// the frame, which may slice it. It returns an error for what is no
	// JSON-RPC message. It is called from many goroutines at once.
	Parse func(line []byte, f *messages.Frame) error
	// MaxLine is the longest message that passes, in bytes; 0 means 64 MiB.
	MaxLine int
	// MaxQueue is how many bytes may wait for one child's stdin before Send
	// refuses more; 0 means 64 MiB.
	MaxQueue int
	// WriteStall is how long a child may read nothing while bytes wait for
	// it; 0 means 30 s.
	WriteStall time.Duration
	// Guard learns of every tree; nil: the children may outlive a host that
	// is killed.
	Guard Guard
	// Logs keeps what children say on stderr. There is no default, since only
	// who makes it knows what must be taken out of the lines.
	Logs *childlog.Folder
	// Log takes what Launch and Release cannot return; nil: the default one.
	Log *slog.Logger
}

// Launcher starts children. It is safe for any goroutine.
type Launcher struct {
	o       Options
	hostID  string
	groups  *limits.Groups
	scanner proctree.Scanner
	wide    pipeBudget
	sentry  sentry
}

// NewLauncher checks the options and fills in the defaults.
func NewLauncher(o Options) (*Launcher, error) {
	if o.Parse == nil {
		return nil, errors.New("child: Options.Parse is missing: nobody could read what the children say")
	}
	if o.Logs == nil {
		return nil, errors.New("child: Options.Logs is missing: nobody would take secrets out of what the children say")
	}
	if o.MaxLine <= 0 {
		o.MaxLine = DefaultMaxLine
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = DefaultMaxQueue
	}
	if o.WriteStall <= 0 {
		o.WriteStall = DefaultWriteStall
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	l := &Launcher{o: o, groups: limits.NewGroups()}
	if o.Guard != nil {
		l.hostID = o.Guard.HostID()
	} else {
		l.hostID = NewHostID()
	}
	// Nothing that was started before this process can be a child of it.
	l.scanner.Since, _ = proctree.StartTime(os.Getpid())
	return l, nil
}

// NewHostID returns a name for this host that no other host has.
func NewHostID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: it ends the program instead
	return hex.EncodeToString(id[:])
}

// Launch starts spec's command as instance and returns when the operating
// system has taken it; the child may still fail at once. It blocks for some
// milliseconds and is called from a worker goroutine.
//
// After an error nothing is left behind and ear is never called. Errors wrap
// [ErrNoCommand] or [ErrNoCwd] where that is the cause, and always the errno
// or exec.Error that was met.
//
// The caller must end the process tree and call [Process.Release].
func (l *Launcher) Launch(spec *messages.ServerSpec, instance uint64, ear Ear) (*Process, error) {
	path, err := resolve(spec)
	if err != nil {
		return nil, err
	}
	if err := limits.ReadDescriptors().CheckStart(); err != nil {
		return nil, fmt.Errorf("cannot start %q: %w", spec.Name, err)
	}
	kills, _ := limits.Kills()
	if l.o.Guard != nil {
		l.o.Guard.Ready()
	}
	marker := proctree.Marker(l.hostID, instance)
	group, err := l.groups.Open("metamcp-"+marker, spec.Limits)
	if err != nil {
		return nil, &launchError{text: fmt.Sprintf("cannot start %q: %v", spec.Name, err), causes: []error{err, messages.ErrNotBounded}}
	}
	p, err := l.start(spec, path, instance, marker, group, ear)
	if err != nil {
		group.Kill() // it may have started something
		return nil, errors.Join(err, group.Close())
	}
	p.kills = kills
	p.run()
	return p, nil
}

// start is Launch once all else is known. After an error nothing is left but the group.
func (l *Launcher) start(spec *messages.ServerSpec, path string, instance uint64, marker string, group *limits.Group, ear Ear) (*Process, error) {
	pipes, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("no pipes for %q (too many open files? see ulimit -n): %w", spec.Name, err)
	}
	attr := &os.ProcAttr{
		Dir:   spec.Cwd,
		Env:   withMarker(spec.Env, marker),
		Files: []*os.File{pipes.childIn, pipes.childOut, pipes.childErr},
	}
	t, err := newTree(attr)
	if err != nil {
		pipes.closeAll()
		return nil, fmt.Errorf("no job for %q: %w", spec.Name, err)
	}
	started, err := group.Into(attr)
	if err != nil {
		t.abandon()
		pipes.closeAll()
		return nil, fmt.Errorf("cannot start %q: %w", spec.Name, err)
	}
	proc, err := os.StartProcess(path, append([]string{spec.Command}, spec.Args...), attr)
	started()
	pipes.closeChild()
	if err != nil {
		t.abandon()
		pipes.closeOurs()
		return nil, startError(spec, path, err)
	}
	if err := t.adopt(proc); err != nil {
		_ = proc.Kill()
		_, _ = proc.Wait()
		t.abandon()
		pipes.closeOurs()
		return nil, fmt.Errorf("the process of %q could not be put under control and was ended: %w", spec.Name, err)
	}
	if err := limits.ApplyTo(proc.Pid, spec.Limits, group); err != nil && !errors.Is(err, os.ErrProcessDone) {
		if t.terminate(); proc.Kill() == nil {
			_, _ = proc.Wait()
		}
		t.abandon()
		pipes.closeOurs()
		return nil, &launchError{text: fmt.Sprintf("cannot start %q: %v", spec.Name, err), causes: []error{err, messages.ErrNotBounded}}
	}
	start, _ := proctree.StartTime(proc.Pid)
	if l.o.Guard != nil {
		l.o.Guard.Add(proc.Pid, start, marker)
	}
	p := newProcess(l, spec, instance, ear, proc, start, marker, t, pipes)
	p.group = group
	return p, nil
}

// withMarker returns env with our marker in front, where a reader of it finds
// it first.
func withMarker(env []string, marker string) []string {
	out := make([]string, 0, len(env)+1)
	out = append(out, proctree.MarkerVar+"="+marker)
	for _, e := range env {
		if !strings.HasPrefix(e, proctree.MarkerVar+"=") {
			out = append(out, e)
		}
	}
	return out
}
