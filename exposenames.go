package metamcp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/jsonrpc"
	"github.com/metamcp/metamcp/messages"
)

// kindTool is what tools are called in names and logs. Clients are strict about their
// names alone.
const kindTool = "tool"

// maxExposedName is the longest name that all clients take.
const maxExposedName = 64

// thing is what a server has under a name: a tool or a prompt.
type thing struct {
	server, name string
	raw          json.RawMessage // its definition
	closed       bool            // by a rule or a pin: it has a name, but is not listed
}

// sameName says whether two things get the same name, where all others do.
func (t thing) sameName(other thing) bool {
	return t.server == other.server && t.name == other.name && t.closed == other.closed
}

// owner is whose a name is.
type owner struct{ server, name string }

// exposed is a thing with the name under which clients see it.
type exposed struct {
	thing
	as string
	n  int // which it is of the things that were named
}

// namedSet are things with names, sorted by them. It never changes.
type namedSet struct {
	key    string    // member of a definition that holds the name
	names  *naming   // tells of definitions that do not fit; nil: nobody does
	list   []exposed // without those that are closed
	owners map[string]owner
	clash  []string // names that several servers would have had
}

// name gives names. With the server's in front, a name is SERVER__NAME with all
// but letters, digits, _ and - replaced and at most 64 bytes long; without, it is
// the server's own (that of a tool as ownName has it) where no other server has it and none of ours is called so,
// and otherwise the one with the server's. Where two would still be the same,
// each of them ends in a hash of server and name. So a name never passes from one
// server's to another's: it goes when a second one comes.
func (n *naming) name(kind string, things []thing) *namedSet {
	count := map[string]int{}
	want := func(t thing) string {
		as := t.name
		if kind == kindTool {
			as = ownName(t.server, t.name)
		}
		if n.plain && as != "" && !n.ours[as] {
			return as
		}
		return prefixed(t.server, t.name)
	}
	for _, t := range things {
		count[want(t)]++
	}
	set := &namedSet{key: "name", names: n, owners: make(map[string]owner, len(things))}
	names := make([]string, len(things))
	taken := map[string]int{}
	for i, t := range things {
		names[i] = want(t)
		if count[names[i]] > 1 && n.plain {
			set.clash = append(set.clash, names[i])
			names[i] = prefixed(t.server, t.name)
		}
		taken[names[i]]++
	}
	for i, t := range things {
		as := names[i]
		if taken[as] > 1 || n.ours[as] {
			set.clash = append(set.clash, as)
			as = hashed(as, t.server, t.name)
		}
		if _, double := set.owners[as]; double {
			continue // of two hashes that are the same, the second is not there
		}
		set.owners[as] = owner{t.server, t.name}
		if !t.closed {
			set.list = append(set.list, exposed{t, as, i})
		}
	}
	slices.SortFunc(set.list, func(a, b exposed) int { return cmp.Compare(a.as, b.as) })
	slices.Sort(set.clash)
	set.clash = slices.Compact(set.clash)
	n.tell(kind, set.clash)
	return set
}

// of is the set with other things of the same names in the same order. Nothing holds the
// definitions of those before.
func (s *namedSet) of(things []thing) *namedSet {
	own := *s
	own.list = slices.Clone(s.list)
	for i := range own.list {
		own.list[i].thing = things[own.list[i].n]
	}
	return &own
}

// tell says once of each name that it clashes.
func (n *naming) tell(kind string, clash []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	const enough = 20
	clash = slices.DeleteFunc(slices.Clone(clash), func(name string) bool { return !n.first(kind + "\x00" + name) })
	if len(clash) == 0 {
		return
	}
	n.log.Warn("more than one "+kind+" would be exposed under the same name; each gets another", "names", clash[:min(len(clash), enough)], "count", len(clash))
}

// tellUnfit says once of a list of a server that a definition in it does not fit.
func (n *naming) tellUnfit(list, server, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.first("\x00" + list + "\x00" + server) {
		n.log.Warn("a server lists what is not as the protocol has it; clients get it without what does not fit", "server", server, "list", list, "first", messages.Cut(name, maxExposedName))
	}
}

// first says whether something is said for the first time. n.mu is held.
func (n *naming) first(key string) bool {
	const most = 100_000
	if n.said == nil || len(n.said) > most {
		n.said = map[string]bool{}
	}
	before := n.said[key]
	n.said[key] = true
	return !before
}

// prefixed is SERVER__NAME as all clients take it.
func prefixed(server, name string) string {
	as := plainName(server) + "__" + plainName(name)
	if len(as) > maxExposedName {
		return hashed(as, server, name)
	}
	return as
}

// ownName is a name without its server's: as it is where all clients take it, else
// with the same letters replaced as in one with its server's. One that is empty has
// none.
func ownName(server, name string) string {
	as := strings.ReplaceAll(name, ".", "_")
	if plainName(as) == as && len(name) <= maxExposedName {
		return name
	}
	if as = plainName(name); len(as) > maxExposedName {
		return hashed(as, server, name)
	}
	return as
}

func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, s)
}

// hashed is a name with an end that only this thing has.
func hashed(as, server, name string) string {
	const digits = 8
	sum := sha256.Sum256([]byte(server + "\x00" + name))
	as = plainName(as)
	return as[:min(len(as), maxExposedName-digits-1)] + "_" + hex.EncodeToString(sum[:digits/2])
}

func (s *namedSet) owner(as string) (owner, bool) {
	o, ok := s.owners[as]
	return o, ok
}

// sum is the same for two sets of which clients see the same.
func (s *namedSet) sum() string {
	h := sha256.New()
	for _, t := range s.list {
		h.Write([]byte(t.as))
		h.Write([]byte{0})
		h.Write(t.raw)
		h.Write([]byte{0})
	}
	return string(h.Sum(nil))
}

// withMember is an object in which a member that is there has another string for
// its value.
func withMember(object json.RawMessage, member, value string) json.RawMessage {
	start, end, ok := jsonrpc.Index(object, member)
	if !ok {
		return object
	}
	quoted := jsonrpc.AppendQuote(nil, value)
	if bytes.Equal(object[start:end], quoted) {
		return object
	}
	out := make([]byte, 0, len(object)+len(quoted))
	out = append(append(out, object[:start]...), quoted...)
	return append(out, object[end:]...)
}

// Bounds of one page of a list.
const (
	pageItems = 1000
	pageBytes = 1 << 20
)

// page is a page of the set as the result of a list method; first goes before all
// others. What a server says in its definitions goes through clean, which nil leaves
// as it is.
func (s *namedSet) page(member, cursor string, first []json.RawMessage, clean func(server string, definition json.RawMessage) json.RawMessage, era messages.Era) (json.RawMessage, *Error) {
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
	return p.result(era), nil
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
// at most; another user may see another list.
const cacheHints = `,"ttlMs":60000,"cacheScope":"private"`

func (p *listPage) result(era messages.Era) json.RawMessage {
	out := append(p.out, ']')
	if p.next != "" {
		out = append(out, `,"nextCursor":`...)
		out = jsonrpc.AppendQuote(out, cursorPrefix+base64.RawURLEncoding.EncodeToString([]byte(p.member+"\x00"+p.next)))
	}
	if era == messages.EraModern {
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

// all yields the names that are listed.
func (s *namedSet) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range s.list {
			if !yield(s.list[i].as) {
				return
			}
		}
	}
}
