package pins

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/metamcp/metamcp/integration/regular"
)

// fileVersion is the version of a file's format. A file of another one is not
// used, and is left as it is.
const fileVersion = 1

// Bounds of one server's file.
const (
	maxFile = 64 << 20 // bytes
	// maxDefinition bounds a definition that is kept for diffs, and
	// maxDefinitions all of one server; of the others only the print is.
	maxDefinition  = 64 << 10
	maxDefinitions = 8 << 20
)

// A Pin is one accepted definition of a tool, or one that was seen and is not
// accepted yet.
type Pin struct {
	Print Print
	// Definition is in its one spelling; nil where it was too large to be kept.
	Definition json.RawMessage
	Signs      []string // as [Signs] returns them
	raw        [sha256.Size]byte
}

// text is the definition where it is kept and is the one whose print stands
// beside it: somebody may have changed the file.
func (p *Pin) text() json.RawMessage {
	if p == nil || p.Definition == nil || PrintOf(p.Definition).Hash != p.Print.Hash {
		return nil
	}
	return p.Definition
}

// newPin takes a definition as a server wrote it.
func newPin(definition json.RawMessage, room *int) *Pin {
	text, p := canonical(definition)
	pin := &Pin{Print: p, Signs: Signs(definition), raw: sha256.Sum256(definition)}
	if len(text) <= min(maxDefinition, *room) {
		pin.Definition = bytes.Clone(text) // not the whole page
		*room -= len(text)
	}
	return pin
}

type filePin struct {
	Hash       []byte          `json:"hash"`  // of the one spelling
	Parts      []byte          `json:"parts"` // beginnings of hashes of its parts
	Raw        []byte          `json:"raw"`   // hash of what the server wrote
	Signs      []string        `json:"signs,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (p *Pin) MarshalJSON() ([]byte, error) {
	parts := make([]byte, 0, 8*len(p.Print.parts))
	for _, n := range p.Print.parts {
		parts = binary.BigEndian.AppendUint64(parts, n)
	}
	return marshal(filePin{p.Print.Hash[:], parts, p.raw[:], p.Signs, p.Definition})
}

// marshal is json.Marshal without the escapes for browsers, which make six bytes of one:
// how large a file gets is not to be up to the characters that a server likes.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Pin) UnmarshalJSON(text []byte) error {
	var f filePin
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	if len(f.Hash) != len(p.Print.Hash) || len(f.Raw) != len(p.raw) || len(f.Parts) != 8*len(p.Print.parts) {
		return errors.New("a hash has the wrong length")
	}
	copy(p.Print.Hash[:], f.Hash)
	copy(p.raw[:], f.Raw)
	for i := range p.Print.parts {
		p.Print.parts[i] = binary.BigEndian.Uint64(f.Parts[8*i:])
	}
	p.Signs = f.Signs
	p.Definition = f.Definition
	return nil
}

// file is what is known of one server. It never changes once it is shared.
type file struct {
	Version int    `json:"version"`
	Server  string `json:"server"`
	// Since is when its tools were accepted first, and Approved when a person
	// accepted some last; Approvals counts how often that was.
	Since     time.Time `json:"since"`
	Approved  time.Time `json:"approved,omitzero"`
	Approvals int       `json:"approvals,omitempty"`
	// Accepted are the accepted definitions by the tool's name, and Pending
	// those of the last listing that are not.
	Accepted map[string]*Pin `json:"accepted"`
	Pending  map[string]*Pin `json:"pending,omitempty"`
	// Seen is when Pending was written.
	Seen time.Time `json:"seen,omitzero"`
}

// readFile reads a server's file; nil without an error: there is none.
func readFile(path, server string) (*file, error) {
	// A link is no file of metamcp's.
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, regular.ErrNotRegular
	}
	text, _, err := regular.Read(path, maxFile)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil //nolint:nilnil // nil is no file
	case errors.Is(err, regular.ErrTooLarge):
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	case err != nil:
		return nil, err
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("it is not what metamcp writes there: %w", err)
	}
	switch {
	case f.Version != fileVersion:
		return nil, fmt.Errorf("it is of version %d, and this metamcp knows %d", f.Version, fileVersion)
	case f.Server != server:
		return nil, fmt.Errorf("it is of the server %q", f.Server)
	case f.Accepted == nil:
		return nil, errors.New("it accepts nothing")
	}
	for _, pins := range []map[string]*Pin{f.Accepted, f.Pending} {
		for name, p := range pins {
			if p == nil {
				return nil, fmt.Errorf("the tool %q has no hash", name)
			}
		}
	}
	return &f, nil
}

func (f *file) encode() ([]byte, error) {
	text, err := marshal(f)
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("what is known of the tools of %q takes more than %d MiB", f.Server, maxFile>>20)
	}
	return append(text, '\n'), nil
}

// slim is the file without what only people look at, for hosts that keep it in
// memory.
func (f *file) slim() *file {
	if f == nil {
		return nil
	}
	own := *f
	own.Accepted, own.Pending = slim(f.Accepted), slim(f.Pending)
	return &own
}

// slim is what is kept of pins in memory, in which servers that list the same share.
func slim(pins map[string]*Pin) map[string]*Pin {
	if len(pins) == 0 {
		return nil
	}
	key := alikeKey(pins)
	if known, ok := alike.Get(key); ok {
		return known
	}
	out := make(map[string]*Pin, len(pins))
	for name, p := range pins {
		own := *p
		own.Definition = nil
		out[name] = &own
	}
	alike.Add(key, out)
	return out
}

// alike are the slim pins that were made last. Thousands of servers are often
// instances of a few programs. The maps in it never change.
var alike, _ = lru.New[[sha256.Size]byte, map[string]*Pin](64) // fails only for a size below 1

// alikeKey is the same for pins that are the same but for their definitions.
func alikeKey(pins map[string]*Pin) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		p := pins[name]
		_, _ = fmt.Fprintf(h, "%q %x %x %x %q\n", name, p.Print.Hash, p.Print.parts, p.raw, p.Signs) // a hash takes everything
	}
	h.Sum(key[:0])
	return key
}

// Short is the beginning of the hash, as people compare it.
func (p *Pin) Short() string { return base64.RawURLEncoding.EncodeToString(p.Print.Hash[:9]) }
