package actors

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"

	"github.com/metamcp/metamcp/messages"
)

const (
	// safeDigits is how many digits every integer may have that JavaScript's
	// numbers hold exactly.
	safeDigits = 15
	// maxInteger is 2^53, from which on two integers may be the same number.
	maxInteger = 1 << 53
	// maxLostDigits bounds the tools that a report names for this.
	maxLostDigits = 5
	// maxTextDepth is how many texts of JSON are looked into, one within
	// another.
	maxTextDepth = 3
)

// changedNumber returns the first number of a JSON text that would be another
// one in JavaScript: an integer beyond 2^53, as long ids are, or one that is
// too large at all. Strings that are JSON themselves are looked into, since a
// script parses them. Fractions are not meant: everybody rounds those. It
// returns "" where there is none.
func changedNumber(value []byte) string { return findNumber(value, changes, 0) }

// unsafeInteger returns the first integer of a JSON text, as JavaScript has
// written it, that may have been another one before.
func unsafeInteger(value []byte) string {
	return findNumber(value, func(n string) bool {
		f, err := strconv.ParseFloat(n, 64)
		return err == nil && math.Abs(f) >= maxInteger && f == math.Trunc(f)
	}, maxTextDepth)
}

// changes tells whether a number of JSON, which is long or has an exponent, is
// an integer that JavaScript does not hold.
func changes(n string) bool {
	f, err := strconv.ParseFloat(n, 64)
	if err != nil {
		return true
	}
	if math.Abs(f) < maxInteger || bytes.ContainsAny([]byte(n), ".eE") {
		return false
	}
	exact, ok := new(big.Float).SetPrec(0).SetString(n)
	if !ok {
		return false
	}
	whole, accuracy := exact.Int(nil)
	got, _ := new(big.Float).SetFloat64(f).Int(nil)
	return accuracy != big.Exact || whole.Cmp(got) != 0
}

// findNumber returns the first number of valid JSON that bad says yes to, which
// is asked for those alone that may be beyond 2^53.
func findNumber(value []byte, bad func(n string) bool, depth int) string {
	for i := 0; i < len(value); {
		switch c := value[i]; {
		case c == '"':
			end, digits := stringEnd(value, i)
			if digits && depth < maxTextDepth {
				if n := numberInText(value[i:end], bad, depth+1); n != "" {
					return n
				}
			}
			i = end
		case c == '-' || c >= '0' && c <= '9':
			end, exponent := i+1, false
			for ; end < len(value) && bytes.IndexByte([]byte("0123456789.eE+-"), value[end]) >= 0; end++ {
				exponent = exponent || value[end] == 'e' || value[end] == 'E'
			}
			if n := string(value[i:end]); (exponent || len(n) > safeDigits) && bad(n) {
				return n
			}
			i = end
		default:
			i++
		}
	}
	return ""
}

// stringEnd is the end of the string that begins at start; digits says whether
// it holds so many in a row that there may be a number to look for.
func stringEnd(value []byte, start int) (end int, digits bool) {
	run := 0
	for i := start + 1; i < len(value); i++ {
		switch c := value[i]; {
		case c >= '0' && c <= '9':
			run++
			digits = digits || run > safeDigits
			continue
		case c == '\\':
			i++
		case c == '"':
			return i + 1, digits
		}
		run = 0
	}
	return len(value), digits
}

func numberInText(quoted []byte, bad func(n string) bool, depth int) string {
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return ""
	}
	inner := bytes.TrimSpace([]byte(text))
	// A bare number in a text stays text for a script.
	if len(inner) == 0 || inner[0] != '{' && inner[0] != '[' || !json.Valid(inner) {
		return ""
	}
	return findNumber(inner, bad, depth)
}

// lostDigits remembers, once for each tool, that a number of its arguments or
// of its result is beyond what a script holds; number is "" where none is.
func (a *runActor) lostDigits(call *messages.Call, number string, arguments bool) {
	if number == "" {
		return
	}
	l := messages.LostDigits{Server: shortName(call.Server), Tool: shortName(call.Tool), Arguments: arguments}
	for _, had := range a.lost {
		if had.Server == l.Server && had.Tool == l.Tool && had.Arguments == l.Arguments {
			return
		}
	}
	if len(a.lost) < maxLostDigits {
		l.Number = messages.Cut(number, maxNumberText)
		a.lost = append(a.lost, l)
	}
}

// maxNumberText bounds, in bytes, what a report shows of a number.
const maxNumberText = 60
