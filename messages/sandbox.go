package messages

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// ScriptLimits bound one run of a script. A zero field takes the default of the
// sandbox.
type ScriptLimits struct {
	Wall        time.Duration // awaited calls and sleeps included
	Asked       time.Duration // that a failure tells of, where Wall is what is left of it; 0: Wall
	CodeBytes   int           // of source
	HeapBytes   int64         // of the JavaScript engine
	StackBytes  int
	OutputBytes int64 // value and console together
	Calls       int   // of tools and discover, all in all
	Concurrent  int   // calls under way at once; further ones wait
	Timers      int   // sleeps under way at once
}

// ScriptLanguage is what a script is written in.
type ScriptLanguage uint8

// The languages.
const (
	ScriptAuto ScriptLanguage = iota // JavaScript, or TypeScript whose types are stripped
	ScriptJavaScript
	ScriptTypeScript
)

// ScriptServer is what a script sees of one server.
type ScriptServer struct {
	Name         string
	Title        string
	Description  string
	State        string
	Tools        []string // as far as they are known
	ToolsOmitted bool     // they are known, and too many to tell them
}

// Script is a program for the sandbox.
type Script struct {
	Code     string
	Language ScriptLanguage
	Servers  []ScriptServer
	Results  []string // ids of kept results that it may ask for
	Args     []string // what it finds as args; nil: nothing
	Limits   ScriptLimits
}

// AskKind is what a script asks its host for.
type AskKind uint8

// The kinds.
const (
	AskCall     AskKind = iota + 1 // a tool call
	AskDiscover                    // a search for tools
	AskResult                      // a kept result
)

// ScriptAsk is one thing that a script asks its host for and waits for.
type ScriptAsk struct {
	ID     uint64 // unique in the run
	Kind   AskKind
	Server string
	Tool   string
	// Args is one valid JSON object: the tool's own, {"query": …} or
	// {"id": …}.
	Args      json.RawMessage
	TimeoutMs int64 // 0: the server's
	Raw       bool  // the whole tool result is wanted, and not its value
}

// ScriptReply answers a [ScriptAsk]: exactly one of Value and Err is set.
type ScriptReply struct {
	ID    uint64
	Value json.RawMessage
	Err   *ScriptError
}

// ScriptError is a failed call as a script catches it, and as it tells of it
// where nobody does.
type ScriptError struct {
	Code         string   `json:"code"`
	Server       string   `json:"server,omitempty"`
	Tool         string   `json:"tool,omitempty"`
	Class        string   `json:"class,omitempty"`
	Message      string   `json:"message"`
	Hint         string   `json:"hint,omitempty"`
	Retryable    bool     `json:"retryable"`
	RetryAfterMs int64    `json:"retryAfterMs,omitempty"`
	Details      []string `json:"details,omitempty"`
}

// ConsoleLine is one line that a script wrote to its console, already formatted.
type ConsoleLine struct {
	Level string // log, info, warn, error or debug
	Text  string
}

// ScriptOutcome ends a run; a nil Value without a Failure is undefined.
type ScriptOutcome struct {
	Value     json.RawMessage
	Failure   *ScriptFailure
	Dropped   int // console lines that found no room
	Cancelled int // calls that were made, or waited for their turn, when it ended
	Sleeping  int // sleeps that were under way when it ended
}

// FailureKind says why a script has no value; the list is closed.
type FailureKind string

// The kinds that the host itself finds.
const (
	FailureTimeout FailureKind = "timeout"
	FailureCrashed FailureKind = "crashed"
	FailureOutput  FailureKind = "output"
	FailureCalls   FailureKind = "calls"
)

// ScriptFailure says why a script has no value, in words for its author.
type ScriptFailure struct {
	Kind    FailureKind
	Message string // what and why
	Hint    string // what to do next
	Line    int    // in the author's source, from 1; 0: not known
	Column  int
	Excerpt string // the line with a caret below
	Stack   string // in the author's lines
	// Thrown is the error of the call that nobody caught; nil where it was
	// something else.
	Thrown *ScriptError
}

// Code is that of the call whose error nobody caught, where it was one, else
// [CodeSandbox].
func (f *ScriptFailure) Code() Code {
	if f.Thrown != nil && f.Thrown.Code != "" {
		return Code(f.Thrown.Code)
	}
	return CodeSandbox
}

// Run asks the sandbox to run a script.
type Run struct {
	Meta
	ID uint64 // unique in this host, also among calls
	// Code and Language are the script's.
	Code     string
	Language ScriptLanguage
	// Timeout is the caller's bound; 0, or more than the setting: the
	// setting's.
	Timeout time.Duration
	// Only are the servers that the script may reach; nil: all.
	Only []string
	// Args are what the script finds as args; nil: there is none.
	Args []string
	// Cancelled is set once the caller has given up.
	Cancelled *atomic.Bool
	Reply     RunPort
	// Client, Can, Log and Shared are those of its calls.
	Client ClientPort
	Can    ClientCan
	Log    LogLevel
	Shared bool
	// Begin, where not nil, is told of every call of the script before it is
	// made, on the goroutine of the run; it never blocks.
	Begin func(call *Call)
	// Carried, where not nil, is told of every result of a call before the script
	// is, on the same goroutine; it never blocks.
	Carried func(server string, result json.RawMessage)
}

// RunPort hears of a run. Its methods are called one at a time, in order, and
// never block.
type RunPort interface {
	// Said is a line of the console.
	Said(l ConsoleLine)
	// Progressed says how many calls are done.
	Progressed(calls int)
	// Ended comes exactly once, and last.
	Ended(r *RunReport)
}

// RunReport is what came out of a run. Where Err is set the script did not run,
// or nobody waits for it any more.
type RunReport struct {
	Outcome *ScriptOutcome
	Err     *Error
	Calls   []RunCall
	// MoreCalls is how many further calls were made.
	MoreCalls int
	// Cancelled is how many calls were under way when the script ended; nobody
	// knows whether they took effect.
	Cancelled int
	// Lost tells of numbers that the script could not hold, for each tool once.
	Lost   []LostDigits
	Took   time.Duration // from the request to the answer
	Waited time.Duration // of that, until a worker took the script
}

// LostDigits tells of an integer beyond those that JavaScript holds exactly.
type LostDigits struct {
	Server    string
	Tool      string
	Arguments bool   // it was sent, and not in a result
	Number    string // as it was in the result, or in the arguments
}

// RunCall is one call that a script made.
type RunCall struct {
	Server string
	Tool   string
	Took   time.Duration
	// Outcome is "ok" or the code of the error that the script got.
	Outcome string
}

// SandboxStatus is how the sandbox does.
type SandboxStatus struct {
	Workers []SandboxWorker `json:"workers,omitempty"` // by age, the oldest first
	Running int             `json:"running"`           // scripts
	Waiting int             `json:"waiting"`           // scripts that wait for a worker
	Runs    uint64          `json:"runs"`              // that ended since the start
	Failed  uint64          `json:"failed"`            // of them, those without a value
}

// SandboxWorker is one process of the sandbox.
type SandboxWorker struct {
	PID   int       `json:"pid"`
	State string    `json:"state"`         // starting, ready, running or ending
	Run   string    `json:"run,omitempty"` // the actor of its script
	Since time.Time `json:"since"`
	// Confined is what holds the process; zero until it is ready.
	Confined Confinement `json:"confined,omitzero"`
}

// Confinement says what the system does to hold a worker: "on" and the like,
// or why not.
type Confinement struct {
	Landlock string `json:"landlock"`
	Seccomp  string `json:"seccomp"`
	Rlimits  string `json:"rlimits"`
}

// PayloadBytes is the size of the code, for the trace.
func (r *Run) PayloadBytes() int { return len(r.Code) }

// PayloadBytes is the size of the arguments, for the trace.
func (a *ScriptAsk) PayloadBytes() int { return len(a.Args) }
