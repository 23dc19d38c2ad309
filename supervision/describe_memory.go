package supervision

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/metamcp/metamcp/messages"
)

// noMemory matches what runtimes and the loader say where they get no memory, as
// under limits.memoryMB.
var noMemory = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)out of memory|cannot allocate memory|failed to map segment|std::bad_alloc|\bMemoryError\b|memory allocation of \d+ bytes failed|\bENOMEM\b`)
})

// brokenDown are the signals by which programs end that do not expect to be refused
// memory.
var brokenDown = []string{"SIGABRT", "SIGSEGV", "SIGBUS", "SIGTRAP", "SIGILL"}

// memoryAdvice names limits.memoryMB where it may well be the reason though nobody
// says so: a program that gets too little while it starts hangs, or ends by a signal
// or with words of its own. It stands in front of what else may be done.
func (f finding) memoryAdvice() string {
	if f.ev.Limits.MemoryMB == 0 || f.ev.Remote || noMemory().MatchString(f.text) {
		return "" // the other advice has it
	}
	e := f.exit()
	switch {
	case f.class == messages.ClassAuth || f.notStarted():
		return ""
	case e == nil && (!f.ev.Starting || !f.ev.Timeout):
		return ""
	case e != nil && !f.ev.Starting && !slices.Contains(brokenDown, e.Signal):
		return ""
	case e != nil && (e.OutOfMemory || e.Signal == "SIGXCPU" || e.Code == 126 || e.Code == 127):
		return ""
	}
	return fmt.Sprintf("limits.memoryMB of server %q may be too small (%d): raise that first. ", f.server, f.ev.Limits.MemoryMB)
}
