package index

import (
	"slices"
	"strings"
)

// Points of the classic ranking, for each word of the query.
const (
	pointsExactName   = 10
	pointsNameHas     = 5
	pointsDescription = 2
)

// How keywords and meaning are mixed where there is an embedder.
const (
	classicSemantic   = 0.6
	classicKeyword    = 0.4
	classicCandidates = 50
)

// Classic is the ranking of MetaMCP. Each word of the query brings a tool 10
// points where it is the tool's name, else 5 where the name contains it, and 2
// more where the description contains it, without regard to case. An exact
// name does not earn the 5 as well, since MetaMCP's documentation calls 10 the
// most that a name can bring. The score is the sum divided by 10 for each word, at
// most 1.
//
// A tool whose whole name is in the query as a word, or is the query, comes
// first whatever the other words bring to others.
//
// Where the query has a vector, the 50 tools that are nearest to it by cosine
// are candidates as well, and the score is 0.6 times the cosine, which counts
// as 0 where it is negative, plus 0.4 times the keywords' score.
type Classic struct{}

// Texts implements [Ranker].
func (Classic) Texts(query string) []string {
	query = cut(query, maxQueryText) // what is embedded is remembered as it is here
	if strings.TrimSpace(query) == "" {
		return nil
	}
	return []string{query}
}

// Search implements [Ranker].
func (Classic) Search(c *Catalog, q Query) []Match {
	words := q.words()
	if len(words) == 0 {
		return nil
	}
	s := search{query: q, words: words, top: board{limit: q.limit()}}
	// A name may hold spaces, so the query as a whole counts as a word too.
	s.whole = strings.ToLower(strings.Join(strings.Fields(cut(q.Text, maxQueryText)), " "))
	s.near(c)
	if q.Server != "" {
		if e := c.Server(q.Server); e != nil {
			s.server(e)
		}
		return s.top.best
	}
	for e := range c.All() {
		s.server(e)
	}
	return s.top.best
}

type search struct {
	query  Query
	words  []string
	whole  string
	top    board
	points []int // of the entries of one server, reused for the next
	exact  []bool

	semantic bool                      // cosines count
	cosines  map[*Entry]float64        // of the candidates
	hosts    map[*ServerEntry]struct{} // the candidates' servers
}

// near finds the candidates by meaning.
func (s *search) near(c *Catalog) {
	m := s.query.Meaning
	if m == nil || len(m.Vectors) == 0 || m.Vectors[0] == nil {
		return
	}
	space := c.ready()
	all := make([]float32, len(space.entries))
	space.with(m.Model, m.generation).Cosines([][]float32{all}, m.Vectors[:1])
	type candidate struct {
		doc    int
		cosine float32
	}
	best := make([]candidate, 0, classicCandidates+1)
	for doc, cosine := range all {
		if cosine <= 0 || !s.query.takes(space.entries[doc]) || s.query.Server != "" && space.entries[doc].Tool.Server != s.query.Server {
			continue
		}
		if len(best) == classicCandidates && cosine <= best[len(best)-1].cosine {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, cosine, func(b candidate, cosine float32) int {
			if b.cosine >= cosine { // equal ones keep the catalog's order
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, candidate{doc, cosine})
		best = best[:min(len(best), classicCandidates)]
	}
	s.semantic = len(best) > 0
	s.cosines, s.hosts = make(map[*Entry]float64, len(best)), map[*ServerEntry]struct{}{}
	for _, b := range best {
		s.cosines[space.entries[b.doc]] = min(float64(b.cosine), 1)
		s.hosts[space.servers[space.of[b.doc]]] = struct{}{}
	}
}

func (s *search) score(e *Entry, points int) float64 {
	keyword := min(1, float64(points)/float64(pointsExactName*len(s.words)))
	if !s.semantic {
		return keyword
	}
	return classicSemantic*s.cosines[e] + classicKeyword*keyword
}

func (s *search) server(e *ServerEntry) {
	n := len(e.Entries)
	if cap(s.points) < n {
		s.points, s.exact = make([]int, n), make([]bool, n)
	}
	s.points, s.exact = s.points[:n], s.exact[:n]
	clear(s.points)
	clear(s.exact)
	found := false
	texts := e.read()
	for _, word := range s.words {
		texts.names.each(word, func(i int) {
			found = true
			if e.Entries[i].passage.lowerName == word {
				s.points[i] += pointsExactName
				s.exact[i] = true
				return
			}
			s.points[i] += pointsNameHas
		})
		texts.descriptions.each(word, func(i int) {
			found = true
			s.points[i] += pointsDescription
		})
	}
	if strings.Contains(s.whole, " ") {
		texts.names.each(s.whole, func(i int) {
			if e.Entries[i].passage.lowerName == s.whole {
				found = true
				s.points[i] = pointsExactName * len(s.words)
				s.exact[i] = true
			}
		})
	}
	if _, near := s.hosts[e]; !found && !near {
		return
	}
	asked, connected := false, false
	for i, points := range s.points {
		if points == 0 && s.cosines[e.Entries[i]] == 0 || !s.query.takes(e.Entries[i]) {
			continue
		}
		if !asked && s.query.Connected != nil {
			asked, connected = true, s.query.Connected(e.Toolset.Server)
		}
		s.top.offer(Match{
			Entry:     e.Entries[i],
			Score:     s.score(e.Entries[i], points),
			Connected: connected,
			exact:     s.exact[i],
			server:    e.Toolset.Server,
			index:     i,
		})
	}
}
