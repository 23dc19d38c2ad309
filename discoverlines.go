package metamcp

import (
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/integration/typescript"
	"github.com/metamcp/metamcp/messages"
)

// ServerLine is one server in a list. Tools is nil while its tools are not
// known; Enabled also where all of them are.
type ServerLine struct {
	Name        string `json:"name"`
	State       string `json:"state"`
	Connected   bool   `json:"connected,omitempty"`
	Tools       *int   `json:"tools,omitempty"`
	Enabled     *int   `json:"enabled,omitempty"`
	Description string `json:"description,omitempty"`
	Held        int    `json:"held,omitempty"`       // tools closed until the user accepts them
	Changed     int    `json:"changed,omitempty"`    // tools that are not as accepted
	Suspicious  int    `json:"suspicious,omitempty"` // tools with texts that read like orders
	Class       string `json:"class,omitempty"`
	Error       string `json:"error,omitempty"`
	RetryInMs   int64  `json:"retryInMs,omitempty"`
	Disabled    bool   `json:"disabled,omitempty"`
}

// ToolLine is one tool in a server's list.
type ToolLine struct {
	Name    string          `json:"name"`
	Summary string          `json:"summary,omitempty"`
	Tags    []string        `json:"tags,omitempty"`
	Schema  json.RawMessage `json:"inputSchema,omitempty"`
	// Signature is, where detail is "full", the tool as code calls it: what it
	// takes and gives in TypeScript, made from both schemas. "" where none can
	// be made of them.
	Signature string `json:"signature,omitempty"`
	Marks
}

// Marks are what is to be said of a tool's definition.
type Marks struct {
	Hidden bool `json:"hiddenText,omitempty"` // it held characters that nobody sees
	// Suspicious are the kinds of text in it that read like orders to a model;
	// "unexamined": there is too much of it to tell.
	Suspicious []string `json:"suspicious,omitempty"`
	// Changed is "changed" or "new" where it is not as it was accepted.
	Changed ToolChange `json:"changed,omitempty"`
}

// marks of a definition, of which part is shown; hidden says whether that part
// held characters that nobody sees.
func marks(r *messages.ToolReview, hidden bool) Marks {
	m := Marks{Hidden: hidden}
	if r == nil {
		return m
	}
	m.Changed = r.Change
	for _, sign := range r.Signs {
		if sign == pins.SignHidden {
			m.Hidden = true
			continue
		}
		m.Suspicious = append(m.Suspicious, sign)
	}
	return m
}

// markNotes explains the marks of tools, each with its server.
func markNotes(budget *index.Budget, all iter.Seq2[string, Marks]) (notes []string) {
	var hidden, suspicious, unexamined bool
	var changed []string
	for server, m := range all {
		hidden = hidden || m.Hidden
		if m.Changed != "" && !slices.Contains(changed, server) {
			changed = append(changed, server)
		}
		for _, sign := range m.Suspicious {
			suspicious, unexamined = suspicious || sign != pins.SignUnexamined, unexamined || sign == pins.SignUnexamined
		}
	}
	if hidden {
		notes = append(notes, hiddenNote)
	}
	if suspicious {
		notes = append(notes, suspiciousNote)
	}
	if unexamined {
		notes = append(notes, unexaminedNote)
	}
	if len(changed) > 0 {
		notes = append(notes, changedNote(changed, budget))
	}
	return notes
}

// matchMarks are the marks of matches.
func matchMarks(matches []MatchLine) iter.Seq2[string, Marks] {
	return func(yield func(string, Marks) bool) {
		for i := range matches {
			if !yield(matches[i].Server, matches[i].Marks) {
				return
			}
		}
	}
}

// ToolWhole is one tool with the child's own definition, but for characters
// that nobody sees. Of a tool that rules close, only that is told.
type ToolWhole struct {
	Enabled    bool            `json:"enabled"`
	Tags       []string        `json:"tags,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"`
	Signature  string          `json:"signature,omitempty"` // as in [ToolLine], always
	Marks
}

// MatchLine is one match of a query.
type MatchLine struct {
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Summary   string          `json:"summary,omitempty"`
	Score     float64         `json:"score"`
	Connected bool            `json:"connected,omitempty"`
	Tags      []string        `json:"tags,omitempty"`
	Schema    json.RawMessage `json:"inputSchema,omitempty"`
	Signature string          `json:"signature,omitempty"` // as in [ToolLine]
	Marks
}

// FailedLine is one server that could not be asked.
type FailedLine struct {
	Server    string `json:"server"`
	Class     string `json:"class,omitempty"`
	Error     string `json:"error"`
	RetryInMs int64  `json:"retryInMs,omitempty"` // it takes no calls before
}

// affordable is the beginning of a list of names that a note has room for.
func affordable(budget *index.Budget, names []string) []string {
	names, _ = index.Cut(budget, names[:min(len(names), namedTools)], func(name string) int { return index.EstimateTokens(name + ", ") })
	return names
}

// byAccess tells the tools of a server that can be called from those that are held back,
// and from those that tool rules disable, which are counted.
func byAccess(known *index.ServerEntry) (open, held []*index.Entry, disabled int) {
	for _, t := range known.Entries {
		switch {
		case t.Enabled:
			open = append(open, t)
		case t.Review != nil && t.Review.Held:
			held = append(held, t)
		}
	}
	return open, held, len(known.Entries) - len(open) - len(held)
}

// closedNotes says which tools of a server cannot be called, and why.
func closedNotes(server string, held []*index.Entry, disabled int, budget *index.Budget) (notes []string) {
	if disabled > 0 {
		notes = append(notes, strconv.Itoa(disabled)+" more tools are disabled by tool rules.")
	}
	if len(held) > 0 {
		notes = append(notes, heldNote(server, held, budget))
	}
	return notes
}

// heldNote says which tools are held back. A new one is only counted: nobody has
// accepted even its name.
func heldNote(server string, held []*index.Entry, budget *index.Budget) string {
	var names []string
	for _, t := range held {
		if t.Review.Change != messages.ToolNew {
			names = append(names, t.Tool.Name)
		}
	}
	text := counted(len(held), "more tool is held back", "more tools are held back")
	if names = affordable(budget, names); len(names) > 0 {
		text += " (" + strings.Join(names, ", ")
		if more := len(held) - len(names); more > 0 {
			text += " and " + strconv.Itoa(more) + " more"
		}
		text += ")"
	}
	return text + ", since the definition is not the one that the user accepted. " + heldHint(server)
}

// heldHint says what becomes of a server's tools that are held back.
func heldHint(server string) string {
	server = messages.ShellWord(server)
	return "The user can look with metamcp pins diff " + server + " and accept it with metamcp approve " + server + "."
}

func toolLine(t *index.Entry, full bool) ToolLine {
	description, hidden := index.Plain(t.Tool.Description)
	l := ToolLine{Name: t.Tool.Name, Summary: summary(description), Tags: t.Tags, Marks: marks(t.Review, hidden)}
	if full {
		l.Summary = description
		l.Schema, hidden = shownSchema(t.Tool.InputSchema)
		l.Hidden = l.Hidden || hidden
		l.Signature, hidden = signature(t.Tool)
		l.Hidden = l.Hidden || hidden
	}
	return l
}

// signature is a tool in TypeScript, which holds nothing that nobody sees;
// hidden says that the schema of its result does, which a list shows nowhere
// else.
func signature(t *messages.Tool) (text string, hidden bool) {
	_, hidden = index.PlainJSON(t.OutputSchema)
	description, _ := index.Plain(t.Description)
	return typescript.Signature(typescript.Tool{
		Server: t.Server, Name: t.Name, Description: description, Input: t.InputSchema, Output: t.OutputSchema,
	}), hidden
}

// SchemasNote goes with lists of which some tools have no schema for want of room. Who
// shows a list without its schemas leaves it out; [DiscoverAnswer.SignaturesCut] says
// whether more is missing.
const SchemasNote = "Some schemas are left out; mcp_discover with server and tool shows one."

// A fitter puts lines of tools into the budget of an answer: whole, or with less of
// them where that is what there is room for.
type fitter struct {
	budget *index.Budget
	short  bool // a line has less than it should, which SchemasNote says
	// signatures says that a line in the list has lost its signature.
	signatures bool
	away       []string // the notes on servers of lines that take no calls for now
}

// fit spends what a line costs, with a note beside it, after as many of the cuts of the
// line as that takes, in their order. false: there is no room for both whatever is cut,
// and nothing is spent. The first line that is cut pays for SchemasNote, too.
func fit[T any](f *fitter, line *T, beside string, cuts ...func(*T)) bool {
	extra := noteTokens(beside)
	if f.budget.Spend(tokens(line) + extra) {
		return true
	}
	if !f.short {
		extra += tokens(SchemasNote)
	}
	for _, cut := range cuts {
		cut(line)
		if f.budget.Spend(tokens(line) + extra) {
			f.short = true
			return true
		}
	}
	return false
}

// notes says what the lines have not, and which servers of them take no calls.
func (f *fitter) notes() (notes []string) {
	if f.short {
		notes = append(notes, SchemasNote)
	}
	return append(notes, f.away...)
}

// matchLines are as many matches as the budget has room for, the first with
// their schemas. The first of a server that takes no calls for now pays for the note
// on that as well. omitted counts the others.
func (f *fitter) matchLines(matches []Match, schemas int, signatures bool, away func(server string) *awayNote) (lines []MatchLine, omitted int) {
	lines = []MatchLine{}
	asked := map[string]bool{}
	for i := range matches {
		l := matchLine(&matches[i], i < schemas, signatures)
		var note *awayNote
		if !asked[l.Server] {
			asked[l.Server] = true
			note = away(l.Server)
		}
		if note != nil && f.budget.Spend(tokens(l)+noteTokens(note.whole)) {
			f.away = append(f.away, note.whole)
			lines = append(lines, l)
			continue
		}
		signature := l.Signature
		// The signature says most of what the schema does, in fewer words.
		if !fit(f, &l, note.inBrief(), func(l *MatchLine) { l.Schema = nil }, func(l *MatchLine) { l.Signature = "" }) {
			return lines, len(matches) - i
		}
		if note != nil {
			f.away = append(f.away, note.brief)
		}
		f.signatures = f.signatures || l.Signature != signature
		lines = append(lines, l)
	}
	return lines, 0
}

// toolLines are as many of a server's tools as the budget has room for.
func (f *fitter) toolLines(tools []*index.Entry, full bool) (lines []ToolLine) {
	var cuts []func(*ToolLine)
	if full {
		cuts = []func(*ToolLine){
			func(l *ToolLine) { l.Schema = nil }, func(l *ToolLine) { l.Signature = "" }, func(l *ToolLine) { l.Summary = summary(l.Summary) },
		}
	}
	for _, t := range tools {
		l := toolLine(t, full)
		signature := l.Signature
		if !fit(f, &l, "", cuts...) {
			break
		}
		f.signatures = f.signatures || l.Signature != signature
		lines = append(lines, l)
	}
	return lines
}

// awayNote says that a server takes no calls for now: whole with the reason, brief
// where there is no room for that.
type awayNote struct{ whole, brief string }

// inBrief is the brief note; "": there is none.
func (n *awayNote) inBrief() string {
	if n == nil {
		return ""
	}
	return n.brief
}

// noteTokens is what a note costs in an answer; "" costs nothing.
func noteTokens(note string) int {
	if note == "" {
		return 0
	}
	return tokens(note) + 1 // with the comma behind it
}

// awayNote is the note on a server that takes no calls for now; nil: it takes them.
func (e *Engine) awayNote(server string) *awayNote {
	why, until := e.away(server)
	if why == nil {
		return nil
	}
	text := "Do not call " + server + " in the next " + max(time.Until(until), time.Second).Round(time.Second).String()
	return &awayNote{text + ": " + why.Message, text + "."}
}

// awayBeside is the note on the one server that an answer is about, paid for before
// its lists. Nothing: it takes calls.
func (e *Engine) awayBeside(server string, budget *index.Budget) []string {
	note := e.awayNote(server)
	switch {
	case note == nil:
		return nil
	case budget.Spend(noteTokens(note.whole)):
		return []string{note.whole}
	}
	budget.Spend(noteTokens(note.brief)) // it is said in any case
	return []string{note.brief}
}

// awayNotes say which servers take no calls for now, as far as the budget has room,
// and how many more there are. Of those that failed this is said elsewhere.
func (e *Engine) awayNotes(servers iter.Seq[string], failed map[string]*Error, budget *index.Budget) (notes []string) {
	more := 0
	for name := range servers {
		if failed[name] != nil {
			continue
		}
		switch note := e.awayNote(name); {
		case note == nil:
		case more == 0 && len(notes) < namedTools && budget.Spend(noteTokens(note.whole)):
			notes = append(notes, note.whole)
		default:
			more++
		}
	}
	if more > 0 {
		notes = append(notes, counted(more, "more server takes", "more servers take")+" no calls for now; mcp_discover without arguments lists them.")
	}
	return notes
}

// heldNotes says of which servers tools are held back, that a query would have
// found otherwise.
func (e *Engine) heldNotes(only string, budget *index.Budget) []string {
	var names []string
	tools := 0
	for _, s := range e.core.Catalog().Held() {
		if only != "" && s.Toolset.Server != only {
			continue
		}
		for _, r := range s.Review().Tools {
			tools += one(r.Held)
		}
		names = append(names, s.Toolset.Server)
	}
	if tools == 0 {
		return nil
	}
	of := counted(len(names), "server", "servers")
	if named := affordable(budget, names); len(named) > 0 {
		of = strings.Join(named, ", ")
		if more := len(names) - len(named); more > 0 {
			of += " and " + strconv.Itoa(more) + " more"
		}
	}
	text := "Some tools (" + strconv.Itoa(tools) + ") of " + of + " are held back, since their definitions are not those that the user accepted"
	if len(names) > 1 {
		return []string{text + "; mcp_discover with server says more."}
	}
	return []string{text + ". " + heldHint(names[0])}
}

func matchLine(m *Match, withSchema, withSignature bool) MatchLine {
	l := MatchLine{
		Server: m.Server, Tool: m.Name, Summary: m.Summary, Score: math.Round(m.Score*1000) / 1000,
		Connected: m.Connected, Tags: m.Tags, Marks: marks(m.review, m.HiddenText),
	}
	if withSchema {
		var hidden bool
		l.Schema, hidden = shownSchema(m.InputSchema)
		l.Hidden = l.Hidden || hidden
	}
	if withSignature {
		var hidden bool
		l.Signature, hidden = signature(m.listed)
		l.Hidden = l.Hidden || hidden
	}
	return l
}

// shownSchema is a schema in a list: without characters that nobody sees, which
// hidden tells, and without the name of its dialect, which tells nobody how to
// call a tool.
func shownSchema(raw json.RawMessage) (schema json.RawMessage, hidden bool) {
	schema, hidden = index.PlainJSON(raw)
	return jsonrpc.Without(schema, "$schema"), hidden
}
