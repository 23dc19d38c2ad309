package messages

// PinMode says what becomes of tools whose definition is not the accepted one.
type PinMode string

// The modes.
const (
	PinsOff  PinMode = "off"  // nothing is compared
	PinsWarn PinMode = "warn" // it is told
	PinsHold PinMode = "hold" // it is told, and they are closed until a person accepts them
)

// ToolChange is how a tool's definition stands to the accepted one.
type ToolChange string

// The changes; "" is none.
const (
	ToolAltered ToolChange = "changed" // another definition was accepted
	ToolNew     ToolChange = "new"     // the server had no such tool when its tools were accepted
)

// ToolReview is what is to be said of a tool beside its definition. It never
// changes.
type ToolReview struct {
	Change ToolChange
	// Parts are what of a changed definition differs, such as "description".
	Parts []string
	// Signs are the kinds of text in the definition by which somebody may want
	// to give orders to a model, such as "override", or
	// "unexamined" of one that is too long to tell; empty: none was seen.
	Signs []string
	// Held closes the tool until a person accepts it.
	Held bool
	// Problem is why the accepted definitions are not known, of a tool that is
	// held for that; "" otherwise.
	Problem string
}

// Review is what was found when a listing was compared with what had been
// accepted of its server. It never changes.
type Review struct {
	// Tools are those of which there is something to say, by name.
	Tools map[string]*ToolReview
	// Problem is why what was accepted is not known, or "".
	Problem string
	// Unrecorded says that the record of what differs is not up to date.
	Unrecorded bool
	// Unwritten says that the record could not be written, so that it is to be tried
	// again also where the server says nothing new.
	Unwritten bool
}

// Of returns what is to be said of a tool, or nil. It may be called on nil.
func (r *Review) Of(tool string) *ToolReview {
	if r == nil {
		return nil
	}
	return r.Tools[tool]
}

// Accepted is what has been accepted of one server's tools. It never changes.
type Accepted interface {
	// Pinned says whether anything was accepted, so that there is something to
	// compare with.
	Pinned() bool
	// Approvals counts how often a person has said what is accepted.
	Approvals() int
	// Review compares a listing with it. It takes some microseconds for each
	// tool, touches no disk and is never nil.
	Review(ts *Toolset, mode PinMode) *Review
}
