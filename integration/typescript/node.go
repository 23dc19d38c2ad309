package typescript

// kind says what a node is.
type kind uint8

const (
	kindUnknown      kind = iota
	kindText              // a type in one word: a primitive or a literal
	kindObject            // props, index, more
	kindArray             // items[0]
	kindTuple             // items, least, index for the rest
	kindUnion             // items, more
	kindIntersection      // items
	kindRef               // def
	kindCut               // a reference that goes round in a circle, and so adds nothing
)

// node is a type on its way from schema to text. A node that was not filled
// yet, or never is, since the bounds were reached, is unknown.
type node struct {
	kind  kind
	text  string
	items []*node
	props []prop
	// index is the type of an object's further members, or of a tuple's
	// further elements; nil: there are none, or none that are worth a word.
	index *node
	// least is how many of a tuple's elements are always there.
	least int
	// more is how many props or items are left out.
	more int
	def  *def
	// says is what a comment tells of it: the author's words, then facts.
	says  string
	facts []string
}

type prop struct {
	name     string
	required bool
	of       *node
}

// def is what a reference leads to.
type def struct {
	body  node
	hint  string // what its author called it
	named bool   // it gets a type alias
}

// direct are the nodes that a type consists of without an object or an array
// between: a circle of such would be a type without meaning.
func (n *node) direct() []*node {
	switch n.kind {
	case kindUnion, kindIntersection:
		return n.items
	case kindRef:
		return []*node{&n.def.body}
	case kindUnknown, kindText, kindObject, kindArray, kindTuple, kindCut:
	}
	return nil
}

// children are all nodes within.
func (n *node) children() []*node {
	out := make([]*node, 0, len(n.items)+len(n.props)+1)
	out = append(out, n.items...)
	for _, p := range n.props {
		out = append(out, p.of)
	}
	if n.index != nil {
		out = append(out, n.index)
	}
	return out
}

// all are the nodes that can be reached from the roots, each once.
func all(roots ...*node) []*node {
	seen := map[*node]bool{}
	queue := roots
	var out []*node
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if seen[n] {
			continue
		}
		seen[n] = true
		out = append(out, n)
		queue = append(queue, n.children()...)
		if n.kind == kindRef {
			queue = append(queue, &n.def.body)
		}
	}
	return out
}

// cutCircles makes a type that consists of itself consist of the rest: such a
// circle has no meaning, and TypeScript refuses it.
func cutCircles(nodes []*node) {
	const open, done = 1, 2
	state := map[*node]int{}
	var visit func(n *node)
	visit = func(n *node) {
		state[n] = open
		for _, d := range n.direct() {
			switch state[d] {
			case open: // only a reference leads back
				n.kind = kindCut
			case 0:
				visit(d)
			}
		}
		state[n] = done
	}
	for _, n := range nodes {
		if state[n] == 0 {
			visit(n)
		}
	}
}

// pickNamed decides which definitions get an alias: those that hold themselves,
// and those that are used more than once and are not as short as a name.
func pickNamed(roots ...*node) {
	open, done := map[*def]bool{}, map[*def]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		for _, c := range n.children() {
			visit(c)
		}
		if n.kind != kindRef {
			return
		}
		d := n.def
		switch {
		case open[d]:
			d.named = true
		case done[d]:
			d.named = d.named || !d.body.isShort()
		default:
			open[d] = true
			visit(&d.body)
			open[d], done[d] = false, true
		}
	}
	for _, n := range roots {
		visit(n)
	}
}

// isShort reports whether n takes no more room than a name for it.
func (n *node) isShort() bool {
	const most = 24
	switch n.kind {
	case kindUnknown, kindCut:
		return true
	case kindText:
		return len(n.text) <= most
	case kindArray:
		return n.items[0].kind == kindText && len(n.items[0].text) <= most
	case kindUnion:
		size := 0
		for _, item := range n.items {
			if item.kind != kindText {
				return false
			}
			size += len(item.text)
		}
		return size <= most && n.more == 0
	case kindObject, kindTuple, kindIntersection, kindRef:
	}
	return false
}
