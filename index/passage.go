package index

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/metamcp/metamcp/index/rank"
	"github.com/metamcp/metamcp/index/vector"
	"github.com/metamcp/metamcp/messages"
)

// A passage is what search knows of one tool. It is shared by all catalogs in
// which the tool says the same, and worked out when it is first needed.
type passage struct {
	tool *messages.Tool
	*around

	analysis sync.Once
	terms    *rank.Terms

	*meaning
}

// An around is what is known of a tool beside its definition. Mostly all tools of
// a server share it.
type around struct {
	about string // what is known of the server
	tags  []string
}

// A meaning is what is worked out of a definition. All passages of it share it.
type meaning struct {
	lowerName string

	hashing sync.Once
	hash    [sha256.Size]byte // of the text that is embedded

	// vector is set by the index actor and read by anyone.
	vector atomic.Pointer[embedding]
	// sought names the model whose vector was looked for in the store. It
	// belongs to the one embedding worker.
	sought string
}

// An embedding is the vector of a passage. It never changes.
type embedding struct {
	model string
	row   *vector.Row
}

// says reports whether two passages are the same to a searcher.
func (p *passage) says(o *passage) bool {
	return p.about == o.about && p.tool.Title == o.tool.Title && p.tool.Description == o.tool.Description && slices.Equal(p.tags, o.tags)
}

func (p *passage) doc() rank.Doc {
	return rank.Doc{
		Server: p.tool.Server, ServerText: p.about, Tool: p.tool.Name, Title: p.tool.Title, Description: p.tool.Description,
		Params: rank.Params(p.tool.InputSchema), Tags: p.tags,
	}
}

func (p *passage) analysed() *rank.Terms {
	p.analysis.Do(func() { p.terms = rank.Analyze(p.doc()) })
	return p.terms
}

// embeddable returns the text that is embedded. It is made anew each time, since a tool
// is embedded once.
func (p *passage) embeddable() string { return rank.Passage(p.doc()) }

// key returns the hash that the vector is kept under.
func (p *passage) key() [sha256.Size]byte {
	p.hashing.Do(func() { p.hash = sha256.Sum256([]byte(p.embeddable())) })
	return p.hash
}

// means gives the passage the meaning of its definition: that of one of the entries,
// which may be nil, where it is the same definition to an embedder.
func (p *passage) means(of ...*Entry) {
	for _, e := range of {
		if e != nil && p.tool.Title == e.Tool.Title && p.tool.Description == e.Tool.Description && p.tool.Name == e.Tool.Name {
			p.meaning = e.passage.meaning
			return
		}
	}
	p.meaning = &meaning{lowerName: strings.ToLower(p.tool.Name)}
}

// of returns the passage's vector by a model, or nil.
func (p *passage) of(model string) *vector.Row {
	if e := p.vector.Load(); e != nil && e.model == model {
		return e.row
	}
	return nil
}
