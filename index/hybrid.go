package index

import "github.com/metamcp/metamcp/index/rank"

// Hybrid is the default ranking: words by BM25F over all that is known of a
// tool, and meaning where there is an embedder; see package rank.
type Hybrid struct{}

// Texts implements [Ranker].
func (Hybrid) Texts(query string) []string { return rank.Texts(query) }

// Search implements [Ranker].
func (Hybrid) Search(c *Catalog, q Query) []Match {
	s := c.ready()
	ask := rank.Query{Text: q.Text, Limit: q.limit(), Allowed: func(doc int) bool { return q.takes(s.entries[doc]) }}
	if q.Server != "" {
		ask.Allowed = func(doc int) bool {
			return q.takes(s.entries[doc]) && s.entries[doc].Tool.Server == q.Server
		}
	}
	if q.Connected != nil {
		const no, yes = 1, 2
		known := make([]uint8, len(s.servers)) // 0: not asked yet
		ask.Connected = func(doc int) bool {
			server := s.of[doc]
			if known[server] == 0 {
				known[server] = no
				if q.Connected(s.servers[server].Toolset.Server) {
					known[server] = yes
				}
			}
			return known[server] == yes
		}
	}
	if q.Meaning != nil {
		ask.Vectors = q.Meaning.Vectors
		ask.Docs = s.with(q.Meaning.Model, q.Meaning.generation)
		ask.Background = q.Meaning.background
	}
	hits := s.index.Search(ask)
	matches := make([]Match, 0, len(hits))
	for _, h := range hits {
		server := s.of[h.Doc]
		matches = append(matches, Match{
			Entry: s.entries[h.Doc], Score: h.Score, Connected: h.Connected, exact: h.Exact,
			server: s.servers[server].Toolset.Server, index: h.Doc - s.first[server],
		})
	}
	return matches
}
