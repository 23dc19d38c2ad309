package index

import (
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/index/embed"
	"github.com/metamcp/metamcp/messages"
)

// View is where the newest catalog, and how the index does, can be read by
// anyone at no cost. The index actor alone changes it.
type View struct {
	p        atomic.Pointer[Catalog]
	status   atomic.Pointer[Status]
	embedder atomic.Pointer[sharedEmbedder]
	// background is set by the actor before anyone searches; nil: none.
	background *background
	// look is set with it; nil: nobody looks for vectors.
	look *look
	// holding says that tools are closed until what they say is accepted.
	holding atomic.Bool
	// accepted is what was accepted of servers' tools, by name.
	accepted sync.Map // of messages.Accepted
	// OnChange, where not nil, hears that there is a newer catalog. It is set
	// before the actor runs, which calls it, and does not block.
	OnChange func()
	// version counts the catalogs.
	version atomic.Uint64
	// generation counts the moments at which tools got vectors.
	generation atomic.Uint64
}

// Load returns the newest catalog; it is never nil.
func (v *View) Load() *Catalog {
	if c := v.p.Load(); c != nil {
		return c
	}
	return &Catalog{}
}

// Version is another one after each change of the catalog. Who asks for it before loading
// the catalog knows by it later whether there has been another one since.
func (v *View) Version() uint64 { return v.version.Load() }

// store makes cat the newest catalog.
func (v *View) store(cat *Catalog) {
	v.p.Store(cat)
	v.version.Add(1)
	if v.OnChange != nil {
		v.OnChange()
	}
}

// Holding says whether tools with another definition than the accepted one are
// closed, so that a call may have to wait for the verdict on a listing.
func (v *View) Holding() bool { return v.holding.Load() }

// Accepted returns what was accepted of a server's tools; nil where that is not known.
func (v *View) Accepted(server string) messages.Accepted {
	a, _ := v.accepted.Load(server)
	accepted, _ := a.(messages.Accepted)
	return accepted
}

// Status returns how the index does.
func (v *View) Status() Status {
	if s := v.status.Load(); s != nil {
		return *s
	}
	return Status{}
}

// Status says how the index does. It is a copy.
type Status struct {
	// Model is the embedder's; "": words alone count.
	Model string
	// Wanted is how many enabled tools there are to embed, and Embedded how
	// many of them have a vector by now.
	Wanted, Embedded int
	// Held is how many of the others wait because their server changes its
	// tools so often that embedding them all would never end.
	Held int
	// Settled says that nothing is to be done before something changes: what
	// could be embedded is, or the embedder fails.
	Settled bool
	// Trouble is why the embedder fails; nil where it works.
	Trouble *embed.Error
	// Storage says where vectors and listings are kept.
	Storage Storage
	// StorageTrouble is why they are not kept on disk, or "".
	StorageTrouble string
	// FromStore and Fresh count the vectors that were found in the store and
	// those that the embedder was asked for, since the host started.
	FromStore, Fresh int
}

// Storage says where the index keeps what it has learned.
type Storage string

// The kinds of storage.
const (
	StorageOff    Storage = "off"    // nothing was asked for yet, or nothing shall be kept
	StorageDisk   Storage = "disk"   // in the badger store
	StorageMemory Storage = "memory" // the store cannot be had; see StorageTrouble
)
