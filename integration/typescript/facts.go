package typescript

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// facts are what a schema says beyond its type, in a few words each.
func facts(o *object) []string {
	var out []string
	add := func(fact string) {
		if fact != "" {
			out = append(out, fact)
		}
	}
	if o.get("type") == "integer" {
		add("integer")
	}
	add(word(o.text("format")))
	add(word(o.text("contentEncoding")))
	add(numbers(o))
	add(between(o, "minLength", "maxLength", " characters"))
	add(between(o, "minItems", "maxItems", " items"))
	add(between(o, "minProperties", "maxProperties", " members"))
	if o.get("uniqueItems") == true {
		add("distinct")
	}
	if n := o.number("multipleOf"); n != "" && len(n) <= maxNumber {
		add("multiple of " + n)
	}
	if pattern := o.text("pattern"); pattern != "" && len(pattern) <= maxPattern {
		add("matches " + plain(pattern))
	}
	add(standard(o.get("default")))
	if o.get("deprecated") == true {
		add("deprecated")
	}
	return out
}

const (
	maxWord    = 30
	maxNumber  = 24
	maxPattern = 48
	maxDefault = 40
)

func word(s string) string {
	if len(s) > maxWord {
		return ""
	}
	return plain(s)
}

// numbers is the range of a number.
func numbers(o *object) string {
	low, high := bound(o, "minimum"), bound(o, "maximum")
	above, below := bound(o, "exclusiveMinimum"), bound(o, "exclusiveMaximum")
	// In draft 4 these two say how the others are meant.
	if o.get("exclusiveMinimum") == true {
		low, above = "", low
	}
	if o.get("exclusiveMaximum") == true {
		high, below = "", high
	}
	if low != "" && high != "" {
		return low + ".." + high
	}
	var out []string
	for _, b := range []struct{ sign, number string }{{">= ", low}, {"> ", above}, {"<= ", high}, {"< ", below}} {
		if b.number != "" {
			out = append(out, b.sign+b.number)
		}
	}
	return strings.Join(out, ", ")
}

// bound is a bound that says something: generators write the largest safe
// integers where there is none.
func bound(o *object, key string) string {
	n := o.number(key)
	f, err := strconv.ParseFloat(n, 64)
	const safe = 1<<53 - 1
	if err != nil || math.Abs(f) >= safe || len(n) > maxNumber {
		return ""
	}
	return n
}

func between(o *object, low, high, of string) string {
	least, most := bound(o, low), bound(o, high)
	if least == "0" {
		least = ""
	}
	switch {
	case least != "" && least == most:
		return least + of
	case least != "" && most != "":
		return least + ".." + most + of
	case least != "":
		return ">= " + least + of
	case most != "":
		return "<= " + most + of
	}
	return ""
}

// standard tells of a default value.
func standard(v any) string {
	var s string
	switch v := v.(type) {
	case bool:
		s = strconv.FormatBool(v)
	case json.Number:
		s = v.String()
	case string:
		if len(v) > maxDefault {
			return ""
		}
		s = plain(quote(v))
	case []any:
		if len(v) == 0 {
			s = "[]"
		}
	case *object:
		if len(v.keys) == 0 {
			s = "{}"
		}
	}
	if s == "" || len(s) > maxDefault {
		return ""
	}
	return "default " + s
}
