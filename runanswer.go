package metamcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// RunAnswer is what mcp_execute says of a script. It keeps to the configured
// token budget and says what it left out.
type RunAnswer struct {
	Error *RunError `json:"error,omitempty"`
	// Value is absent where the script returned undefined, or failed.
	Value json.RawMessage `json:"value,omitempty"`
	// Beginning stands in place of a value that is over the budget: the
	// beginning of its JSON text.
	Beginning string `json:"valueBeginning,omitempty"`
	// Result is the id by which a later script reads such a value.
	Result  string     `json:"result,omitempty"`
	Console []string   `json:"console,omitempty"`
	Calls   []CallLine `json:"calls,omitempty"`
	Notes   []string   `json:"notes,omitempty"`
}

// RunError is why a script has no value.
type RunError struct {
	Code         messages.Code `json:"code"`
	Kind         string        `json:"kind,omitempty"` // of the failure: syntax, exception, timeout, memory, …
	Message      string        `json:"message"`
	Server       string        `json:"server,omitempty"` // of the call whose error nobody caught
	Tool         string        `json:"tool,omitempty"`
	Class        string        `json:"class,omitempty"`
	Retryable    bool          `json:"retryable"`
	RetryAfterMs int64         `json:"retryAfterMs,omitempty"`
	Hint         string        `json:"hint,omitempty"`
	Line         int           `json:"line,omitempty"` // of the script's source, from 1
	Column       int           `json:"column,omitempty"`
	Excerpt      string        `json:"excerpt,omitempty"` // the line, and a caret below
	Stack        string        `json:"stack,omitempty"`
	Details      []string      `json:"details,omitempty"`
}

// CallLine is one call that a script made.
type CallLine struct {
	Server string  `json:"server"`
	Tool   string  `json:"tool"`
	Ms     float64 `json:"ms"`
	Error  string  `json:"error,omitempty"` // the code; "": it worked
}

// Error returns code and message, for people.
func (e *RunError) Error() string { return string(e.Code) + ": " + e.Message }

// NewRunError is a failure as an answer tells it.
func NewRunError(f *RunFailure) *RunError {
	e := &RunError{
		Code: f.Code(), Kind: string(f.Kind), Message: f.Message, Hint: f.Hint,
		Line: f.Line, Column: f.Column, Excerpt: f.Excerpt, Stack: f.Stack,
	}
	if t := f.Thrown; t != nil {
		e.Server, e.Tool, e.Class, e.Retryable, e.RetryAfterMs, e.Details = t.Server, t.Tool, t.Class, t.Retryable, t.RetryAfterMs, t.Details
		if t.Hint != "" {
			e.Hint = t.Hint
		}
	}
	if e.Hint == "" {
		e.Hint = "Correct the script; what it had called before has happened."
	}
	return e
}

// runShare is which part of the budget console and calls get at least, each,
// where the value alone would take it all.
const runShare = 4

// answerOf makes the answer to a client. keep keeps a value that is too long
// for it and returns the id by which it is read, "" where it could not.
func (e *Engine) answerOf(r *RunResult, keep func(json.RawMessage) string) *RunAnswer {
	a := &RunAnswer{}
	left := e.Config().Settings.Search.BudgetTokens - answerFrame
	if r.Failure != nil {
		a.Error = boundError(NewRunError(r.Failure), left/2)
		left -= tokens(a.Error)
	}
	console, calls := consoleLines(r.Console), CallLines(r.Calls)
	wants := costs(console) + costs(calls)
	value := index.EstimateTokens(string(r.Value))
	// The value comes first, but never at the price of all that was said.
	reserved := min(costs(console), left/runShare) + min(costs(calls), left/runShare)
	if value <= left-reserved {
		a.Value = r.Value
		left -= value
	} else {
		a.Beginning = beginning(r.Value, left-reserved)
		a.Result = keep(r.Value)
		a.Notes = append(a.Notes, cutNote(r.Value, a.Result))
		left -= tokens(a.Beginning)
	}
	if wants <= left && r.Dropped == 0 && r.MoreCalls == 0 {
		a.Console, a.Calls = console, calls
	} else {
		a.fit(console, calls, r, max(left, 0))
	}
	if r.NotAwaited > 0 {
		a.Notes = append(a.Notes, counted(r.NotAwaited, "call was", "calls were")+" not awaited and cancelled when the script returned; await every call.")
	}
	return a
}

// fit shows as much of console and calls as the tokens pay for.
func (a *RunAnswer) fit(console []string, calls []CallLine, r *RunResult, left int) {
	forCalls := max(min(costs(calls), left/2), left-costs(console))
	budget := index.NewBudget(min(forCalls, left))
	kept, cut := index.Cut(budget, calls, tokens)
	a.Calls = kept
	if cut += r.MoreCalls; cut > 0 {
		a.Notes = append(a.Notes, moreCalls(calls[len(kept):], cut))
	}
	for _, l := range kept {
		left -= tokens(l)
	}
	shown, dropped := middleOut(console, left)
	a.Console = shown
	if dropped += r.Dropped; dropped > 0 {
		a.Notes = append(a.Notes, counted(dropped, "console line is", "console lines are")+" left out; log less, or return what you need.")
	}
}

// moreCalls says what is not listed.
func moreCalls(known []CallLine, all int) string {
	failed := map[string]int{}
	var codes []string
	for _, l := range known {
		if l.Error != "" {
			if failed[l.Error]++; failed[l.Error] == 1 {
				codes = append(codes, l.Error)
			}
		}
	}
	note := counted(all, "more call is", "more calls are") + " not listed"
	if len(codes) == 0 {
		return note + "."
	}
	slices.Sort(codes)
	for i, code := range codes {
		codes[i] = fmt.Sprintf("%d %s", failed[code], code)
	}
	return note + ", of which failed: " + strings.Join(codes, ", ") + "."
}

// maxLineShown is what is shown of one console line, in bytes, where not all
// of them can be.
const maxLineShown = 500

// middleOut keeps the beginning and the end of the console.
func middleOut(lines []string, left int) (shown []string, dropped int) {
	if costs(lines) <= left {
		return lines, 0
	}
	short := make([]string, len(lines))
	for i, l := range lines {
		short[i] = cutBytes(l, maxLineShown)
	}
	head, tail := 0, len(short)
	for head < tail {
		// In turn from both ends.
		i := head
		if head > len(short)-tail {
			i = tail - 1
		}
		cost := tokens(short[i])
		if cost > left {
			break
		}
		left -= cost
		if i == head {
			head++
		} else {
			tail--
		}
	}
	if head == tail {
		return short, 0
	}
	shown = append(slices.Clone(short[:head]), "…")
	return append(shown, short[tail:]...), tail - head
}

func consoleLines(lines []ConsoleLine) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.Text
		if l.Level != "log" {
			out[i] = l.Level + ": " + l.Text
		}
	}
	return out
}

// CallLines are calls as an answer tells them.
func CallLines(calls []RunCall) []CallLine {
	out := make([]CallLine, len(calls))
	for i, c := range calls {
		out[i] = CallLine{Server: c.Server, Tool: c.Tool, Ms: float64(c.Took.Microseconds()/100) / 10}
		if c.Outcome != outcomeOK {
			out[i].Error = c.Outcome
		}
	}
	return out
}

func costs[T any](items []T) int {
	sum := 0
	for _, i := range items {
		sum += tokens(i)
	}
	return sum
}

// boundError cuts what a script can make as long as it likes.
func boundError(e *RunError, left int) *RunError {
	most := max(left, 100) // each text; a token has some three bytes
	for _, text := range []*string{&e.Message, &e.Hint, &e.Excerpt, &e.Stack} {
		*text = cutBytes(*text, most)
	}
	details := index.NewBudget(left / 2)
	e.Details, _ = index.Cut(details, e.Details, tokens)
	return e
}

func cutBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// beginning is as much of a JSON text as so many tokens pay for.
func beginning(value json.RawMessage, most int) string {
	text := string(value[:min(len(value), max(most, 0)*3)])
	for len(text) > 0 && tokens(text) > most {
		text = text[:len(text)*3/4]
	}
	return strings.ToValidUTF8(text, "")
}

// cutNote says what a value is whose beginning alone is shown, and how to read
// the rest.
func cutNote(value json.RawMessage, id string) string {
	note := fmt.Sprintf("The value, %s of %d bytes, is too long for an answer.", shapeOf(value), len(value))
	if id == "" {
		return note + " It was not kept; return less, a summary for instance."
	}
	return note + " It is kept for this session: a later script reads it with await results." + id + " and can return a part or a summary."
}

// shapeOf says in a few words what a JSON value is.
func shapeOf(value json.RawMessage) string {
	switch value = bytes.TrimSpace(value); value[0] {
	case '[':
		var items []json.RawMessage
		if json.Unmarshal(value, &items) == nil {
			return fmt.Sprintf("an array of %d items", len(items))
		}
		return "an array"
	case '{':
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) == nil {
			keys := make([]string, 0, len(members))
			for k := range members {
				keys = append(keys, cutBytes(k, 40))
			}
			slices.Sort(keys)
			const few = 10
			if len(keys) > few {
				return fmt.Sprintf("an object with %d keys (%s, …)", len(members), strings.Join(keys[:few], ", "))
			}
			return "an object with the keys " + strings.Join(keys, ", ")
		}
		return "an object"
	case '"':
		return "a string"
	}
	return "a value"
}
