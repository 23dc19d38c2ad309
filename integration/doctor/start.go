package doctor

import (
	"fmt"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// slowStart is from when on a start is worth a word.
const slowStart = 5 * time.Second

// Start is how a server was really started.
type Start struct {
	Spec *messages.ServerSpec
	// Took is from the start of the process to the list of its tools.
	Took time.Duration
	// Tools is what it listed; nil where it failed.
	Tools *messages.Toolset
	// Err is why it failed; its details hold the end of stderr.
	Err *messages.Error
}

// Result is what a start shows.
func (s *Start) Result() Result {
	r := Result{ID: "server.start", Group: GroupServers, Subject: s.Spec.Name}
	took := s.Took.Round(10 * time.Millisecond)
	if s.Err != nil {
		r.Status, r.Found = Fail, s.Err.Message
		if s.Err.Class != messages.ClassNone {
			r.Found = fmt.Sprintf("[%s] %s", s.Err.Class, s.Err.Message)
		}
		r.Found += fmt.Sprintf(" (after %s)", took)
		r.Why = "Calls of this server's tools fail, and tools that were never listed are not found."
		if r.Fix = s.Err.Hint; r.Fix == "" {
			r.Fix = "Run its command by hand, with the entry at " + s.Spec.Source + "."
		}
		r.Details = s.Err.Details
		return r
	}
	set := s.Tools
	r.Status = OK
	r.Found = fmt.Sprintf("%s in %s, protocol %s", count(len(set.Tools), "tool"), took, set.Version)
	if set.ServerName != "" {
		r.Found += fmt.Sprintf(" (%s)", joined(set.ServerName, set.ServerVersion))
	}
	switch {
	case s.Took > slowStart:
		s.slow(&r)
	case set.Skipped > 0:
		r.ID, r.Status = "server.tools", Warn
		r.Why = fmt.Sprintf("%s of its listing have no name or are of a wrong type, and are left out.", count(set.Skipped, "definition"))
		r.Fix = "Tell its maintainer, or take a newer version of it."
	case len(set.Tools) == 0:
		r.ID, r.Status = "server.tools", Warn
		r.Why = "A server without tools gives nothing to call; it may need a key or a setting before it lists any."
		r.Fix = "Look into its documentation and its log: metamcp logs " + messages.ShellWord(s.Spec.Name)
	}
	return r
}

// slow says of a start that took long what that means. One that may have downloaded the
// server says nothing about the next ones.
func (s *Start) slow(r *Result) {
	r.ID, r.Status = "server.slow", Warn
	r.Why = "The first call waits that long; where a start takes longer than startupTimeoutMs it fails."
	// Thrice what it took now, when the machine may have been idle.
	advice := max(3*s.Took, 30*time.Second).Round(time.Second)
	if advice > s.Spec.StartupTimeout {
		r.Fix = fmt.Sprintf("Write \"startupTimeoutMs\": %d into the entry at %s (it is %d now).", advice.Milliseconds(), s.Spec.Source, s.Spec.StartupTimeout.Milliseconds())
	} else {
		r.Fix = fmt.Sprintf("Install it instead of fetching it with each start, or write \"lifecycle\": \"keep-alive\" into the entry at %s. Its startupTimeoutMs (%d) is enough.",
			s.Spec.Source, s.Spec.StartupTimeout.Milliseconds())
	}
	if s.Spec.RunsPackage() {
		r.Why = fmt.Sprintf("%s downloads what it does not have yet. If it did so now, later starts are faster; if not, the first call waits that long each time.", base(s.Spec.Command))
		r.Fix = fmt.Sprintf("Try it once more: metamcp test %s. If it is as slow again: %s", messages.ShellWord(s.Spec.Name), r.Fix)
	}
}

func joined(name, version string) string {
	if version == "" {
		return name
	}
	return name + " " + version
}
