package metamcp

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	ranking "github.com/metamcp/metamcp/index/rank"
	"github.com/metamcp/metamcp/integration/gallery"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
)

const (
	// galleryLeast is the score from which on a server of the gallery may be what
	// is meant.
	galleryLeast = 0.45
	// galleryShare makes a confidence of a score: words alone never say that it
	// is the right one.
	galleryShare = 0.7
	// withAccount is what a server loses that needs a key of somebody: one without
	// can be tried at once.
	withAccount = 0.9
)

// galleryIndex finds servers of the gallery by what they say of themselves; it is
// built when it is first needed, which takes some milliseconds.
var galleryIndex = sync.OnceValue(func() *ranking.Index {
	all := gallery.All()
	docs := make([]*ranking.Terms, len(all))
	for i := range all {
		e := &all[i]
		docs[i] = ranking.Analyze(ranking.Doc{Tool: e.Name, Title: e.Package, Description: e.Description + " " + strings.Join(e.Categories, " "), Tags: e.Categories})
	}
	return ranking.Build(docs)
})

// galleryHit is a server of the gallery that may be what is meant.
type galleryHit struct {
	entry      *gallery.Entry
	confidence float64
}

// gallerySearch finds servers of the gallery, best first.
func gallerySearch(intent string) (hits []galleryHit) {
	all := gallery.All()
	for _, h := range galleryIndex().Search(ranking.Query{Text: intent, Limit: 2 * optionsShown}) {
		if h.Score < galleryLeast {
			continue
		}
		e, score := &all[h.Doc], h.Score
		if slices.ContainsFunc(e.Env, func(v gallery.Variable) bool { return v.Required && v.Secret }) {
			score *= withAccount
		}
		hits = append(hits, galleryHit{e, math.Round(100*galleryShare*score) / 100})
	}
	slices.SortStableFunc(hits, func(a, b galleryHit) int { return cmp.Compare(b.confidence, a.confidence) })
	return hits[:min(len(hits), optionsShown)]
}

// galleryPackage is the server of the gallery whose package an intent names; nil:
// there is none.
func galleryPackage(n trust.NamedPackage) *gallery.Entry {
	e := gallery.Find(n.Name)
	if e == nil || e.Package != n.Name || n.Explicit && registry.Kind(e.Kind) != n.Kind {
		return nil
	}
	return e
}

// galleryServers are the servers of the gallery in the words of a registry, by the names
// with which `metamcp add` adds them.
func galleryServers() []registry.Server {
	all := gallery.All()
	servers := make([]registry.Server, len(all))
	for i := range all {
		servers[i] = *galleryServer(&all[i])
		servers[i].Name = all[i].Name
	}
	return servers
}

// galleryServer is a server of the gallery in the words of a registry, which has
// no name for it: its description is metamcp's own.
func galleryServer(e *gallery.Entry) *registry.Server {
	pkg := registry.Package{Kind: registry.Kind(e.Kind), Identifier: e.Package, Transport: registry.Transport{Type: "stdio"}}
	for _, a := range e.Args {
		pkg.PackageArgs = append(pkg.PackageArgs, registry.Argument{Type: "positional", Input: registry.Input{Value: a}})
	}
	for _, in := range e.Inputs {
		a := registry.Argument{Type: "positional", ValueHint: in.Name, Repeated: in.Repeated, Input: registry.Input{Description: in.Description, Required: in.Required}}
		if in.Flag != "" {
			a.Type, a.Name = "named", in.Flag
		}
		pkg.PackageArgs = append(pkg.PackageArgs, a)
	}
	for _, v := range e.Env {
		pkg.Environment = append(pkg.Environment, registry.KeyValue{Name: v.Name, Input: registry.Input{
			Description: v.Description, Required: v.Required, Secret: v.Secret, Value: v.Value,
		}})
	}
	return &registry.Server{Title: e.Name, Description: e.Description, Status: registry.Active, Latest: true, Packages: []registry.Package{pkg}}
}
