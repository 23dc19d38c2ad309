package messages

import "time"

// What breaker and pool say to each other. A ticket is one wish for a place, a
// lease is the place itself; both are numbers that the breaker and the pool
// respectively never use twice.
type (
	// Reserve asks the pool for a place for a new connection.
	Reserve struct {
		Meta
		Ticket uint64
		Server string
		// Contact says that it is for a contact that no call waits for: any call comes
		// before it, also for the place once it has that.
		Contact bool
	}
	// Join says that one more request waits for the place of a Reserve, for as long
	// as any may and in the turns of its own client, too.
	Join struct {
		Meta
		Ticket  uint64
		Contact bool // that of Reserve
	}
	// TurnAway says that those who wait for the place of a Reserve for one client, and
	// have waited since Before or longer, are to wait no longer. Others wait still. The
	// breaker sends it on to the connection that has the calls.
	TurnAway struct {
		Ticket uint64
		Client uint64 // [Meta.Of]
		// Contact says that it is for contacts alone; else it is for the others.
		Contact bool
		Before  time.Time
		Err     *Error
	}
	// Granted answers Reserve with a place.
	Granted struct {
		Meta    // of the Reserve
		Ticket  uint64
		Lease   uint64
		Contact bool // nobody had joined but contacts
	}
	// ReserveRefused answers Reserve when there is none to be had in time.
	ReserveRefused struct {
		Meta   // of the Reserve
		Ticket uint64
		Err    *Error
	}
	// Withdraw takes a Reserve back. If Granted crossed it, the breaker
	// releases the lease.
	Withdraw struct{ Ticket uint64 }
	// Used says that the connection on a lease has work again.
	Used struct {
		Lease   uint64
		Contact bool // that of Reserve
	}
	// Wanted says that a call wants the connection on a lease which was for contacts
	// alone.
	Wanted struct{ Lease uint64 }
	// Unused says that it has become idle.
	Unused struct {
		Lease       uint64
		KeepAlive   bool
		IdleTimeout time.Duration // 0: the pool's
		Since       time.Time     // when it was last used
	}
	// IdleChanged says that an idle connection is to be treated otherwise than
	// its Unused said. It has been idle since then.
	IdleChanged struct {
		Lease       uint64
		KeepAlive   bool
		IdleTimeout time.Duration // as that of Unused
	}
	// Ending says that the connection on a lease ends on its own; Release
	// follows.
	Ending struct{ Lease uint64 }
	// Release gives a place back: the process tree on it is gone.
	Release struct{ Lease uint64 }
	// Evict asks the breaker to end the connection on a lease, which is idle or for
	// contacts alone.
	Evict struct {
		Lease  uint64
		Reason string
	}
	// EvictRefused answers Evict, or takes either that or Ending back: the connection has
	// work, again or for a call by now, or it does not end.
	EvictRefused struct {
		Lease   uint64
		Contact bool // its work is for contacts alone
	}
)

// What breaker and connection say to each other. An instance is the
// generation of a connection, counted per server: one that is removed and comes
// back goes on counting.
type (
	// Connect tells a connection, idle or failed, to start its child.
	Connect struct {
		Meta
		Era Era // learned earlier, or EraUnknown
	}
	// Close ends a connection for good. Requests in flight are answered with
	// Err, or handed back where Err is nil.
	Close struct {
		Reason string
		Err    *Error
	}
	// ReturnCalls asks a connection that is not ready yet for the calls that wait for
	// it, each of which comes as a CallReturned; its start goes on. One that is ready
	// keeps them.
	ReturnCalls struct{}
	// Finish tells a connection that no new calls come and that it ends after those which
	// it has. Then nothing that it asks of its child by itself is waited for any more, and
	// ConnectionIdle says so, also where it is still being started.
	Finish struct{}
	// Relist asks a ready connection to list its tools anew.
	Relist struct{}
	// ConnectionReady says that the handshake is over.
	ConnectionReady struct{ Instance uint64 }
	// FirstSuccess says that a request was answered for the first time since
	// the last Connect: the child does not only greet, it works.
	FirstSuccess struct{ Instance uint64 }
	// ProbeOver says that the call which a half-open breaker let pass has left its
	// connection, which may have other calls. Answered is true where the child
	// answered it.
	ProbeOver struct {
		Call     uint64
		Answered bool
	}
	// ConnectionIdle says that nothing is in flight any more, or that nobody waits any
	// more for a connection that has not been started, or that is to Finish. Handled counts
	// all calls that the connection has finished, so that a breaker that has
	// sent one since can tell that this is old news; Answered counts those that
	// the child itself answered.
	ConnectionIdle struct {
		Instance uint64
		Handled  uint64
		Answered uint64
		// Keep says that somebody is subscribed to what the child has: it is
		// ended for its place only when no other can be.
		Keep bool
	}
	// ConnectionFree says that nobody is subscribed any more to what an idle
	// connection's child has.
	ConnectionFree struct{ Instance uint64 }
	// ConnectionFailed says that the child is lost and its process tree is
	// being ended. It brings the unanswered calls back: no CallReturned comes
	// for them.
	ConnectionFailed struct {
		Instance uint64
		Evidence Evidence
		// Started is true where the handshake had been completed.
		Started bool
		// Returned are the calls that got no answer.
		Returned []ReturnedCall
	}
	// ConnectionEnded says that the process tree of a failed connection is
	// gone and the connection could start another.
	ConnectionEnded struct{ Instance uint64 }
	// ConnectionClosed says that nothing is left of a connection.
	ConnectionClosed struct{ Instance uint64 }
	// RequestFailed says that a child is there but got into trouble with one call,
	// which has no answer.
	RequestFailed struct {
		Instance uint64
		Evidence Evidence
		Call     *Call
		Sent     time.Time // when the child got it
		Answered uint64    // that of ConnectionIdle
	}
	// CallReturned gives a call back that reached a connection which cannot
	// take it any more; nothing of it was written.
	CallReturned struct {
		Instance uint64
		Call     *Call
	}
	// ListingFailed says that a ready child did not list its tools.
	ListingFailed struct {
		Instance uint64
		Evidence Evidence
		// Toolless says that it may well have none, so that nothing is wrong with it: it
		// refused the request and never said that it has tools, or does not know the request.
		Toolless bool
		Sent     time.Time // when the child got the request
		Answered uint64    // that of ConnectionIdle
		Changes  uint64    // that of a [Listing]
	}
)

// ReturnedCall is a call that a lost connection could not answer.
type ReturnedCall struct {
	Call *Call
	// Written is true where the child may have seen it.
	Written bool
}

// Contact asks a server's breaker for the server's tools: it connects where
// nobody has, and answers once the catalog holds the listing.
type Contact struct {
	Meta
	ID      uint64
	Refresh bool // list anew even where a listing is there
	// Announced is for a listing of all that children have announced by now, which may be
	// there. Where one fails of a server whose tools the catalog has, that is no error: there
	// will be no other for it.
	Announced bool
	// Retry is for another listing of what children have announced where one has failed. There
	// may be none by now. It starts nothing.
	Retry bool
	// Background is for a contact that nobody waits for: a start that is given up by
	// those who do is not made for it.
	Background bool
	// ForCall is for a contact of a call, which waits for it to go on, and for that of
	// somebody who has named the server: it has its place in the pool as a call has. Any
	// other gives its place to a call that needs one.
	ForCall bool
	// Since is the breaker's: when it began to wait.
	Since time.Time
	// Needs is the breaker's: by instance, how many changes of its list have to be in a
	// listing that is over. nil: nothing is known of any that are in none.
	Needs map[uint64]uint64
	Reply ContactPort
}

// ContactPort takes the one answer to a [Contact]: nil when the catalog holds
// a live listing of the server. See [Contact.Announced] for what else it is then.
type ContactPort interface{ Contacted(id uint64, err *Error) }

// Listing carries the pages of a child's tools/list to the index.
type Listing struct {
	Server        string
	Instance      uint64
	Pages         [][]byte // result objects, byte for byte
	Truncated     string   // why the listing was ended early, or ""
	Era           Era
	Version       string
	SpecHash      string
	ServerName    string
	ServerVersion string
	Instructions  string
	Offers        Offers
	// Verdict is the number under which the connection wants to hear of the listing.
	Verdict uint64
	// Changes is that of the [Toolset].
	Changes uint64
}

// Cataloged tells a breaker that the index has taken in a listing, and what is listed.
// Verdict is that of the listing.
type Cataloged struct {
	Server   string
	Instance uint64
	Verdict  uint64
	// Changes is that of the listing; 0 where that was of an older configuration, and says
	// nothing of what the server has.
	Changes uint64
	Listed  *Toolset // nil where Err is not
	Err     *Error
	Fault   bool // Err is the child's: nobody understands what it listed
}

// Judged tells a connection that the index has compared a listing with what was
// accepted, and what is listed; Err is why it could not.
type Judged struct {
	Verdict uint64
	Listed  *Toolset // nil where Err is not
	Err     *Error
	Fault   bool // that of a [Cataloged]
}

// Status is what is publicly known of a server at one moment.
type Status struct {
	State     State
	Connected bool
	Instances int
	// Breaker is "closed", "open" or "half-open".
	Breaker string
	// Failures is how many counted ones came in a row.
	Failures int
	// LastError is why the server failed last, nil when it works.
	LastError *Error
	// RetryAt is when the server is tried again; zero when it can be now.
	RetryAt time.Time
	Since   time.Time
}

// What the host says to pool and breakers.
type (
	// Respec gives a breaker its server's new configuration. Restart says
	// that running children are of the old one and end when idle; without it
	// the breaker sends it on to its connections.
	Respec struct {
		Spec    *ServerSpec
		Restart bool
	}
	// SessionOver says that a client's session is over, and its calls cancelled.
	SessionOver struct{ Session uint64 }
	// Retire ends a server that is no longer configured.
	Retire struct{ Drain time.Duration }
	// Drain ends everything: no new calls, those in flight until Deadline,
	// then all children in parallel. A second one with an earlier deadline
	// shortens the first.
	Drain struct{ Deadline time.Time }
)

// Correlation is that of the call.
func (m *CallReturned) Correlation() uint64 { return m.Call.Trace }

// Correlation is that of the call.
func (m *RequestFailed) Correlation() uint64 { return m.Call.Trace }
