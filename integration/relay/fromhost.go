package relay

import (
	"bytes"
	"fmt"

	"github.com/metamcp/metamcp/integration/attach"
)

// readHost copies a host's lines to the client until the connection ends.
func (r *relay) readHost(l *link) {
	defer r.lost(l)
	lines := newLineReader(hostWords{l})
	for {
		p, err := lines.next()
		if err != nil {
			return
		}
		if p.last {
			r.hostLine(l, p.text)
			continue
		}
		if !r.hostLong(l, lines, p) {
			return
		}
	}
}

// hostLine takes a whole line of a host.
func (r *relay) hostLine(l *link, line []byte) {
	var scan scanner
	scan.feed(line)
	if scan.depth != 0 {
		return // the end of the stream has made it a line; nobody has seen any of it, and what it was of is lost
	}
	switch {
	case scan.id == nil && unquoted(string(scan.method)) == attach.DrainingMethod:
		r.draining(l)
		return
	case scan.id != nil && scan.method == nil && bytes.HasPrefix(scan.id, []byte(`"`+ownPrefix)):
		if r.resubscribed(l, string(scan.id)) {
			return
		}
		select {
		case l.handshake <- scan.id:
		default:
		}
		return
	}
	switch {
	case scan.id != nil && scan.method != nil && !r.asks(l, string(scan.id)):
		return
	case scan.id == nil && unquoted(string(scan.method)) == methodCancelled:
		r.takenBack(l, line)
	}
	if !r.moved(l, &scan) {
		lines := [][]byte{line}
		if scan.id == nil && unquoted(string(scan.method)) == methodListening {
			if missed, told := r.toldBefore(line); told {
				lines = missed
			}
		}
		r.write(lines)
	}
	r.answered(l, &scan)
}

// asks takes note of a request of a host for the client. Where too many wait, or
// another host waits for an answer with the same id, it is refused in the client's
// name.
func (r *relay) asks(l *link, id string) bool {
	r.mu.Lock()
	why := r.note(l, id)
	r.mu.Unlock()
	if why == "" {
		return true
	}
	r.send(l, nil, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%q}}`+"\n", id, why))
	return false
}

// note enters a request of a host, or tells why it cannot be. r.mu is held.
func (r *relay) note(l *link, id string) (why string) {
	switch other := r.asker(id); {
	case other != nil && other != l:
		return "a host before this one waits for the answer to a request with the same id"
	case len(l.asked) >= maxAsked:
		return fmt.Sprintf("%d requests wait for the client", maxAsked)
	}
	if l.asked == nil {
		l.asked = map[string]bool{}
	}
	l.asked[id] = true
	return ""
}

// asker is the host that waits for the client's answer with an id; nil: none does.
// r.mu is held.
func (r *relay) asker(id string) *link {
	for l := range r.links {
		if l.asked[id] {
			return l
		}
	}
	return nil
}

// takenBack takes note that a host does not wait for an answer any more.
func (r *relay) takenBack(l *link, line []byte) {
	m := parse(line)
	r.mu.Lock()
	delete(l.asked, m.cancels)
	r.mu.Unlock()
}

// hostLong passes on a line that is too long to be taken as a whole. It returns
// false where the host was lost meanwhile: the client sees a broken line then,
// and the answer that its request gets.
func (r *relay) hostLong(l *link, lines *lineReader, p piece) bool {
	var scan scanner
	r.out.Lock()
	for {
		scan.feed(p.text)
		if p.last && scan.id != nil && scan.method != nil {
			// Too late to refuse it, since the client has its beginning.
			r.mu.Lock()
			r.note(l, string(scan.id))
			r.mu.Unlock()
		}
		r.put(p.text)
		if p.last {
			r.out.Unlock()
			if scan.depth != 0 {
				return false // the end of the stream has made it a line
			}
			r.answered(l, &scan)
			return true
		}
		var err error
		if p, err = lines.next(); err != nil {
			r.put([]byte("\n"))
			r.out.Unlock()
			return false
		}
	}
}
