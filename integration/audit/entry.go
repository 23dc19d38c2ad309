package audit

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/metamcp/metamcp/messages"
)

// Kind says what an entry is about; the list is closed.
type Kind string

// The kinds. Owners of a [Log] append calls, scripts and provisions; the log writes the
// others itself.
const (
	// KindCall is one execution of a tool, or another request to a server.
	KindCall Kind = "call"
	// KindExecute is one script of mcp_execute; each of its calls has an entry
	// of its own. Its Args are always hashed: code is not kept.
	KindExecute Kind = "execute"
	// KindProvision is one provisioning decision; its Decision is set.
	KindProvision Kind = "provision"
	// KindPins is what became of the definitions of a server's tools: its
	// Decision is "accepted" (the first listing), "changed" (tools are not as
	// accepted), "approved" (by a person) or "suspicious" (texts that read like
	// orders to a model), and its Reason names the tools.
	KindPins Kind = "pins"
	// KindStart is a host that began to write.
	KindStart Kind = "start"
	// KindStop is a host that ended in order.
	KindStop Kind = "stop"
	// KindGap counts entries that were lost at this place.
	KindGap Kind = "gap"
	// KindRotate is the first entry of every file but the first. It names the
	// oldest entry that is kept, since older files are deleted.
	KindRotate Kind = "rotate"
)

// OutcomeOK is the outcome of a call whose tool reports no failure. The others
// are "tool-error" (the tool's own isError), "rpc-error" (the child's JSON-RPC
// error) and the codes of messages.Error.
const OutcomeOK = "ok"

// Client is who asked, as it named itself; nobody has checked it.
type Client struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// Decision is what was decided about a server to provision, or about what its
// tools say.
type Decision struct {
	// Decision is in one word what happened: "local", "provisioned",
	// "recommended", "denied", "failed" or "nothing"; of pins as [KindPins] says.
	Decision   string  `json:"decision"`
	Source     string  `json:"source,omitempty"` // where the server is known from, as docs/PROVISION.md has it
	Package    string  `json:"package,omitempty"`
	Version    string  `json:"version,omitempty"`    // exactly what was pinned
	Confidence float64 `json:"confidence,omitempty"` // 0 to 1
	Trusted    bool    `json:"trusted,omitempty"`    // the namespace is allowed
	Gate       string  `json:"gate,omitempty"`       // the one that refused it
	Reason     string  `json:"reason,omitempty"`
}

// Entry is what an owner appends. The log keeps its slices and pointers until
// it has written them: nobody may change them after [Log.Append].
type Entry struct {
	Kind    Kind      // "": a call
	Time    time.Time // zero: now
	Session uint64    // of the client's connection; 0: none
	Client  Client
	Request uint64 // as in the trace; 0: none
	Server  string
	// Tool is what was called; "" where Method is set.
	Tool string
	// Method is that of a request that is no call of a tool, such as resources/read.
	Method string
	// Args are the call's arguments, or the request that a provisioning
	// decision answers: hashed, or scrubbed where they are written plain.
	Args        json.RawMessage
	Outcome     string // [OutcomeOK], "tool-error", "rpc-error" or a code
	Class       string // the error's class; "": none
	Duration    time.Duration
	ResultBytes int // of the result as the child sent it
	Retries     int // attempts after the first
	// Redacted says how many secrets of which kind were taken out of the result.
	Redacted map[string]int
	Decision *Decision

	lost   uint64 // of a gap
	found  string // of a start and a rotate: what was wrong with the chain
	oldest uint64 // of a rotate
}

// Bounds of what an entry may hold. Names come from clients, which may send
// anything.
const (
	maxName   = 256
	maxReason = 1024
	// maxPlainArgs bounds arguments that are written as they are; longer ones
	// are hashed.
	maxPlainArgs = 16 << 10
)

// eachName calls f for the texts of an entry that clients, or those who publish
// servers, may have made up.
func (e *Entry) eachName(f func(*string)) {
	f(&e.Client.Name)
	f(&e.Client.Version)
	f(&e.Server)
	f(&e.Tool)
	f(&e.Method)
	if d := e.Decision; d != nil {
		f(&d.Source)
		f(&d.Package)
		f(&d.Version)
	}
}

// Bound makes an entry its keeper's own, and bounds what waits with it beside its
// arguments. [Log.Append] does so itself.
func (e *Entry) Bound() {
	if e.Decision != nil {
		own := *e.Decision
		if math.IsNaN(own.Confidence) || math.IsInf(own.Confidence, 0) {
			own.Confidence = 0 // JSON has no such numbers
		}
		cut(&own.Decision, maxName)
		cut(&own.Gate, maxName)
		cut(&own.Reason, maxReason)
		e.Decision = &own
	}
	cut(&e.Outcome, maxName)
	cut(&e.Class, maxName)
	e.eachName(func(s *string) { *s = messages.RecordedName(*s) })
}

// cut shortens a text; the copy lets go of the long one.
func cut(s *string, most int) {
	const mark = "…"
	if len(*s) > most {
		*s = strings.ToValidUTF8(strings.Clone((*s)[:most-len(mark)]), "") + mark
	}
}
