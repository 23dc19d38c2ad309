package index

import "strings"

// Points of the classic ranking, for each word of the query.
const (
	pointsExactName   = 10
	pointsNameHas     = 5
	pointsDescription = 2
)

// Classic ranks by keywords alone. Each word of the query brings a tool 10
// points where it is the tool's name, else 5 where the name contains it, and 2
// more where the description contains it, without regard to case. An exact
// name does not earn the 5 as well, since the seed calls 10 the most that a
// name can bring. The score is the sum divided by 10 for each word, at most 1.
//
// A tool whose whole name is in the query as a word, or is the query, comes
// first whatever the other words bring to others.
type Classic struct{}

// Search implements [Ranker].
func (Classic) Search(c *Catalog, q Query) []Match {
	words := q.words()
	if len(words) == 0 {
		return nil
	}
	s := search{query: q, words: words, top: board{limit: q.limit()}}
	// A name may hold spaces, so the query as a whole counts as a word too.
	s.whole = strings.ToLower(strings.Join(strings.Fields(cut(q.Text, maxQueryText)), " "))
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
	for _, word := range s.words {
		e.names.each(word, func(i int) {
			found = true
			if e.Entries[i].lowerName == word {
				s.points[i] += pointsExactName
				s.exact[i] = true
				return
			}
			s.points[i] += pointsNameHas
		})
		e.descriptions.each(word, func(i int) {
			found = true
			s.points[i] += pointsDescription
		})
	}
	if strings.Contains(s.whole, " ") {
		e.names.each(s.whole, func(i int) {
			if e.Entries[i].lowerName == s.whole {
				found = true
				s.points[i] = pointsExactName * len(s.words)
				s.exact[i] = true
			}
		})
	}
	if !found {
		return
	}
	asked, connected := false, false
	for i, points := range s.points {
		if points == 0 || !e.Entries[i].Enabled {
			continue
		}
		if !asked && s.query.Connected != nil {
			asked, connected = true, s.query.Connected(e.Toolset.Server)
		}
		s.top.offer(Match{
			Entry:     e.Entries[i],
			Score:     min(1, float64(points)/float64(pointsExactName*len(s.words))),
			Connected: connected,
			exact:     s.exact[i],
			server:    e.Toolset.Server,
			index:     i,
		})
	}
}
