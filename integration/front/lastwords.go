package front

import (
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/metamcp/metamcp/integration/jsonrpc"
)

// maxLastWords is how many bytes of notifications on resources may wait to be told to
// one client.
const maxLastWords = 2 << 20

// lastWords are notifications that cannot be written to a client yet, of each thing the
// last one: who hears late that a thing has changed has missed nothing that it could
// still look at. Of a resource for whose word there is no room the URI is kept alone,
// and nothing where there is none for that either. Those on lists are few and always
// kept, so that no server loses those to another one that says much of its resources.
//
// Nobody waits for such a notification and a server sends as many as it likes, so that
// none is queued for a client that is full: the session and all that others answer
// would end with them. Of progress and of servers' logs, which are about a moment,
// such a client gets nothing. Answers and questions are written all the same, and what
// belongs to a question, since somebody waits for them. Answers are no more than were
// asked for. Questions have no bound of their own here but that of how many are open, so
// that a server which asks much, or asks and withdraws without end, can still cost a
// client that does not read its session.
type lastWords struct {
	mu    sync.Mutex
	lines map[about][]byte
	size  int
}

// about is what a notification says something of.
type about struct {
	l      *listener // the subscription that it is for; nil: the session's own
	method string
	uri    string // of a resource; "": it is on a list
}

// size is how much of what may wait a line on it takes.
func (a *about) size(line []byte) int {
	if a.uri == "" {
		return 0
	}
	return len(a.uri) + len(line)
}

// bare is the shortest line that says that the resource has changed.
func (a *about) bare() []byte {
	line := append(appendNotification(nil, a.method), `,"params":{"uri":`...)
	line = jsonrpc.AppendQuote(line, a.uri)
	if a.l != nil {
		line = append(append(line, `,"_meta":{"`+keySubscription+`":`...), a.l.id...)
		line = append(line, '}')
	}
	return append(line, "}}"...)
}

// keep keeps a line as the last word on its thing; w.mu is held.
func (w *lastWords) keep(a about, line []byte) {
	others := w.size
	if before, there := w.lines[a]; there {
		others -= a.size(before)
	}
	size := a.size(line)
	if size > 0 && others+size > maxLastWords {
		line = a.bare()
		size = a.size(line)
		if others+size > maxLastWords {
			return // the word before it, if there is one, says nearly the same
		}
	}
	if w.lines == nil {
		w.lines = map[about][]byte{}
	}
	w.lines[a] = line
	w.size = others + size
}

// forget takes out what is kept of a thing; w.mu is held.
func (w *lastWords) forget(a about) {
	if line, there := w.lines[a]; there {
		w.size -= a.size(line)
		delete(w.lines, a)
	}
}

// tell writes a notification of which the last word on its thing is enough, or lets it
// wait: while the client does not read, and until a subscription is acknowledged.
// Nobody changes line afterwards.
func (p *Peer) tell(a about, line []byte) {
	if p.tellOrKeep(a, line) && !p.Full() {
		p.tellLast(p.Full) // who made room may have looked before the line was kept
	}
}

// tellOrKeep is tell; full says that the client was.
func (p *Peer) tellOrKeep(a about, line []byte) (full bool) {
	w := &p.words
	w.mu.Lock()
	defer w.mu.Unlock()
	full = p.Full()
	switch {
	case a.l != nil && a.l.over:
	case full || a.l != nil && !a.l.acknowledged:
		w.keep(a, line)
	default:
		w.forget(a)
		p.write(a, line)
	}
	return full
}

// tellLast writes what has waited, as far as it may be written now, until enough says that
// the client has enough; more says that it did.
func (p *Peer) tellLast(enough func() bool) (more bool) {
	w := &p.words
	w.mu.Lock()
	defer w.mu.Unlock()
	for a, line := range w.lines {
		if enough() {
			return true
		}
		if a.l == nil || a.l.acknowledged {
			w.forget(a)
			p.write(a, line)
		}
	}
	return false
}

func (p *Peer) write(a about, line []byte) {
	out := p.out
	if a.l != nil {
		out = a.l.out
	}
	_ = out.Write(line) // the session ends when the output fails
}

// acknowledge writes the acknowledgement of a subscription, before which it is told of
// nothing: it comes when the last of many resources is subscribed to, and what changes
// from the first one on is not to be lost.
func (l *listener) acknowledge(n mcp.JSONRPCNotification) {
	l.send(l.out, n)
	l.words.mu.Lock()
	l.acknowledged = true
	l.words.mu.Unlock()
	l.tellLast(l.Full)
}

// end has the subscription be told of nothing any more.
func (l *listener) end() {
	l.words.mu.Lock()
	defer l.words.mu.Unlock()
	l.over = true
	for a := range l.words.lines {
		if a.l == l {
			l.words.forget(a)
		}
	}
}
