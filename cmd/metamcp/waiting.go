package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/metamcp/metamcp"
)

const (
	// sayWaiting is how long something is waited for before a person is told.
	sayWaiting = time.Second
	// logFactor is how many times as long it is until a log is told: by then it is
	// servers, and not the tools of those that are there being embedded.
	logFactor = 8
)

// whileWaiting runs do and, at a terminal, says how long what has been waited for, from
// after on, in a line that goes when do is done. what may change: "" is nothing, of which
// nothing is said. What do itself says on stderr goes to the writer that it is given,
// which takes the line away before. Elsewhere than at a terminal it is one line that
// stays, and comes later: whoever reads the log of a script does not take it to hang.
// stderr must write at once: the line has to be gone before the answer is printed.
func whileWaiting(stderr io.Writer, terminal bool, what func() string, after time.Duration, do func(stderr io.Writer) error) error {
	line := &waitLine{to: shown(stderr), once: !terminal}
	own := io.Writer(line)
	if terminal {
		line.to, own = stderr, tame{line}
	} else {
		after *= logFactor
	}
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() { line.sayUntil(done, what, after) })
	err := do(own)
	close(done)
	saying.Wait()
	return err
}

// waitingFor is what is waited for where it is known beforehand: one server, or where
// that is empty any of them.
func waitingFor(server string) func() string {
	what := "servers"
	if server != "" {
		what = strconv.Quote(server)
	}
	return func() string { return what }
}

// whileStarting runs do, in which servers may start, and says that they are
// waited for, as whileWaiting does.
func whileStarting(cmd *cobra.Command, e *metamcp.Engine, do func(stderr io.Writer) error) error {
	f, ok := cmd.ErrOrStderr().(*os.File)
	return whileWaiting(cmd.ErrOrStderr(), ok && isTerminal(f), untraced(e, startsOf(e)), sayWaiting, do)
}

// untraced is what, and nothing where a trace is on stderr, which tells of starts itself.
func untraced(e *metamcp.Engine, what func() string) func() string {
	if e.Config().Settings.Trace == "stderr" {
		return func() string { return "" }
	}
	return what
}

// startsOf is what is waited for where servers start while a command runs.
func startsOf(e *metamcp.Engine) func() string {
	return func() string {
		var starting []string
		for _, s := range e.ListServers() {
			if s.State == "CONNECTING" {
				starting = append(starting, strconv.Quote(s.Name))
			}
		}
		if len(starting) > 1 {
			return "servers"
		}
		return strings.Join(starting, "")
	}
}

// waitLine is the last line of a terminal, for as long as it says what is waited for.
// As a writer it is the terminal without that line.
type waitLine struct {
	mu   sync.Mutex
	to   io.Writer
	text string // what stands there; "": nothing
	once bool   // it is a log instead: one line, which stays
}

// sayUntil keeps the line up to date until done is closed.
func (l *waitLine) sayUntil(done <-chan struct{}, what func() string, after time.Duration) {
	defer l.say("")
	const looks = 4 // so that it goes soon after the wait has ended
	tick := time.NewTicker(after / looks)
	defer tick.Stop()
	now, since := what(), time.Now()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if next := what(); next != now {
			now, since = next, time.Now()
		}
		switch waited := time.Since(since); {
		case now == "":
			l.say("")
		case waited >= after && l.once:
			_, _ = fmt.Fprintf(l, "metamcp: waiting for %s to start and list tools\n", now) // a log that takes nothing is no reason to end
			return
		case waited >= after:
			l.say(fmt.Sprintf("waiting for %s to start and list tools, %v ", now, waited.Truncate(time.Second)))
		}
	}
}

// say puts text in place of what stands there.
func (l *waitLine) say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text == l.text {
		return
	}
	if len(text) < len(l.text) {
		l.clear()
	}
	if l.text = text; text != "" {
		fmt.Fprint(l.to, "\r"+text)
	}
}

// clear takes away what stands there; mu is held.
func (l *waitLine) clear() {
	if l.text != "" {
		fmt.Fprintf(l.to, "\r%s\r", strings.Repeat(" ", len(l.text)))
		l.text = ""
	}
}

// Write implements io.Writer.
func (l *waitLine) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	return l.to.Write(p)
}
