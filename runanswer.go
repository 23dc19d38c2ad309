package metamcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// RunAnswer is what mcp_execute says of a script. It keeps to the configured
// token budget and says what it left out.
type RunAnswer struct {
	Error *RunError `json:"error,omitempty"`
	// Value is absent where the script returned undefined, or failed.
	Value json.RawMessage `json:"value,omitempty"`
	// Outline stands in place of an array or object that is over the budget:
	// its keys and first items, and how many there are of the others.
	Outline json.RawMessage `json:"valueOutline,omitempty"`
	// Beginning stands in place of any other value that is over the budget: the
	// beginning of its JSON text.
	Beginning string `json:"valueBeginning,omitempty"`
	// Result is the id by which a later script reads such a value.
	Result  string   `json:"result,omitempty"`
	Console []string `json:"console,omitempty"`
	// Calls are told one by one where they are few, else by CallTotals.
	Calls      []CallLine  `json:"calls,omitempty"`
	CallTotals []CallTotal `json:"callTotals,omitempty"`
	Notes      []string    `json:"notes,omitempty"`
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

// CallTotal is what the calls of one tool come to.
type CallTotal struct {
	Server    string  `json:"server"`
	Tool      string  `json:"tool"`
	Count     int     `json:"count"`
	TotalMs   float64 `json:"totalMs"`
	SlowestMs float64 `json:"slowestMs"`
	// Failed counts those that failed, by their code.
	Failed map[string]int `json:"failed,omitempty"`
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
	e.Hint = messages.HintSentence(e.Hint)
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
		left = max(left-tokens(a.Error), 0)
	}
	console := consoleLines(r.Console)
	calls, totals := TellCalls(r)
	callCosts := costs(calls) + costs(totals)
	wants := costs(console) + callCosts
	value := index.EstimateTokens(string(r.Value))
	// The value comes first, but never at the price of all that was said.
	reserved := min(costs(console), left/runShare) + min(callCosts, left/runShare)
	if len(r.Value) == 0 || value <= left-reserved {
		a.Value = r.Value
		left -= value
	} else {
		a.Result = keep(r.Value)
		note := cutNote(r.Value, a.Result)
		a.Notes = append(a.Notes, note)
		left -= index.EstimateTokens(note)
		if a.Outline = outline(r.Value, left-reserved); a.Outline == nil {
			a.Beginning = beginning(r.Value, left-reserved)
			left -= tokens(a.Beginning)
		} else {
			left -= index.EstimateTokens(string(a.Outline))
		}
	}
	if wants <= left && r.Dropped == 0 && r.MoreCalls == 0 {
		a.Console, a.Calls, a.CallTotals = console, calls, totals
	} else {
		a.fit(console, calls, totals, r, max(left, 0))
	}
	a.Notes = append(a.Notes, r.Notes...)
	return a
}

// fit shows as much of console and calls as the tokens pay for.
func (a *RunAnswer) fit(console []string, calls []CallLine, totals []CallTotal, r *RunResult, left int) {
	forCalls := max(min(costs(calls)+costs(totals), left/2), left-costs(console))
	budget := index.NewBudget(min(forCalls, left))
	a.Calls, _ = index.Cut(budget, calls, tokens)
	a.CallTotals, _ = index.Cut(budget, totals, tokens)
	left -= costs(a.Calls) + costs(a.CallTotals)
	if cut := append(totalsOf(calls[len(a.Calls):]), totals[len(a.CallTotals):]...); len(cut) > 0 || r.MoreCalls > 0 {
		a.Notes = append(a.Notes, moreCalls(cut, r.MoreCalls))
	}
	shown, dropped := middleOut(console, left)
	a.Console = shown
	if dropped += r.Dropped; dropped > 0 {
		a.Notes = append(a.Notes, counted(dropped, "console line is", "console lines are")+" left out; log less, or return what you need.")
	}
}

// moreCalls says what is not told: what is known of calls, and how many
// others there were.
func moreCalls(known []CallTotal, others int) string {
	failed := map[string]int{}
	for _, t := range known {
		others += t.Count
		for code, n := range t.Failed {
			failed[code] += n
		}
	}
	note := counted(others, "more call is", "more calls are") + " not listed"
	if len(failed) == 0 {
		return note + "."
	}
	var counts []string
	for _, code := range slices.Sorted(maps.Keys(failed)) {
		counts = append(counts, fmt.Sprintf("%d %s", failed[code], code))
	}
	return note + ", of which failed: " + strings.Join(counts, ", ") + "."
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
		short[i] = messages.Cut(l, maxLineShown)
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

// maxCallLines is how many calls an answer tells one by one.
const maxCallLines = 20

// TellCalls tells the calls of a script as an answer does: up to 20 one by one,
// in the order in which they ended, and more of them by a total for each tool,
// the one with the most calls first. One of the two lists is empty.
func TellCalls(r *RunResult) ([]CallLine, []CallTotal) {
	lines := make([]CallLine, len(r.Calls))
	for i, c := range r.Calls {
		lines[i] = CallLine{Server: c.Server, Tool: c.Tool, Ms: roundedMs(c.Took)}
		if c.Outcome != outcomeOK {
			lines[i].Error = c.Outcome
		}
	}
	if len(lines) <= maxCallLines {
		return lines, nil
	}
	return nil, totalsOf(lines)
}

func totalsOf(lines []CallLine) []CallTotal {
	type tool struct{ server, name string }
	var totals []CallTotal
	at := map[tool]int{}
	for _, l := range lines {
		i, seen := at[tool{l.Server, l.Tool}]
		if !seen {
			i = len(totals)
			at[tool{l.Server, l.Tool}] = i
			totals = append(totals, CallTotal{Server: l.Server, Tool: l.Tool})
		}
		t := &totals[i]
		t.Count++
		t.TotalMs = math.Round((t.TotalMs+l.Ms)*10) / 10
		t.SlowestMs = max(t.SlowestMs, l.Ms)
		if l.Error != "" {
			if t.Failed == nil {
				t.Failed = map[string]int{}
			}
			t.Failed[l.Error]++
		}
	}
	slices.SortStableFunc(totals, func(a, b CallTotal) int { return b.Count - a.Count })
	return totals
}

func roundedMs(d time.Duration) float64 { return float64(d.Microseconds()/100) / 10 }

func costs[T any](items []T) int {
	sum := 0
	for _, i := range items {
		sum += tokens(i)
	}
	return sum
}

// boundError cuts what a script can make as long as it likes.
func boundError(e *RunError, left int) *RunError {
	most := max(left/4, 40) // of each text
	for _, text := range []*string{&e.Message, &e.Hint, &e.Excerpt, &e.Stack} {
		*text = cutTokens(*text, most)
	}
	details := index.NewBudget(left / 2)
	e.Details, _ = index.Cut(details, e.Details, tokens)
	return e
}

// cutTokens is as much of a text as so many tokens pay for, escaped as it is in
// an answer.
func cutTokens(text string, most int) string {
	whole := len(text)
	for tokens(text) > most {
		text = text[:min(len(text)*3/4, most*3)]
	}
	if len(text) == whole {
		return text
	}
	return strings.ToValidUTF8(text, "") + "…"
}

// beginning is as much of a JSON text as so many tokens pay for.
func beginning(value json.RawMessage, most int) string {
	text := string(value[:min(len(value), max(most, 0)*3)])
	for len(text) > 0 && tokens(text) > most {
		text = text[:len(text)*3/4]
	}
	return strings.ToValidUTF8(text, "")
}

// cutNote says what a value is of which a part alone is shown, and how to read
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
				keys = append(keys, messages.Cut(k, 40))
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
