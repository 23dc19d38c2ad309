package metamcp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
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
// the server's own (that of a tool as ownName has it) where nothing else has that name, with
// or without its server's, and none of ours is called so, and otherwise the one with the
// server's. Where something else has that too, it ends in a hash of server and name, as
// nothing does that was not hashed.
//
// Whatever has a name may have either, whichever of the two it is called by, and nothing
// gets a name that something else may have. So as long as a thing is there, none of the
// names that it ever had is another's, whatever comes and goes beside it.
func (n *naming) name(kind string, things []thing) *namedSet {
	may := make(claims, 2*len(things))
	type pair struct{ own, prefixed string }
	pairs := make([]pair, len(things))
	for i, t := range things {
		p := pair{prefixed: prefixed(t.server, t.name)}
		if n.plain {
			p.own = t.name
			if kind == kindTool {
				p.own = ownName(t.server, t.name)
			} else if looksHashed(p.own) {
				p.own = hashed(p.own, t.server, t.name)
			}
		}
		if n.ours[p.own] {
			p.own = ""
		}
		pairs[i] = p
		may.add(p.own, t)
		may.add(p.prefixed, t)
	}
	set := &namedSet{key: "name", names: n, owners: make(map[string]owner, len(things))}
	names := make([]string, len(things))
	called := make(claims, len(things))
	for i, t := range things {
		as := pairs[i].own
		if as != "" && may.several(as) {
			set.clash = append(set.clash, as)
			as = ""
		}
		if as == "" {
			as = pairs[i].prefixed
			if may.several(as) || n.ours[as] {
				set.clash = append(set.clash, as)
				as = hashed(as, t.server, t.name)
			}
		}
		names[i] = as
		called.add(as, t)
	}
	var none []string
	for i, t := range things {
		as := names[i]
		if called.several(as) {
			none = append(none, as) // two hashes are the same: neither may be taken for the other
			continue
		}
		if _, double := set.owners[as]; double {
			continue // its server lists it twice
		}
		set.owners[as] = owner{t.server, t.name}
		if !t.closed {
			set.list = append(set.list, exposed{t, as, i})
		}
	}
	slices.SortFunc(set.list, func(a, b exposed) int { return cmp.Compare(a.as, b.as) })
	slices.Sort(set.clash)
	set.clash = slices.Compact(set.clash)
	n.tell(kind, "more than one "+kind+" would be exposed under the same name; each gets another", set.clash)
	slices.Sort(none)
	n.tell(kind+" without a name", "more than one "+kind+" would be exposed under the same name, and there is no other; none of them is exposed", slices.Compact(none))
	return set
}

// claims are whose names are; that of "" is nobody's.
type claims map[string]claim

type claim struct {
	owner
	several bool // others have it as well
}

func (c claims) add(name string, t thing) {
	if name == "" {
		return
	}
	o := owner{t.server, t.name}
	before, known := c[name]
	switch {
	case !known:
		c[name] = claim{owner: o}
	case before.owner != o && !before.several:
		c[name] = claim{before.owner, true}
	}
}

func (c claims) several(name string) bool { return c[name].several }

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

// tell says something once of each name that clashes.
func (n *naming) tell(kind, what string, clash []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	const enough = 20
	clash = slices.DeleteFunc(slices.Clone(clash), func(name string) bool { return !n.first(kind + "\x00" + name) })
	if len(clash) == 0 {
		return
	}
	n.log.Warn(what, "names", clash[:min(len(clash), enough)], "count", len(clash))
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
	if len(as) > maxExposedName || looksHashed(as) {
		return hashed(as, server, name)
	}
	return as
}

// ownName is a name without its server's: as it is where all clients take it, else
// with the same letters replaced as in one with its server's, and hashed where it could be
// another's hashed name. One that is empty has none.
func ownName(server, name string) string {
	as := strings.ReplaceAll(name, ".", "_")
	if plainName(as) == as && len(name) <= maxExposedName && !looksHashed(name) {
		return name
	}
	if as = plainName(name); len(as) > maxExposedName || looksHashed(as) {
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

// hashDigits is how many digits of a hash a name has: too many to look for another name with
// the same ones, and so many that names which servers give seldom look as if they were hashed.
const hashDigits = 16

// hashed is a name with an end that only this thing has.
func hashed(as, server, name string) string {
	sum := sha256.Sum256([]byte(server + "\x00" + name))
	as = plainName(as)
	return as[:min(len(as), maxExposedName-hashDigits-1)] + "_" + hex.EncodeToString(sum[:hashDigits/2])
}

// looksHashed says whether hashed could have made a name. A server may choose a name that
// hashed makes of another's, so what looks like one is never left as it is.
func looksHashed(as string) bool {
	stem := len(as) - hashDigits - 1
	if stem < 0 || len(as) > maxExposedName || as[stem] != '_' {
		return false
	}
	return strings.Trim(as[stem+1:], "0123456789abcdef") == "" && plainName(as[:stem]) == as[:stem]
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
