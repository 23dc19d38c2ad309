package traceview

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// owners finds the request of records that do not name it themselves: by the
// span in which they happened, or, in version 1, by the actor and the time.
type owners struct {
	spans map[spanKey]*Record
	known map[spanKey]uint64 // requests of spans, as far as they were asked for
	// busy are the handlings of each actor in version 1, by begin.
	busy map[actorKey][]*Record
}

type spanKey struct {
	run  int
	span uint64
}

type actorKey struct {
	run   int
	actor string
}

// maxParents bounds the way up from a span, should a trace go in circles.
const maxParents = 64

func newOwners(records []*Record) *owners {
	o := &owners{spans: map[spanKey]*Record{}, known: map[spanKey]uint64{}, busy: map[actorKey][]*Record{}}
	for _, r := range records {
		if !r.Message() {
			continue
		}
		if r.Span > 0 {
			o.spans[spanKey{r.Run, r.Span}] = r
		} else {
			k := actorKey{r.Run, r.To}
			o.busy[k] = append(o.busy[k], r)
		}
	}
	for _, list := range o.busy {
		slices.SortStableFunc(list, func(x, y *Record) int {
			a, _ := x.handled()
			b, _ := y.handled()
			return a.Compare(b)
		})
	}
	return o
}

// request is the request that caused a record; 0: none.
func (o *owners) request(r *Record) uint64 {
	switch {
	case r.Request > 0:
		return r.Request
	case r.Message() && r.Parent > 0:
		return o.ofSpan(spanKey{r.Run, r.Parent}, 0)
	case r.Message():
		return 0
	case r.Span > 0:
		return o.ofSpan(spanKey{r.Run, r.Span}, 0)
	}
	if within := o.handling(r); within != nil {
		return within.Request
	}
	return 0
}

func (o *owners) ofSpan(k spanKey, depth int) uint64 {
	if id, asked := o.known[k]; asked {
		return id
	}
	r := o.spans[k]
	if r == nil || depth == maxParents {
		return 0
	}
	id := r.Request
	if id == 0 && r.Parent > 0 {
		id = o.ofSpan(spanKey{r.Run, r.Parent}, depth+1)
	}
	o.known[k] = id
	return id
}

// handling is the message of version 1 that an event's actor was handling
// then; nil: none.
func (o *owners) handling(event *Record) *Record {
	list := o.busy[actorKey{event.Run, event.To}]
	i := sort.Search(len(list), func(i int) bool {
		from, _ := list[i].handled()
		return from.After(event.Time)
	})
	if i == 0 {
		return nil
	}
	if _, to := list[i-1].handled(); event.Time.After(to) {
		return nil
	}
	return list[i-1]
}

// nest computes the depth and the own time of a request's messages. One was
// handled within another where that one sent it and was not over before it
// was: actors that run inline do so on their sender's time.
func nest(hops []Hop) {
	spans := map[uint64]int{}
	last := map[string][]int{} // of version 1: the messages to an actor so far
	inner := map[int][]interval{}
	for i := range hops {
		if hops[i].Span > 0 {
			spans[hops[i].Span] = i
		}
	}
	for i := range hops {
		h := &hops[i]
		parent := -1
		if h.Span > 0 {
			if p, ok := spans[h.Parent]; ok && h.Parent > 0 && p != i {
				parent = p
			}
		} else if h.From != "" {
			parent = enclosing(hops, last[h.From], h)
		}
		last[h.To] = append(last[h.To], i)
		if parent < 0 {
			continue
		}
		h.Depth = min(hops[parent].Depth+1, maxParents)
		if _, over := hops[parent].handled(); !h.end().After(over) {
			inner[parent] = append(inner[parent], interval{h.Time, h.end()})
		}
	}
	for i := range hops {
		hops[i].Self = max(time.Duration(hops[i].RanNs)-covered(inner[i]), 0)
	}
}

// lookedBack bounds how many handlings of an actor are tried for a message of
// version 1.
const lookedBack = 16

// enclosing is the handling of the sender in which h was sent; -1: none.
func enclosing(hops []Hop, sender []int, h *Hop) int {
	for n, i := range slices.Backward(sender) {
		if len(sender)-n > lookedBack {
			break
		}
		from, to := hops[i].handled()
		if !h.Time.Before(from) && !h.Time.After(to) {
			return i
		}
	}
	return -1
}

type interval struct{ from, to time.Time }

// covered is the time that intervals cover together.
func covered(all []interval) time.Duration {
	slices.SortFunc(all, func(x, y interval) int { return cmp.Or(x.from.Compare(y.from), x.to.Compare(y.to)) })
	var sum time.Duration
	var until time.Time
	for i, v := range all {
		from := v.from
		if i > 0 && from.Before(until) {
			from = until
		}
		if v.to.After(from) {
			sum += v.to.Sub(from)
		}
		if v.to.After(until) {
			until = v.to
		}
	}
	return sum
}
