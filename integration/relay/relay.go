package relay

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/attach"
)

// The bounds of a relay.
const (
	// DefaultWait is how long a request waits for a host that is away.
	DefaultWait = 15 * time.Second
	// maxHeld and maxHeldBytes bound the requests that wait.
	maxHeld      = 1024
	maxHeldBytes = 8 << 20
	// maxInFlight bounds the requests that a host has.
	maxInFlight = 16 << 10
	// maxKept bounds the bytes of requests that are kept to be sent again.
	maxKept = 4 << 20
	// maxAsked bounds the requests of a host that wait for the client.
	maxAsked = 1024
	// maxRepeats is how often a request that only reads is sent again: one that
	// ends every host must not go on doing so.
	maxRepeats = 2

	firstPause = 10 * time.Millisecond
	lastPause  = 250 * time.Millisecond
	// handshakePatience is how long a new host may take for the handshake.
	handshakePatience = 15 * time.Second
	// sayAfter is how long a host is away before that is said.
	sayAfter = 3 * time.Second
	// DefaultSilence is how long a host may be silent once the client has gone before
	// it is asked whether it is there.
	DefaultSilence = 5 * time.Second
)

// Options say what a relay connects.
type Options struct {
	// In and Out are the client's. Both are left open.
	In  io.Reader
	Out io.Writer
	// Connect attaches to the host that there is, once; resumed is true from
	// the second time on.
	Connect func(ctx context.Context, resumed bool) (*attach.Conn, error)
	// Wait is how long a request waits for a host; 0: [DefaultWait].
	Wait time.Duration
	// Silence is how long a host may say nothing once the client has gone before it is
	// asked whether it is there; 0: [DefaultSilence].
	Silence time.Duration
	// Answers asks it; nil: [attach.Answers].
	Answers func(ctx context.Context, host attach.HostInfo) (bool, error)
	// Say tells the person behind the client what happened; it does not block.
	Say func(text string)
}

// relay is one client's.
type relay struct {
	o   Options
	ctx context.Context // ends the search for a host, and the watch over them

	out    sync.Mutex // held while a line is written
	outErr chan error // capacity 1

	mu       sync.Mutex // guards what follows; nobody writes or waits with it
	cur      *link      // takes new requests; nil: none does
	links    map[*link]struct{}
	table    map[string]*request
	held     []waiting
	heldSize int
	kept     int
	search   bool // somebody looks for a host
	busy     int  // answers and requests that are about to be written
	eof      bool // the client says nothing more
	done     chan struct{}
	over     bool
	reason   string // why the last attempt failed

	// What a new host is told.
	initialize  []byte // params; nil: there was no handshake
	initialized bool
	level       []byte            // params of the last logging/setLevel
	listens     map[string][]byte // lines of subscriptions, by id
	subscribed  resources
	listed      []string // the notifications about lists that the client asked for; see noticeOf
	number      int      // of the relay's own requests
}

// Run copies until the client's input ends and what it asked for is answered,
// its output cannot be written, or ctx is done, which ends it like its input
// does. A host that hangs has no answers any more. The error says why the client lost something.
func Run(ctx context.Context, first *attach.Conn, o Options) error {
	if o.Wait <= 0 {
		o.Wait = DefaultWait
	}
	if o.Silence <= 0 {
		o.Silence = DefaultSilence
	}
	if o.Answers == nil {
		o.Answers = attach.Answers
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	searching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r := &relay{
		o: o, ctx: searching, outErr: make(chan error, 1), done: make(chan struct{}),
		links: map[*link]struct{}{}, table: map[string]*request{}, listens: map[string][]byte{},
	}
	for _, n := range first.Welcome.Notes {
		o.Say(n)
	}
	r.open(first, true)
	go r.readClient() // ends with the client's input, or with the program
	go r.watch()
	var err error
	select {
	case <-r.done:
		return nil
	case err = <-r.outErr:
	case <-ctx.Done():
		r.endInput()
		select {
		case <-r.done:
			return nil
		case err = <-r.outErr:
		}
	}
	stop()
	r.mu.Lock()
	r.over = true
	for l := range r.links {
		_ = l.conn.Close() // the client has gone
	}
	r.mu.Unlock()
	return err
}
