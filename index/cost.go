package index

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The library cannot be stopped while it judges, so what it is given is
// bounded before: a few tenths of a second, and as many hundred megabytes, at
// the very most. Work is counted in units of some ten nanoseconds.
const (
	maxWork = 20_000_000
	// visitWork is one subschema that meets a value; an error that comes of it
	// holds the way to the value, one step for each level.
	visitWork = 50
	// requiredWork is one name that is looked for and, if missing, listed.
	requiredWork = 6
	// numberWork and digitWork are what it takes to make an exact fraction of a
	// number, once for every keyword and listed value that it is held against.
	numberWork = 50
	digitWork  = 2
	// fewItems are compared pair by pair to see that all are unique; more are
	// hashed instead.
	fewItems = 20
	// maxUnique is how many arrays and objects there may be where items must be
	// unique: the library's hash of them can be the same for all.
	maxUnique = 4000
	// maxDigits is the length of a number, in digits.
	maxDigits = 4000
	// maxMatching is how many instructions of one pattern, maxMatchings how
	// many of all patterns, may meet a byte.
	maxMatching  = 20_000_000
	maxMatchings = 60_000_000
	// maxPattern is the length of a pattern, maxProgram the number of
	// instructions it compiles to, maxPrograms those of all patterns of a
	// schema.
	maxPattern  = 8 << 10
	maxProgram  = 2000
	maxPrograms = 100_000
)

// cost is what judging by one schema takes, in the worst case.
type cost struct {
	extent
	program  int // instructions of its largest pattern
	programs int // of all its patterns
}

// pattern takes a pattern on and returns its size, or says that it is too
// expensive.
func (c *cost) pattern(text string) (size int, ok bool) {
	size, ok = programSize(text)
	if !ok || size > maxProgram || c.programs+size > maxPrograms {
		return 0, false
	}
	c.programs += size
	c.program = max(c.program, size)
	return size, true
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

// extent is what one value meets at a subschema and below it, references
// followed once.
type extent struct {
	visits  int // subschemas
	back    int // references of the schema back into itself
	chain   int // steps in the looks for a schema that refers to itself on the spot
	work    int // at each value, beside the visits
	numbers int // keywords and listed values that a number is held against
	digits  int // the work of reading those
	unique  int // subschemas that want unique items
	matches int // instructions of the patterns
}

func (e *extent) add(o extent) {
	const enough = 10 * maxWork // no more than that is ever told apart
	e.visits = min(e.visits+o.visits, maxExpansion+1)
	e.back = min(e.back+o.back, maxExpansion+1)
	e.chain = min(e.chain+o.chain, enough)
	e.work = min(e.work+o.work, enough)
	e.numbers = min(e.numbers+o.numbers, enough)
	e.digits = min(e.digits+o.digits, enough)
	e.unique = min(e.unique+o.unique, enough)
	e.matches = min(e.matches+o.matches, enough)
}

// unfold measures what one value meets along every way through the schema, and
// returns how many subschemas that are.
func (c *cost) unfold(s *jsonschema.Schema) int {
	c.extent = measure(s, map[*jsonschema.Schema]*extent{})
	return c.visits
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
	sum := own(s)
	for _, sub := range applied(s) {
		e := measure(sub, known)
		e.chain += e.visits // each is one step further from the first
		sum.add(e)
	}
	for _, sub := range subschemas(s) {
		sum.add(measure(sub, known))
	}
	known[s] = &sum
	return sum
}

// own is what a value meets at a subschema itself.
func own(s *jsonschema.Schema) extent {
	e := extent{visits: 1}
	required := len(s.Required)
	for _, names := range s.DependentRequired {
		required += 1 + len(names)
	}
	for _, d := range s.Dependencies {
		if names, ok := d.([]string); ok {
			required += 1 + len(names)
		}
	}
	e.work = requiredWork * required
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			e.listed(v)
		}
	}
	if s.Const != nil {
		e.listed(*s.Const)
	}
	if s.Types != nil {
		e.numbers++ // whether it is an integer
	}
	for _, bound := range []*big.Rat{s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf} {
		if bound != nil {
			const digit = 3 // bits, rounded down
			e.numbers++
			e.digits += numberWork + digitWork*(bound.Num().BitLen()+bound.Denom().BitLen())/digit
		}
	}
	if s.UniqueItems {
		e.unique = 1
	}
	e.matches = instructionsOf(s.Pattern)
	for name := range s.PatternProperties {
		e.matches += instructionsOf(name)
	}
	return e
}

// listed takes in a value that others are compared with.
func (e *extent) listed(v any) {
	e.work++
	switch v := v.(type) {
	case map[string]any:
		for _, m := range v {
			e.listed(m)
		}
	case []any:
		for _, m := range v {
			e.listed(m)
		}
	case json.Number:
		e.numbers++
		e.digits += weigh(v)
	}
}

// weigh is the work of making a fraction of a number.
func weigh(n json.Number) int {
	digits := len(n)
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		exp, _ := strconv.Atoi(string(n[i+1:])) // bounded by clamp
		digits += max(exp, -exp)
	}
	return numberWork + digitWork*digits
}

// sized is a pattern that knows how many instructions it has.
type sized struct {
	*regexp.Regexp
	size int
}

func instructionsOf(re jsonschema.Regexp) int {
	if s, ok := re.(sized); ok {
		return s.size
	}
	return 0
}

// affordable says whether judging a value of that many bytes stays within the
// bounds. A schema that refers back into itself meets a value again at each
// level, once for every such reference; where they lead to different members
// that counts too much, and the value passes unjudged though it need not.
func (c *cost) affordable(doc any, bytes int) bool {
	if c.program*bytes > maxMatching {
		return false
	}
	var d shape
	d.take(doc, 0)
	if d.long || c.unique > 0 && d.containers > maxUnique {
		return false
	}
	const chainSteps = 4 // in a unit
	levels := float64(d.depth + 1)
	// Floating point does not overflow, and nothing here is that exact.
	work := float64(d.nodes)*(float64(c.visits)*(visitWork+levels)+float64(c.chain)/chainSteps+float64(c.work)) +
		float64(d.weight)*float64(c.numbers) + float64(d.numbers)*float64(c.digits) + d.pairs*float64(c.unique)
	matches := float64(c.matches) * float64(bytes)
	if c.back > 0 {
		again := math.Pow(float64(max(c.back, 1)), float64(d.depth))
		work, matches = work*again, matches*again
	}
	return work <= maxWork && matches <= maxMatchings
}

// tooMany says that a text of JSON has so many values that judging them cannot be
// afforded, before it is decoded: a value of two bytes becomes some fifty.
func (c *cost) tooMany(raw []byte) bool {
	left, quoted := maxWork/visitWork/max(c.visits, 1), false
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			quoted = !quoted
		case '\\':
			i++ // stands in a string alone
		case ',':
			if quoted {
				continue
			}
			if left--; left < 0 {
				return true
			}
		}
	}
	return false
}

// shape is what a document consists of.
type shape struct {
	nodes, containers, depth int
	numbers, weight          int     // how many, and the work of reading them once
	pairs                    float64 // the work of seeing that the items of each array are unique
	long                     bool
}

// take returns the work of reading v once.
func (d *shape) take(v any, depth int) float64 {
	d.nodes++
	d.depth = max(d.depth, depth)
	work := 1.0
	switch v := v.(type) {
	case map[string]any:
		d.containers++
		for _, e := range v {
			work += d.take(e, depth+1)
		}
	case []any:
		d.containers++
		for _, e := range v {
			work += d.take(e, depth+1)
		}
		if len(v) <= fewItems {
			d.pairs += work * float64(max(len(v)-1, 0)) // each is one side of so many
		} else {
			d.pairs += work
		}
	case json.Number:
		w := weigh(v)
		d.numbers++
		d.weight += w
		d.long = d.long || len(v) > maxDigits
		work += float64(w)
	}
	return work
}
