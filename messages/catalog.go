package messages

import (
	"encoding/json"
	"time"
)

// Era is the generation of the protocol that a child speaks.
type Era string

// The eras. Legacy children open with initialize; modern ones are stateless
// and carry version and identity in every request.
const (
	EraUnknown Era = ""
	EraLegacy  Era = "legacy"
	EraModern  Era = "modern"
)

// Tool is one tool of a child.
type Tool struct {
	Server string
	*Definition
}

// Definition is a tool as its child described it. It never changes; servers that
// list the same share it.
type Definition struct {
	Name  string
	Title string
	// Description is at most some 64 KiB long; Raw has a longer one whole.
	Description string
	// Raw is the whole definition, byte for byte.
	Raw json.RawMessage
	// InputSchema, OutputSchema and Annotations are slices of Raw; nil where
	// the child gave none.
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	Annotations  json.RawMessage
	// ReadOnly and Idempotent repeat the hints of Annotations; both false
	// where there are none.
	ReadOnly   bool
	Idempotent bool
}

// Toolset is all that one server listed at one moment.
type Toolset struct {
	Server string
	Tools  []*Tool // in the child's order
	// Skipped counts definitions that were no tool at all (no name, wrong
	// type) and were left out.
	Skipped int
	Fetched time.Time
	// Live is true for a listing from a child of this host, which may have ended since,
	// and false for one that was read from the schema cache, which is never authoritative.
	Live bool
	// Instance is the connection whose child listed; 0 where that is not known.
	Instance uint64
	// Changes is how many changes of its list the connection's children had announced when
	// it began.
	Changes uint64
	// Era and Version are what the child spoke when it listed.
	Era     Era
	Version string
	// SpecHash is [ServerSpec.Hash] of the entry that it was listed under.
	SpecHash string
	// Instructions is what the child said of itself, or "".
	Instructions string
	// Offers is what the child said that it has.
	Offers Offers
	// ServerName and ServerVersion are the child's own identity.
	ServerName    string
	ServerVersion string
}
