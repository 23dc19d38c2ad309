package typescript

import (
	"slices"
	"strconv"
	"strings"
)

// detail says how much is told.
type detail struct {
	depth    int // objects that lie within so many others collapse
	most     int // properties of an object, members of a union
	comments int // how deep properties have comments
	words    int // the bytes of an author's words in a comment
}

// printer writes types as text.
type printer struct {
	detail
	listed []*def // the aliases to be written, in the order of their first use
	depths []int  // where each was used first
	names  map[*def]string
	taken  map[string]bool
	spent  int // bytes made; far too many end it
	// deepest is how many objects lie within each other, as far as depth let
	// it be seen.
	deepest int
}

// rank says what binds stronger: only a loose type needs parentheses.
type rank uint8

const (
	single rank = iota
	intersection
	union
)

// piece is a type as text.
type piece struct {
	text string
	note string // with its comment signs; "": none
	rank rank
	cut  bool    // it stands for nothing: its circle was cut
	of   []piece // a union's members
}

func (p piece) whole() string {
	if p.note == "" {
		return p.text
	}
	return p.text + " " + p.note
}

// tight is the text as part of a stronger type.
func (p piece) tight(weakest rank) string {
	if p.rank > weakest || p.note != "" {
		return "(" + p.whole() + ")"
	}
	return p.text
}

// maxSpent is how many bytes are made before it is plain that they are too many.
const maxSpent = 4 * maxLength

var unknown = piece{text: "unknown"}

// print writes n, which lies within so many objects.
func (p *printer) print(n *node, depth int) piece {
	if p.spent > maxSpent {
		return unknown
	}
	out := p.bare(n, depth)
	if depth > 0 && depth <= p.comments {
		if note := p.note(n); note != "" {
			out.note = note
		}
	}
	p.spent += len(out.note)
	return out
}

func (p *printer) bare(n *node, depth int) piece {
	switch n.kind {
	case kindText:
		p.spent += len(n.text)
		return piece{text: n.text}
	case kindObject:
		return p.object(n, depth)
	case kindArray:
		return piece{text: p.print(n.items[0], depth).tight(single) + "[]"}
	case kindTuple:
		return p.tuple(n, depth)
	case kindUnion:
		return p.union(n, depth)
	case kindIntersection:
		return p.intersection(n, depth)
	case kindRef:
		return p.reference(n.def, depth)
	case kindCut:
		return piece{text: unknown.text, cut: true}
	case kindUnknown:
	}
	p.spent += len(unknown.text)
	return unknown
}

func (p *printer) note(n *node) string {
	facts := strings.Join(n.facts, ", ")
	says := strings.TrimRight(short(n.says, p.words), ". ")
	if says != "" && facts != "" {
		says += "; "
	}
	if says += facts; says == "" {
		return ""
	}
	// Two texts may make an end of a comment together.
	return "/* " + plain(says) + " */"
}

func (p *printer) reference(d *def, depth int) piece {
	if !d.named {
		return p.print(&d.body, depth)
	}
	if p.names[d] == "" {
		if depth >= p.depth && d.body.kind == kindObject {
			return piece{text: "object"}
		}
		p.names[d] = p.alias(d.hint)
		p.listed, p.depths = append(p.listed, d), append(p.depths, depth)
	}
	p.spent += len(p.names[d])
	return piece{text: p.names[d]}
}

// alias makes a name for a type that nothing else has. It begins with a capital
// letter, as no word of the language does.
func (p *printer) alias(hint string) string {
	const most = 40
	name := []byte(hint)
	for i, c := range name {
		if !isName("_" + string(c)) {
			name[i] = '_'
		}
	}
	name = first(name, most)
	switch {
	case len(name) == 0 || strings.Trim(string(name), "_") == "":
		name = []byte("Type")
	case name[0] >= 'a' && name[0] <= 'z':
		name[0] -= 'a' - 'A'
	case name[0] >= '0' && name[0] <= '9':
		name = append([]byte("Type"), name...)
	}
	out := string(name)
	for i := 2; p.taken[out]; i++ {
		out = string(name) + strconv.Itoa(i)
	}
	p.taken[out] = true
	return out
}

func (p *printer) object(n *node, depth int) piece {
	if len(n.props) == 0 && n.more == 0 && (n.index == nil || n.index.kind == kindUnknown) {
		p.spent += len(anything)
		if n.index == nil {
			return piece{text: "{}"}
		}
		return piece{text: anything}
	}
	p.deepest = max(p.deepest, depth)
	if depth > 0 && depth >= p.depth {
		return piece{text: "object"}
	}
	props, more := n.props, n.more
	if len(props) > p.most {
		// What a call cannot do without comes first.
		props = slices.Clone(props)
		slices.SortStableFunc(props, func(a, b prop) int { return rankOf(a) - rankOf(b) })
		more += len(props) - p.most
		props = props[:p.most]
	}
	fields := make([]string, 0, len(props)+1)
	for _, f := range props {
		name := f.name
		if !isName(name) {
			name = quote(name)
		}
		if !f.required {
			name += "?"
		}
		p.spent += len(name)
		fields = append(fields, name+": "+p.print(f.of, depth+1).whole())
	}
	switch {
	case more > 0:
		fields = append(fields, "[key: string]: unknown "+andMore(more))
	case n.index != nil:
		fields = append(fields, "[key: string]: "+p.print(n.index, depth+1).whole())
	}
	return piece{text: "{ " + strings.Join(fields, "; ") + " }"}
}

func andMore(n int) string { return "/* and " + strconv.Itoa(n) + " more */" }

// anything is an object of which nothing is known.
const anything = "Record<string, unknown>"

func rankOf(p prop) int {
	if p.required {
		return 0
	}
	return 1
}

func (p *printer) tuple(n *node, depth int) piece {
	if len(n.items) > p.most {
		return piece{text: "unknown[]"}
	}
	parts := make([]string, 0, len(n.items)+1)
	for i, item := range n.items {
		of := p.print(item, depth)
		if i < n.least {
			parts = append(parts, of.whole())
		} else {
			parts = append(parts, of.tight(single)+"?")
		}
	}
	if n.index != nil {
		parts = append(parts, "..."+p.print(n.index, depth).tight(single)+"[]")
	}
	return piece{text: "[" + strings.Join(parts, ", ") + "]"}
}

func (p *printer) union(n *node, depth int) piece {
	items, more := n.items, n.more
	if len(items) > p.most {
		more += len(items) - p.most
		items = items[:p.most]
	}
	var members []piece
	cut := false
	add := func(m piece) {
		cut = cut || m.cut
		if !m.cut && m.text != "never" && !slices.ContainsFunc(members, func(o piece) bool { return o.text == m.text }) {
			members = append(members, m)
		}
	}
	for _, item := range items {
		of := p.print(item, depth)
		if of.rank != union || of.note != "" {
			add(of)
			continue
		}
		for _, m := range of.of {
			add(m)
		}
	}
	if more > 0 {
		rest := piece{text: common(items)}
		if rest.text != unknown.text {
			rest.note = andMore(more)
		}
		members = append(members, rest)
	}
	switch {
	case len(members) == 0 && cut:
		return piece{text: unknown.text, cut: true}
	case len(members) == 0:
		return piece{text: "never"}
	case slices.ContainsFunc(members, func(m piece) bool { return m.text == unknown.text }):
		return unknown
	case len(members) == 1:
		return members[0]
	}
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = m.whole()
		if m.rank == union { // it has a comment of its own
			texts[i] = m.tight(single)
		}
	}
	return piece{text: strings.Join(texts, " | "), rank: union, of: members}
}

// common is a type that covers all items, as far as that can be told at once.
func common(items []*node) string {
	kinds := map[string]bool{}
	for _, n := range items {
		switch {
		case n.kind == kindText && strings.HasPrefix(n.text, `"`):
			kinds["string"] = true
		case n.kind == kindText && strings.Trim(n.text, "-+.0123456789eE") == "":
			kinds["number"] = true
		case n.kind == kindObject:
			kinds["object"] = true
		default:
			return unknown.text
		}
	}
	if len(kinds) == 1 {
		for kind := range kinds {
			return kind
		}
	}
	return unknown.text
}

func (p *printer) intersection(n *node, depth int) piece {
	if len(n.items) > p.most {
		return unknown
	}
	var members []piece
	cut := false
	for _, item := range n.items {
		m := p.print(item, depth)
		cut = cut || m.cut
		known := slices.ContainsFunc(members, func(o piece) bool { return o.text == m.text })
		if !m.cut && m.text != unknown.text && !known {
			members = append(members, m)
		}
	}
	// An object of which nothing is known adds nothing to what is known.
	if telling := slices.DeleteFunc(slices.Clone(members), func(m piece) bool {
		return m.text == anything || m.text == "{}" || m.text == "object"
	}); len(telling) > 0 {
		members = telling
	}
	switch len(members) {
	case 0:
		return piece{text: unknown.text, cut: cut && len(n.items) == 1}
	case 1:
		return members[0]
	}
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = m.tight(intersection)
	}
	return piece{text: strings.Join(texts, " & "), rank: intersection}
}
