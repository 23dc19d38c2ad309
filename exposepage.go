package metamcp

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// Bounds of one page of a list.
const (
	pageItems = 1000
	pageBytes = 1 << 20
)

// page is a page of the set as the result of a list method; first goes before all
// others. What a server says in its definitions goes through clean, which nil leaves
// as it is. Nobody is to keep a page of a list that is partial.
func (s *namedSet) page(member, cursor string, first []json.RawMessage, clean func(server string, definition json.RawMessage) json.RawMessage, era messages.Era, partial bool) (json.RawMessage, *Error) {
	after, failure := readCursor(member, cursor)
	if failure != nil {
		return nil, failure
	}
	p := newPage(member)
	if cursor == "" {
		for _, raw := range first {
			p.add(raw)
		}
	}
	at, found := slices.BinarySearchFunc(s.list, after, func(e exposed, after string) int { return cmp.Compare(e.as, after) })
	if found {
		at++
	}
	if cursor == "" {
		at = 0
	}
	for ; at < len(s.list) && p.room(); at++ {
		// The server's own definition with another name; all other bytes of one that
		// fits stay.
		raw := s.list[at].raw
		if clean != nil {
			raw = clean(s.list[at].server, raw)
		}
		fit, other := fitting(raw, member, s.key, era)
		if other && s.names != nil {
			s.names.tellUnfit(member, s.list[at].server, s.list[at].name)
		}
		p.add(withMember(fit, s.key, s.list[at].as))
	}
	if at > 0 && at < len(s.list) {
		p.next = s.list[at-1].as
	}
	return p.result(era, partial), nil
}

// listPage is the result of a list method while it is written.
type listPage struct {
	member string
	out    []byte
	items  int
	next   string // "": it is the last one
}

func newPage(member string) *listPage {
	return &listPage{member: member, out: append(make([]byte, 0, 4<<10), `{"`+member+`":[`...)}
}

func (p *listPage) room() bool { return p.items < pageItems && len(p.out) < pageBytes }

func (p *listPage) add(raw json.RawMessage) {
	if p.items > 0 {
		p.out = append(p.out, ',')
	}
	p.out = append(p.out, raw...)
	p.items++
}

// A modern client may keep a list until it is told of a change, but for a minute
// at most, and not at all where a server is missing that may answer at any moment;
// another user may see another list.
const (
	cacheHints   = `,"ttlMs":60000,"cacheScope":"private"`
	partialHints = `,"ttlMs":0,"cacheScope":"private"`
)

func (p *listPage) result(era messages.Era, partial bool) json.RawMessage {
	out := append(p.out, ']')
	if p.next != "" {
		out = append(out, `,"nextCursor":`...)
		out = jsonrpc.AppendQuote(out, cursorPrefix+base64.RawURLEncoding.EncodeToString([]byte(p.member+"\x00"+p.next)))
	}
	switch {
	case era != messages.EraModern:
	case partial:
		out = append(out, partialHints...)
	default:
		out = append(out, cacheHints...)
	}
	return append(out, '}')
}

const cursorPrefix = "after:"

// readCursor reads what a page left for the next one: the name after which it
// begins, which a list that has changed meanwhile need not hold any more.
func readCursor(member, cursor string) (after string, failure *Error) {
	if cursor == "" {
		return "", nil
	}
	bad := &Error{
		Code: messages.CodeValidation, Message: "the cursor is none that this list has given out",
		Hint: "Begin the list anew, without a cursor.",
	}
	text, ok := strings.CutPrefix(cursor, cursorPrefix)
	if !ok {
		return "", bad
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	of, after, ok := strings.Cut(string(raw), "\x00")
	if err != nil || !ok || of != member {
		return "", bad
	}
	return after, nil
}
