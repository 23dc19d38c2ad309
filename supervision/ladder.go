package supervision

import (
	"fmt"
	"time"
)

// Move is what one step of the termination ladder does to a child.
type Move uint8

// The moves of the ladder, mildest first.
const (
	// MoveCloseInput closes the child's standard input: the protocol's own
	// way of saying goodbye.
	MoveCloseInput Move = iota
	// MoveTerminate sends SIGTERM to the whole process tree.
	MoveTerminate
	// MoveLook sends nothing; it only looks whether the tree has gone.
	MoveLook
	// MoveKill sends SIGKILL to the whole process tree.
	MoveKill
)

// String returns the move's name for traces.
func (m Move) String() string {
	switch m {
	case MoveCloseInput:
		return "close-input"
	case MoveTerminate:
		return "terminate"
	case MoveLook:
		return "look"
	case MoveKill:
		return "kill"
	}
	return fmt.Sprintf("move(%d)", uint8(m))
}

// Step is one rung: make the move, then wait at most that long for the tree
// to be gone before the next rung. Whoever climbs stops as soon as it is gone.
type Step struct {
	Do   Move
	Wait time.Duration
}

// The lengths of the ladder.
const (
	// DefaultStopGrace is the time from the first step to SIGKILL.
	DefaultStopGrace = 1550 * time.Millisecond
	// ReapWait is how long after SIGKILL a tree that is still there is
	// reported as stuck (uninterruptible sleep in the kernel); it is the
	// Wait of the last step and no part of the grace.
	ReapWait = 2 * time.Second
)

// rungs are the steps before SIGKILL with their shares of the grace. The
// shares double and add up to 31, which makes 50, 100, 200, 400 and 800 ms of
// the default 1,550 ms.
//
// SIGTERM is sent once; the later rungs are looks. Repeating it helps nobody:
// a process that dies of SIGTERM has died of the first one, and one that
// handles it often takes the second for "now at once" (Node and Python servers
// that copy the two-times-Ctrl-C habit) and would lose the rest of its time.
// npx and uvx make it worse, since they pass on what the group got already.
// The looks are needed because the exit of the leader, which is an event, does
// not say that its grandchildren have gone.
var rungs = [...]struct {
	do    Move
	share int
}{
	{MoveCloseInput, 1},
	{MoveTerminate, 2},
	{MoveLook, 4},
	{MoveLook, 8},
	{MoveLook, 16},
}

const rungShares = 31

// Ladder returns the steps that end a child within grace: close its input,
// SIGTERM, looks at growing distances, SIGKILL. Zero or less means
// [DefaultStopGrace].
//
// Every wait is stretched in proportion, the one after the closed input too: a
// server that needs long to save its state may well do so at the end of its
// input. A grace below the default shortens the ladder likewise, because
// whoever writes 200 ms means 200 ms. The waits before the last step add up to
// the grace exactly. The slice is the caller's.
func Ladder(grace time.Duration) []Step {
	if grace <= 0 {
		grace = DefaultStopGrace
	}
	unit := grace / rungShares
	rest := grace % rungShares
	steps := make([]Step, 0, len(rungs)+1)
	for _, r := range rungs {
		steps = append(steps, Step{Do: r.do, Wait: unit * time.Duration(r.share)})
	}
	steps[len(steps)-1].Wait += rest
	return append(steps, Step{Do: MoveKill, Wait: ReapWait})
}

// ladderTime is how long the whole [Ladder] of a child takes at most.
func ladderTime(grace time.Duration) time.Duration {
	var sum time.Duration
	for _, step := range Ladder(grace) {
		sum += step.Wait
	}
	return sum
}
