package sandbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
)

// Options say how workers are started. Path is required.
type Options struct {
	// Path is a binary that runs package worker, and Args what makes it do so:
	// this program itself with its hidden command "sandbox-worker".
	Path string
	Args []string
	// Log takes what a worker says on stderr, which only a broken one does;
	// nil: the default logger.
	Log *slog.Logger
}

// Launcher starts workers. It is safe for any goroutine.
type Launcher struct{ o Options }

// NewLauncher checks the options.
func NewLauncher(o Options) (*Launcher, error) {
	if o.Path == "" {
		return nil, errors.New("sandbox: Options.Path is missing: there is no program to run scripts in")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Launcher{o: o}, nil
}

// Ear hears a worker. Its methods are called one at a time, in order, from a
// goroutine of the worker, and must not block: while one runs, nothing is read
// from the process. What they get is theirs to keep.
type Ear interface {
	// Ready says that a run may begin, and what holds the process.
	Ready(s Status)
	// Asked is something that a script wants; [Worker.Reply] answers it.
	Asked(run uint64, a *Ask)
	// Said is a line of a script's console.
	Said(run uint64, l Line)
	// Finished ends a run. Calls of the run that are still under way are void.
	Finished(run uint64, o *Outcome)
	// Gone is the last thing ever heard: the process has ended and was reaped.
	// A run under way had no Finished.
	Gone(err error)
}

// Launch starts a process and returns at once; ear hears of the rest. The
// process has an empty environment, a process group of its own and no
// descriptors but its pipes; it confines itself before it is Ready. It ends
// when this process does, even by SIGKILL.
//
// After an error nothing is left behind and ear is never called. Otherwise the
// caller must at last call [Worker.Kill] and wait for Gone.
func (l *Launcher) Launch(ear Ear) (*Worker, error) {
	var files [3]pipe
	for i := range files {
		r, w, err := os.Pipe()
		if err != nil {
			for _, p := range files[:i] {
				p.close()
			}
			return nil, fmt.Errorf("sandbox: no pipe for a worker (too many open files? see ulimit -n): %w", err)
		}
		files[i] = pipe{r, w}
	}
	stdin, stdout, stderr := files[0], files[1], files[2]
	attr := &os.ProcAttr{
		Dir:   rootDir(),
		Env:   environment(),
		Files: []*os.File{stdin.r, stdout.w, stderr.w},
		Sys:   sysProcAttr(),
	}
	proc, err := os.StartProcess(l.o.Path, append([]string{"metamcp-sandbox"}, l.o.Args...), attr)
	_ = stdin.r.Close()
	_ = stdout.w.Close()
	_ = stderr.w.Close()
	if err != nil {
		_ = stdin.w.Close()
		_ = stdout.r.Close()
		_ = stderr.r.Close()
		return nil, fmt.Errorf("sandbox: cannot start a worker with %s: %w", l.o.Path, err)
	}
	w := newWorker(l.o.Log, ear, proc, stdin.w, stdout.r, stderr.r)
	w.start()
	return w, nil
}

type pipe struct{ r, w *os.File }

func (p pipe) close() {
	_ = p.r.Close()
	_ = p.w.Close()
}
