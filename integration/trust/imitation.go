package trust

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/integration/registry"
)

// Imitation says that a name passes itself off as another.
type Imitation struct {
	Name string // the one that imitates
	Of   string // whom; "" where that cannot be told
	How  string // for people
}

// A genuineName is one that others imitate.
type genuineName struct {
	kind        registry.Kind
	text        string // as in ParseEntry, normal
	space, base string // of scoped names of npm and of servers; space is "" of others

	// The same as [fold] has them, joined without its @ and /.
	foldedText, foldedSpace, foldedBase, joined string
	// What is left of base without generic words, and how many those are.
	telling string
	generic int
}

func (g genuineName) folded() genuineName {
	g.foldedText, g.foldedSpace, g.foldedBase = fold(g.text), fold(strings.TrimPrefix(g.space, "@")), fold(g.base)
	g.telling, g.generic = distinctive(g.base), genericCount(g.base)
	g.joined = strings.ReplaceAll(fold(strings.Trim(g.text, "@")), "/", "")
	return g
}

// ownSpaces are further genuine scopes of those who stand in the built-in list.
var ownSpaces = []string{"@modelcontextprotocol", "@anthropic", "@anthropic-ai"}

// wellKnown are the names of the built-in list.
var wellKnown = sync.OnceValue(func() []genuineName {
	var list []genuineName
	for _, space := range ownSpaces {
		list = append(list, genuineName{kind: registry.NPM, space: space}.folded())
	}
	for _, s := range registry.Builtin() {
		for _, p := range s.Packages {
			if text, ok := normal(p.Kind, p.Identifier); ok {
				list = append(list, genuine(p.Kind, text))
			}
		}
	}
	return list
})

func genuine(kind registry.Kind, text string) genuineName {
	g := genuineName{kind: kind, text: text, base: text}
	if kind == registry.NPM && strings.HasPrefix(text, "@") || kind == ServerName {
		g.space, g.base, _ = strings.Cut(text, "/")
	}
	return g.folded()
}

// trustedNames are the names that the file trusts; they are imitated, too.
func (p *Policy) trustedNames() []genuineName {
	p.once.Do(func() { p.names = namesOf(p.Trusted) })
	return p.names
}

func namesOf(entries []Entry) []genuineName {
	var list []genuineName
	for i := range entries {
		e := &entries[i]
		switch {
		case !e.All:
			list = append(list, genuine(e.Kind, e.Name))
		case e.Kind == registry.NPM, e.Kind == ServerName:
			list = append(list, genuineName{kind: e.Kind, space: e.Name}.folded())
		default: // a folder of addresses or images is compared by its entry alone
		}
	}
	return list
}

// imitation judges one name. Who trusts exactly this name in the file has
// looked at it; who trusts its namespace may have been taken in by that.
func (p *Policy) imitation(kind registry.Kind, name string) *Imitation {
	if name == "" {
		return nil
	}
	by := match(p.Trusted, kind, name)
	if by != nil && !by.All {
		return nil
	}
	known := wellKnown()
	if by == nil {
		known = slices.Concat(known, p.trustedNames())
	}
	if odd := oddCharacters(name); odd != "" {
		im := &Imitation{Name: name, How: "it has " + odd + ", which no such name has"}
		for i := range known {
			if g := &known[i]; g.looksLike(name) {
				im.Of = g.String()
				break
			}
		}
		return im
	}
	text, ok := normal(kind, name)
	if !ok {
		// Case is all that keeps the names of npm apart here.
		text = strings.ToLower(name)
	}
	c := genuine(kind, text)
	for i := range known {
		g := &known[i]
		if g.kind != kind || g.text != text && (g.text != "" || g.space != c.space) {
			continue
		}
		if ok || text == name {
			return nil
		}
		return &Imitation{Name: name, Of: g.String(), How: "it has capitals, which that name has not"}
	}
	for i := range known {
		if how := known[i].imitatedBy(&c); how != "" {
			return &Imitation{Name: name, Of: known[i].String(), How: how}
		}
	}
	return nil
}

// Suspicion says whom an entry imitates that somebody is about to trust; nil:
// nobody.
func Suspicion(e *Entry) *Imitation {
	p := Default()
	if !e.All {
		return p.imitation(e.Kind, e.Name)
	}
	im := p.imitation(e.Kind, e.Name+"/x")
	if im != nil {
		im.Name = e.Name
	}
	return im
}

// String names it for people.
func (g *genuineName) String() string {
	if g.text == "" {
		return g.space + "/*"
	}
	if g.kind == registry.NPM {
		return g.text
	}
	return string(g.kind) + ":" + g.text
}

func (g *genuineName) looksLike(name string) bool {
	if g.text != "" {
		return fold(name) == g.foldedText
	}
	space, _, _ := strings.Cut(name, "/")
	return fold(strings.Replace(space, "@", "", 1)) == g.foldedSpace
}

// imitatedBy says how c imitates g; "": not at all. Both are different names.
func (g *genuineName) imitatedBy(c *genuineName) string {
	if how := g.spaceImitatedBy(c); how != "" {
		return how
	}
	if g.text == "" || g.space != "" && g.space == c.space {
		return "" // whoever owns the namespace may name things alike
	}
	if g.kind != c.kind && g.foldedText == c.foldedText {
		return fmt.Sprintf("it has the same name in another place (%s)", c.kind)
	}
	if g.kind == registry.MCPB || g.kind == Remote || g.kind == registry.OCI || c.kind == registry.MCPB || c.kind == Remote {
		return g.addressImitatedBy(c)
	}
	switch {
	case g.foldedText == c.foldedText:
		return "it looks the same"
	case g.telling != "" && c.foldedBase == g.foldedBase:
		return "it has the same name without its namespace, or in another one"
	case g.space != "" && c.joined == g.joined:
		return "it has namespace and name in one"
	case sameWords(g, c):
		return "it has the same words in another order"
	case g.kind == c.kind && near(c.telling, g.telling) && c.generic == g.generic:
		return "it is nearly the same name"
	case g.kind == c.kind && (near(c.text, g.text) || near(c.base, g.base)) && g.telling != "" && c.telling == g.telling:
		return "it is nearly the same name"
	}
	return ""
}

// spaceImitatedBy compares namespaces.
func (g *genuineName) spaceImitatedBy(c *genuineName) string {
	if g.space == "" || c.space == "" {
		return ""
	}
	if g.kind == ServerName && c.kind == ServerName {
		if g.space == c.space {
			return ""
		}
		if g.foldedSpace == c.foldedSpace || near(strings.ToLower(c.space), strings.ToLower(g.space)) {
			return "its namespace looks like that one"
		}
		return ""
	}
	if g.kind == ServerName {
		return ""
	}
	own := strings.TrimPrefix(g.space, "@")
	if c.kind == ServerName {
		return ownerImitatedBy(own, c.space)
	}
	other := strings.TrimPrefix(c.space, "@")
	if other == own || slices.Contains(ownSpaces, c.space) {
		return ""
	}
	return wordImitated(own, other, g.foldedSpace, c.foldedSpace)
}

// wordImitated says how one word passes itself off as another; a and b are the
// same two, folded.
func wordImitated(own, other, a, b string) string {
	const telling = 6 // shorter words stand at the beginning of many others
	switch {
	case a == b:
		return "its namespace looks the same"
	case near(other, own), near(b, a):
		return "its namespace is nearly the same"
	case len(own) >= telling && (strings.HasPrefix(b, a) || strings.HasSuffix(b, a)):
		return "its namespace has that name in it"
	}
	if parts := nameWords(other); len(parts) > 1 {
		for _, part := range parts {
			if len(own) >= telling && fold(part) == a || near(part, own) {
				return "its namespace has nearly that name in it"
			}
		}
	}
	return ""
}

// ownerImitatedBy compares an organisation with the parts of a namespace in
// reverse-DNS order. com.x and io.github.x belong to x.
func ownerImitatedBy(own, space string) string {
	labels := strings.Split(space, ".")
	owner := 1
	if len(labels) > 2 && (labels[0] == "io" || labels[0] == "com") && (labels[1] == "github" || labels[1] == "gitlab") {
		owner = 2
	}
	for i, label := range labels {
		if i == owner && strings.EqualFold(label, own) {
			return ""
		}
	}
	for i, label := range labels {
		if i == 0 {
			continue
		}
		if slices.Contains(ownSpaces, "@"+label) && i == owner {
			continue
		}
		if how := wordImitated(own, label, fold(own), fold(label)); how != "" {
			return how
		}
	}
	return ""
}

func (g *genuineName) addressImitatedBy(c *genuineName) string {
	if g.kind != c.kind || g.text == c.text {
		return ""
	}
	host := func(text string) (string, string) {
		text = strings.TrimPrefix(text, "https://")
		host, path, _ := strings.Cut(text, "/")
		return host, path
	}
	gh, gp := host(g.text)
	ch, cp := host(c.text)
	switch {
	case g.foldedText == c.foldedText:
		return "it looks the same"
	case gh != ch && (fold(gh) == fold(ch) || near(ch, gh)) && g.kind != registry.OCI:
		return "its host looks like that one"
	case gh == ch && near(cp, gp):
		return "it is nearly the same address"
	}
	return ""
}

// genericWords say nothing about what a server is for.
var genericWords = map[string]bool{"mcp": true, "server": true, "servers": true, "modelcontextprotocol": true}

// isGeneric takes slips of the finger for what was meant.
func isGeneric(word string) bool { return genericWords[word] || near(word, "server") }

func nameWords(name string) []string {
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !isNameRune(r) })
}

func isNameRune(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f }

// distinctive is what is left of a name without the generic words.
func distinctive(name string) string {
	var kept []string
	for _, w := range nameWords(name) {
		if !isGeneric(w) {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, "")
}

func genericCount(name string) int {
	n := 0
	for _, w := range nameWords(name) {
		if isGeneric(w) {
			n++
		}
	}
	return n
}

func sameWords(g, c *genuineName) bool {
	sorted := func(text string) []string {
		words := nameWords(text)
		slices.Sort(words)
		return words
	}
	const least = 2 // one word has no order
	if len(c.text) < len(g.base) || len(c.text) > len(g.text)+len("@/") {
		return false
	}
	mine := sorted(c.text)
	return len(mine) >= least && g.text != c.text && (slices.Equal(mine, sorted(g.text)) || g.telling != "" && slices.Equal(mine, sorted(g.base)))
}
