package messages

import (
	"encoding/json"
	"sync/atomic"
	"time"
)

// ProvisionConsent says who wants a server to be installed.
type ProvisionConsent uint8

// The consents.
const (
	// ConsentNone: nobody; what is found is recommended.
	ConsentNone ProvisionConsent = iota
	// ConsentAsked: the caller asked for it; every gate of trust decides.
	ConsentAsked
	// ConsentForbidden: the caller asked for it, and may not.
	ConsentForbidden
	// ConsentPerson: a person saw what would be installed and said yes, which
	// stands in for trust in it, not for a gate that says what never may be.
	ConsentPerson
)

// Provision asks the provisioner for a server that does what somebody needs.
type Provision struct {
	Meta
	ID      uint64 // unique in this host, also among calls
	Intent  string // what is needed; it may name the server
	Context string // what else was said; it names nothing
	Consent ProvisionConsent
	// Choice is the [ProvisionOption.Key] of the one that a person chose; "": the
	// best is taken.
	Choice string
	// ChoiceVersion is the version in which a person saw it; "": in none.
	ChoiceVersion string
	// DryRun finds out what would be installed, and installs nothing.
	DryRun bool
	// Env are variables for the server, by name. A secret is a reference to one:
	// what is here may be written to disk.
	Env map[string]string
	// Cancelled is set once the caller has given up.
	Cancelled *atomic.Bool
	Reply     ProvisionPort
}

// ProvisionPort hears of a provision. Its methods are called one at a time, in
// order, and never block.
type ProvisionPort interface {
	// Stepped says what is being done now.
	Stepped(s ProvisionStep)
	// Ended comes exactly once, and last.
	Ended(r *ProvisionReport)
}

// ProvisionStep is one step on the way to a running server.
type ProvisionStep struct {
	Number int    // that of the step, from 1 and growing
	Text   string // what is being done, for people
}

// ProvisionDecision says in one word what became of a request; the list is
// closed.
type ProvisionDecision string

// The decisions.
const (
	// DecisionLocal: a server that is configured already does it.
	DecisionLocal ProvisionDecision = "local"
	// DecisionProvisioned: a server was installed, has started and listed its
	// tools.
	DecisionProvisioned ProvisionDecision = "provisioned"
	// DecisionRecommended: servers were found, and nobody asked to install one.
	DecisionRecommended ProvisionDecision = "recommended"
	// DecisionDenied: it cannot be had: a gate of trust was closed, values are
	// missing, or it is there and cannot be used as it is.
	DecisionDenied ProvisionDecision = "denied"
	// DecisionFailed: something broke on the way; nothing is left of it.
	DecisionFailed ProvisionDecision = "failed"
	// DecisionNothing: no server fits.
	DecisionNothing ProvisionDecision = "nothing"
)

// ProvisionReport is what came out of a provision.
type ProvisionReport struct {
	Decision   ProvisionDecision
	Source     string  // "local", "registry", "cache", "built-in", "gallery" or "name"
	Confidence float64 // of what was chosen, 0 to 1
	// Server is the one that can be called now; "": none was made so.
	Server string
	// Package and Version are what was chosen; Version is exact, "" where it was
	// not asked for.
	Package, Version string
	Trusted          bool   // every gate about the server itself is open
	Gate             string // the first that is closed; "": none
	Reason           string // why, or who allowed it
	// Local are tools of configured servers that fit, best first.
	Local []ProvisionTool
	// Options are servers that could be installed, best first.
	Options []ProvisionOption
	// Unknown are names in the intent that nobody knows.
	Unknown []string
	// Missing are values that the chosen one needs and nobody has given.
	Missing []ProvisionVariable
	// Notes are for the reader: what was not as it should be.
	Notes []string
	// Err is set where the decision is [DecisionFailed], and says why one is
	// [DecisionDenied].
	Err  *Error
	Took time.Duration
}

// ProvisionTool is a tool of a configured server that fits.
type ProvisionTool struct {
	Server, Tool string
	Confidence   float64
}

// ProvisionOption is one server that could be installed.
type ProvisionOption struct {
	// Key tells it from all others: its kind and package, such as
	// npm:@scope/name.
	Key         string `json:"key"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Registered is its name in the registry; "" where none vouches for it.
	Registered string  `json:"registered,omitempty"`
	Version    string  `json:"version,omitempty"`
	Status     string  `json:"status,omitempty"` // "": active
	Confidence float64 `json:"confidence"`
	Trusted    bool    `json:"trusted"`
	// Gate is the first that is closed, Reason why; more of them are in Closed.
	Gate   string   `json:"gate,omitempty"`
	Reason string   `json:"reason,omitempty"`
	Closed []string `json:"alsoClosed,omitempty"`
	// TrustedBy is the entry of the trust file that trusts it.
	TrustedBy string `json:"trustedBy,omitempty"`
	// Suspicious are the kinds of text in what it says of itself that read like orders
	// to a model; its texts are left out then.
	Suspicious []string `json:"suspicious,omitempty"`
	// Add is the command by which a person adds it to the configuration; "": it
	// cannot be added so.
	Add string `json:"addCommand,omitempty"`
	// Install is the command that a person would type to try it.
	Install string `json:"installCommand,omitempty"`
	// Entry is ready for the mcpServers of a configuration: {"name": {…}}.
	Entry       json.RawMessage     `json:"entry,omitempty"`
	Environment []ProvisionVariable `json:"environment,omitempty"`
	Problem     string              `json:"problem,omitempty"` // why it cannot be installed by metamcp
}

// ProvisionVariable is a value that a server wants: an environment variable,
// mostly. It never holds a value that somebody gave.
type ProvisionVariable struct {
	Name string `json:"name"`
	// Place is "argument", "header" or "url"; "": it is an environment variable.
	Place       string   `json:"place,omitempty"`
	Description string   `json:"description,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Secret      bool     `json:"secret,omitempty"`
	Default     string   `json:"default,omitempty"`
	Choices     []string `json:"choices,omitempty"`
	Missing     bool     `json:"missing,omitempty"` // required, and not set
}

// ProvisionStatus is how the provisioner does.
type ProvisionStatus struct {
	// Looking counts requests whose answer is being looked for, Installing the
	// packages that are being installed.
	Looking    int      `json:"looking"`
	Installing []string `json:"installing,omitempty"`
	// Decisions counts what came of requests since the host started.
	Decisions map[ProvisionDecision]uint64 `json:"decisions,omitempty"`
}

// PayloadBytes is the size of what was said, for the trace.
func (p *Provision) PayloadBytes() int { return len(p.Intent) + len(p.Context) }
