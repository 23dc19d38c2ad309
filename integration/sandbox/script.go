package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The defaults of [Limits].
const (
	DefaultWall        = 120 * time.Second
	DefaultCodeBytes   = 50_000
	DefaultHeapBytes   = 64 << 20
	DefaultStackBytes  = 512 << 10
	DefaultOutputBytes = 10_000_000
	DefaultCalls       = 1000
	DefaultConcurrent  = 32
	DefaultTimers      = 10000
)

// MaxSleep is the longest that one sleep of a script may be.
const MaxSleep = 30 * time.Second

// Limits bound one run. A field that is zero or negative takes its default.
type Limits struct {
	Wall        time.Duration `json:"wall,omitempty"`        // from Run to the outcome, awaited calls and sleeps included
	Asked       time.Duration `json:"asked,omitempty"`       // that a failure tells of, where Wall is what is left of it; 0: Wall
	CodeBytes   int           `json:"codeBytes,omitempty"`   // of the source
	HeapBytes   int64         `json:"heapBytes,omitempty"`   // of the JavaScript engine
	StackBytes  int           `json:"stackBytes,omitempty"`  // of the script's call stack, roughly 100 bytes a call
	OutputBytes int64         `json:"outputBytes,omitempty"` // value and console together, counted while they grow
	Calls       int           `json:"calls,omitempty"`       // child calls and searches of one run
	Concurrent  int           `json:"concurrent,omitempty"`  // asks at the host at once; further ones wait in the worker
	Timers      int           `json:"timers,omitempty"`      // sleeps that run at once
}

// WithDefaults returns l with the defaults filled in.
func (l Limits) WithDefaults() Limits {
	if l.Wall <= 0 {
		l.Wall = DefaultWall
	}
	if l.Asked <= 0 {
		l.Asked = l.Wall
	}
	if l.CodeBytes <= 0 {
		l.CodeBytes = DefaultCodeBytes
	}
	if l.HeapBytes <= 0 {
		l.HeapBytes = DefaultHeapBytes
	}
	if l.StackBytes <= 0 {
		l.StackBytes = DefaultStackBytes
	}
	if l.OutputBytes <= 0 {
		l.OutputBytes = DefaultOutputBytes
	}
	if l.Calls <= 0 {
		l.Calls = DefaultCalls
	}
	if l.Concurrent <= 0 {
		l.Concurrent = DefaultConcurrent
	}
	if l.Timers <= 0 {
		l.Timers = DefaultTimers
	}
	return l
}

// Language is what a script is written in.
type Language uint8

// The languages. Auto takes JavaScript, and TypeScript where that does not
// parse.
const (
	Auto Language = iota
	JavaScript
	TypeScript
)

var languages = [...]string{Auto: "auto", JavaScript: "javascript", TypeScript: "typescript"}

func (l Language) String() string {
	if int(l) < len(languages) {
		return languages[l]
	}
	return fmt.Sprintf("language %d", uint8(l))
}

// ParseLanguage understands the names of the languages and their usual short
// forms; "" is [Auto].
func ParseLanguage(s string) (Language, error) {
	switch s {
	case "", "auto":
		return Auto, nil
	case "javascript", "js":
		return JavaScript, nil
	case "typescript", "ts":
		return TypeScript, nil
	}
	return Auto, fmt.Errorf("the language %q is not known: use javascript or typescript", s)
}

// MarshalText implements encoding.TextMarshaler.
func (l Language) MarshalText() ([]byte, error) {
	if int(l) >= len(languages) {
		return nil, errors.New(l.String() + " does not exist")
	}
	return []byte(languages[l]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Language) UnmarshalText(text []byte) error {
	got, err := ParseLanguage(string(text))
	*l = got
	return err
}

// Server is what a script sees of one server in servers.list().
type Server struct {
	Name         string   `json:"name"`
	Title        string   `json:"title,omitempty"`
	Description  string   `json:"description,omitempty"`
	State        string   `json:"state,omitempty"`
	Tools        []string `json:"tools,omitempty"`        // those that are known, an array in the script also where none is; others may be called as well
	ToolsOmitted bool     `json:"toolsOmitted,omitempty"` // they are known, and too many to tell them
}

// Script is one run's work.
type Script struct {
	Code     string   `json:"code"`
	Language Language `json:"language"`
	Servers  []Server `json:"servers,omitempty"` // all that the script may reach
	Results  []string `json:"results,omitempty"` // the ids that results.<id> may read
	Args     []string `json:"args"`              // what it finds as args; nil: there is no such name
	Limits   Limits   `json:"limits"`
}

// AskKind is what a script wants of its host.
type AskKind uint8

// The kinds of asks.
const (
	AskCall     AskKind = iota + 1 // a tool of a server
	AskDiscover                    // a search
	AskResult                      // an earlier run's result
)

var askKinds = [...]string{AskCall: "call", AskDiscover: "discover", AskResult: "result"}

func (k AskKind) String() string { return nameOf(askKinds[:], uint8(k), "ask kind") }

// MarshalText implements encoding.TextMarshaler.
func (k AskKind) MarshalText() ([]byte, error) { return textOf(askKinds[:], uint8(k), "ask kind") }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *AskKind) UnmarshalText(text []byte) error {
	n, err := valueOf(askKinds[:], text, "ask kind")
	*k = AskKind(n)
	return err
}

// Ask is something that a script wants of its host. It is immutable.
type Ask struct {
	ID     uint64  `json:"id"` // unique in the run
	Kind   AskKind `json:"kind"`
	Server string  `json:"server,omitempty"`
	Tool   string  `json:"tool,omitempty"`
	// Args is one JSON object: a tool's arguments, {"query":…} with the options
	// of a search, or {"id":…} of a result.
	Args      json.RawMessage `json:"args"`
	TimeoutMs int64           `json:"timeoutMs,omitempty"` // of this call; 0: as configured
	Raw       bool            `json:"raw,omitempty"`       // the tool's result as it is, not its value
}

// Reply answers an [Ask]: exactly one of Value and Err is set.
type Reply struct {
	ID    uint64          `json:"id"`
	Value json.RawMessage `json:"value,omitempty"` // any JSON; what the script's promise becomes
	Err   *CallError      `json:"err,omitempty"`   // what it throws
}

// CallError is an error that a script can catch: an Error with these
// properties.
type CallError struct {
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

// levels are those of the console.
var levels = []string{"log", "info", "warn", "error", "debug"}

// Line is one call of a console method, formatted: Text may hold line feeds.
type Line struct {
	Level string `json:"level"` // one of levels
	Text  string `json:"text"`
}

func nameOf(names []string, n uint8, what string) string {
	if int(n) < len(names) && names[n] != "" {
		return names[n]
	}
	return fmt.Sprintf("%s %d", what, n)
}

func textOf(names []string, n uint8, what string) ([]byte, error) {
	if int(n) < len(names) && names[n] != "" {
		return []byte(names[n]), nil
	}
	return nil, fmt.Errorf("%s %d does not exist", what, n)
}

func valueOf(names []string, text []byte, what string) (uint8, error) {
	for n, name := range names {
		if name != "" && name == string(text) {
			return uint8(n), nil
		}
	}
	return 0, fmt.Errorf("%s %q does not exist", what, text)
}
