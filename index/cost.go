package index

import (
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The library cannot be stopped while it judges, so what it is given is
// bounded before. The bounds are in units of some ten nanoseconds: a few tenths
// of a second at most.
const (
	// maxVisits is how many times a subschema may meet a value.
	maxVisits = 2_000_000
	// maxMatching is how many instructions of a pattern may meet a byte.
	maxMatching = 20_000_000
	// maxPattern is the length of a pattern, maxProgram the number of
	// instructions it compiles to, maxPrograms those of all patterns of a
	// schema.
	maxPattern  = 8 << 10
	maxProgram  = 2000
	maxPrograms = 100_000
)

// cost is what judging by one schema takes, in the worst case.
type cost struct {
	visits   int // subschemas that one value meets, references followed once
	back     int // references of the schema back into itself
	program  int // instructions of its largest pattern
	programs int // of all its patterns
}

// pattern takes a pattern on, or says that it is too expensive.
func (c *cost) pattern(text string) bool {
	size, ok := programSize(text)
	if !ok || size > maxProgram || c.programs+size > maxPrograms {
		return false
	}
	c.programs += size
	c.program = max(c.program, size)
	return true
}

// programSize is about how many instructions a pattern compiles to, without
// compiling it: counted repetitions multiply.
func programSize(text string) (size int, ok bool) {
	if len(text) > maxPattern {
		return 0, false
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, true // the compiler says what is wrong with it
	}
	return instructions(re), true
}

func instructions(re *syntax.Regexp) int {
	// The text of a literal, or the ranges of a character class.
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += instructions(sub)
		if n > maxProgram {
			return maxProgram + 1
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxProgram+1)
}

// extent is what one value meets below a subschema.
type extent struct{ visits, back int }

// unfold counts the subschemas that one value meets, and the references back,
// along every way through the schema.
func (c *cost) unfold(s *jsonschema.Schema) int {
	e := measure(s, map[*jsonschema.Schema]*extent{})
	c.visits, c.back = e.visits, e.back
	return e.visits
}

// measure keeps nil for a schema that is being measured.
func measure(s *jsonschema.Schema, known map[*jsonschema.Schema]*extent) extent {
	if s == nil {
		return extent{}
	}
	if e, ok := known[s]; ok {
		if e == nil {
			return extent{visits: 1, back: 1}
		}
		return *e
	}
	known[s] = nil
	sum := extent{visits: 1}
	for _, sub := range subschemas(s) {
		e := measure(sub, known)
		sum.visits = min(sum.visits+e.visits, maxExpansion+1)
		sum.back = min(sum.back+e.back, maxExpansion+1)
	}
	known[s] = &sum
	return sum
}

// affordable says whether judging a value of that many bytes stays within the
// bounds. A schema that refers back into itself meets a value again at each
// level, once for every such reference; where they lead to different members
// that counts too much, and the value passes unjudged though it need not.
func (c *cost) affordable(doc any, bytes int) bool {
	if c.program*bytes > maxMatching {
		return false
	}
	nodes, depth := shape(doc)
	visits := c.visits
	if c.back > 0 {
		for range depth {
			if visits *= max(c.back, 1); visits > maxVisits {
				return false
			}
		}
	}
	return visits <= maxVisits/max(nodes, 1)
}

// shape is how many values a document holds, and how deep it is nested.
func shape(v any) (nodes, depth int) {
	nodes = 1
	each := func(e any) {
		n, d := shape(e)
		nodes += n
		depth = max(depth, d+1)
	}
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			each(e)
		}
	case []any:
		for _, e := range v {
			each(e)
		}
	}
	return nodes, depth
}
