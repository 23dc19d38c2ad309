//go:build unix

package watchdog

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/metamcp/metamcp/integration/child/proctree"
)

const (
	// writeLimit is how long a record may take to reach a watchdog before it
	// is taken for hung.
	writeLimit = 500 * time.Millisecond
	// readyLimit is how long a watchdog may take to start on a busy machine.
	readyLimit = 5 * time.Second
	// A watchdog that dies is replaced after a pause that doubles while they
	// keep dying.
	firstPause = 20 * time.Millisecond
	lastPause  = 30 * time.Second
	longLife   = time.Minute
)

// Options say who the host is. HostID is required.
type Options struct {
	// HostID is what the markers of all its children begin with; unique among
	// hosts.
	HostID string
	// StateDir holds the journals, in its folder run. Empty: no journal.
	StateDir string
	// Executable is a program that imports this package; empty means this one.
	Executable string
	// Report takes failures, from any goroutine; nothing is lost by them but
	// protection. Nil: nobody hears of them.
	Report func(error)
}

// Host is the host's side: the list, the journal and the pipe to the watchdog,
// which is started before the first tree. It is safe for any goroutine; calls
// may take some milliseconds.
type Host struct {
	o     Options
	since uint64

	mu      sync.Mutex
	trees   list
	journal *journal
	begun   bool          // Ready or Add was called: journal and keeper exist or failed
	control *os.File      // nil while there is no watchdog
	dog     *os.Process   // the running one
	dogLife *os.File      // ends with it
	failed  bool          // the last try to start one
	tried   chan struct{} // closed after the next try
	closed  bool
	stop    chan struct{}
	hurry   chan struct{} // somebody waits for the next try
	kept    chan struct{} // the keeper has ended
}

// New returns a host without trees. Nothing is started and nothing written
// before the first Ready or Add. The caller closes it.
func New(o Options) *Host {
	if o.Report == nil {
		o.Report = func(error) {}
	}
	since, _ := proctree.StartTime(os.Getpid())
	return &Host{
		o: o, since: since, trees: make(list), tried: make(chan struct{}),
		stop: make(chan struct{}), hurry: make(chan struct{}, 1), kept: make(chan struct{}),
	}
}

// HostID returns what the markers of this host begin with.
func (h *Host) HostID() string { return h.o.HostID }

// PID returns the process id of the watchdog, 0 while there is none.
func (h *Host) PID() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dog == nil {
		return 0
	}
	return h.dog.Pid
}

// Ready is called before a process is started whose marker begins with HostID.
// It returns when the journal names this host and a watchdog runs and listens,
// so that the process is covered, by its marker, from its first moment on,
// whenever and together with whom this host is killed.
//
// Once all that is there it costs nothing. The first call starts it, and a call
// that meets a dead watchdog waits for the next one; that takes milliseconds,
// at most five seconds each. Where a watchdog cannot be started, which was
// reported, it returns without one: the caller's process is then covered by the
// journal alone until one of the later tries succeeds.
func (h *Host) Ready() {
	h.mu.Lock()
	if !h.begun && !h.closed {
		h.begun = true
		h.begin()
	}
	// Nobody waits where the last try failed: the next one may be far off.
	if h.closed || h.control != nil || h.failed {
		h.mu.Unlock()
		return
	}
	tried := h.tried
	h.mu.Unlock()
	select {
	case h.hurry <- struct{}{}:
	default: // it was told already
	}
	limit := time.NewTimer(readyLimit)
	defer limit.Stop()
	select {
	case <-tried:
	case <-h.stop:
	case <-limit.C:
	}
}

// Add puts a tree on record: the leader of a process group, its start time
// ([proctree.StartTime]) and the marker in its environment. It is called right
// after the process was started; until then the marker alone protects it (see
// Ready), which on darwin does not exist.
func (h *Host) Add(pid int, start uint64, marker string) {
	h.put(record{verb: verbAdd, pid: pid, start: start, marker: marker})
}

// Remove takes a tree off the record once nothing of it is left.
func (h *Host) Remove(pid int, start uint64) {
	h.put(record{verb: verbDel, pid: pid, start: start})
}

func (h *Host) put(r record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.trees.apply(r)
	if !h.begun {
		h.begun = true
		h.begin()
	} else if h.control != nil {
		h.tell(r.String())
	}
	if h.journal != nil {
		if err := h.journal.append(r, h.trees); err != nil {
			h.o.Report(err)
		}
	}
}

// begin makes the journal and the first watchdog.
func (h *Host) begin() {
	if h.o.StateDir != "" {
		j, err := openJournal(h.o.StateDir, h.o.HostID)
		if err != nil {
			h.o.Report(err)
		}
		h.journal = j
	}
	h.start()
	go h.keep()
}

// tell writes to the watchdog. One that does not take it is ended, and the
// keeper gives the whole list to the next one. It is ended first: the end of the pipe
// without a goodbye is that of this host to it, and it would end all trees.
func (h *Host) tell(text string) {
	_ = h.control.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := h.control.WriteString(text); err != nil {
		_ = h.dog.Kill()
		_ = h.control.Close()
		h.control = nil
	}
}

// start starts a watchdog and gives it the list. A failure is reported; the
// keeper tries again.
func (h *Host) start() {
	defer func() {
		close(h.tried)
		h.tried = make(chan struct{})
	}()
	err := h.spawn()
	h.failed = err != nil
	if err != nil {
		h.o.Report(explain("no watchdog (children may survive if this host is killed; trying again)", err))
		return
	}
	var all []byte
	for _, r := range h.trees {
		all = append(all, r.String()...)
	}
	if h.journal != nil {
		start, _ := proctree.StartTime(h.dog.Pid)
		if err := h.journal.watchedBy(h.dog.Pid, start); err != nil {
			h.o.Report(err)
		}
	}
	h.tell(string(all))
}

func (h *Host) spawn() error {
	path, err := h.executable()
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	records, control, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = records.Close() }()
	life, held, err := os.Pipe()
	if err != nil {
		_ = control.Close()
		return err
	}
	defer func() { _ = held.Close() }() // again after success, to no effect
	dog, err := os.StartProcess(path, []string{processName}, &os.ProcAttr{
		Dir: "/",
		// One processor and an eager collector keep it small. Nothing else of
		// our environment goes there, a marker of another host least of all.
		Env: []string{
			processVar + "=" + h.o.HostID + " " + strconv.FormatUint(h.since, 10),
			"GOMAXPROCS=1", "GOGC=20",
		},
		Files: []*os.File{null, null, null, records, held},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		_, _ = control.Close(), life.Close()
		return err
	}
	// Our copy of its end must go first, or its death would go unnoticed.
	_ = held.Close()
	if err := awaitReady(life); err != nil {
		_ = dog.Kill()
		_, _ = dog.Wait()
		_, _ = control.Close(), life.Close()
		return err
	}
	h.control, h.dog, h.dogLife = control, dog, life
	return nil
}

// awaitReady waits until a watchdog can no longer be ended by a signal that
// was meant for its host.
func awaitReady(life *os.File) error {
	if err := life.SetReadDeadline(time.Now().Add(readyLimit)); err != nil {
		return err
	}
	said := make([]byte, 1)
	if n, err := life.Read(said); n != 1 || said[0] != ready {
		if err == nil {
			err = errors.New("it said something else")
		}
		return explain("its process was started but is no watchdog, or not in time", err)
	}
	return life.SetReadDeadline(time.Time{})
}

func (h *Host) executable() (string, error) {
	switch {
	case h.o.Executable != "":
		return h.o.Executable, nil
	case runtime.GOOS == "linux":
		// This very file, even if another version has taken its name.
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// keep sees to it that there is a watchdog until Close.
func (h *Host) keep() {
	defer close(h.kept)
	pause := firstPause
	for {
		began := time.Now()
		h.mu.Lock()
		dog, life := h.dog, h.dogLife
		h.mu.Unlock()
		if dog != nil {
			// Nothing more is ever written: the read ends with the process.
			_, _ = life.Read(make([]byte, 1))
			_ = life.Close()
			select {
			case <-h.stop:
				h.bury(dog)
				return
			default:
			}
			h.mu.Lock() // first of all: from here on Ready waits for the next one
			if h.control != nil {
				_ = h.control.Close()
			}
			h.control, h.dog, h.dogLife = nil, nil, nil
			h.mu.Unlock()
			_, _ = dog.Wait()
		}
		if time.Since(began) > longLife {
			pause = firstPause
		}
		if !h.pause(pause) {
			return
		}
		pause = min(2*pause, lastPause)
		h.mu.Lock()
		if !h.closed {
			h.start()
		}
		h.mu.Unlock()
	}
}

// pause returns when it is time for the next watchdog: after a while, or at
// once where somebody waits for it. False: this host closes.
func (h *Host) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-h.stop:
		return false
	case <-timer.C:
	case <-h.hurry:
	}
	return true
}

// bury reaps a watchdog after the goodbye. One that has trees to end is left
// alone: it ends by itself, and the next reaper of orphans has it.
func (h *Host) bury(dog *os.Process) {
	h.mu.Lock()
	busy := len(h.trees) > 0
	h.mu.Unlock()
	if busy {
		_ = dog.Release()
		return
	}
	_, _ = dog.Wait()
}

// Close says goodbye to the watchdog, waits for its exit and removes the
// journal. Where trees are still on record nothing is said: the watchdog ends
// them, and the journal stays. Nothing may be added any more.
func (h *Host) Close() {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.closed = true
	clean := len(h.trees) == 0
	close(h.stop)
	if h.control != nil {
		if clean {
			h.tell(record{verb: verbBye}.String())
		}
		if h.control != nil {
			_ = h.control.Close()
		}
	}
	if !clean && h.dogLife != nil {
		_ = h.dogLife.Close() // the keeper need not wait for its work
	}
	if h.journal != nil {
		h.journal.close(clean)
	}
	begun := h.begun
	h.mu.Unlock()
	if begun {
		<-h.kept
	}
}
