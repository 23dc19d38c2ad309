package scrub

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// longest returns how many bytes a match has at most, as far as ASCII goes.
func longest(re *syntax.Regexp) int {
	const endless = 1 << 20
	total := 0
	switch re.Op { //nolint:exhaustive // the others are made of these
	case syntax.OpLiteral:
		return len(string(re.Rune))
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpStar, syntax.OpPlus:
		return endless
	case syntax.OpRepeat:
		if re.Max < 0 {
			return endless
		}
		return min(endless, re.Max*longest(re.Sub[0]))
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			total = max(total, longest(sub))
		}
		return total
	}
	for _, sub := range re.Sub {
		total = min(endless, total+longest(sub))
	}
	return total
}

// capture returns the nth group of a pattern, or nil.
func capture(re *syntax.Regexp, n int) *syntax.Regexp {
	if re.Op == syntax.OpCapture && re.Cap == n {
		return re
	}
	for _, sub := range re.Sub {
		if found := capture(sub, n); found != nil {
			return found
		}
	}
	return nil
}

// charSet is a set of bytes.
type charSet [4]uint64

func (s *charSet) add(c byte)      { s[c>>6] |= 1 << (c & 63) }
func (s *charSet) has(c byte) bool { return s[c>>6]>>(c&63)&1 != 0 }

// bits are the last five bits of each byte of a set; a nil set has all.
func (s *charSet) bits() (bits uint32) {
	if s == nil {
		return anyByte
	}
	for c := range 0x100 {
		if s.has(byte(c)) {
			bits |= 1 << (c & pairMask)
		}
	}
	return bits
}

// program is what a match must have from its start on: runs of bytes of a set.
type program []run

type run struct {
	set   *charSet
	count int
}

// fits says whether b may be the beginning of a match.
func (p program) fits(b []byte) bool {
	at := 0
	for _, r := range p {
		if len(b)-at < r.count {
			return false
		}
		for _, c := range b[at : at+r.count] {
			if !r.set.has(c) {
				return false
			}
		}
		at += r.count
	}
	return true
}

// programsOf returns what each alternative of a pattern begins with.
func programsOf(re *syntax.Regexp) []program {
	sets := map[charSet]*charSet{}
	open := []program{nil}
	var closed []program
	// extend appends re to the open programs; what has no fixed length closes
	// them.
	var extend func(re *syntax.Regexp)
	step := func(s charSet, count int) {
		shared := sets[s]
		if shared == nil {
			shared = &s
			sets[s] = shared
		}
		for i, p := range open {
			if n := len(p); n > 0 && p[n-1].set == shared {
				p = slices.Clone(p)
				p[n-1].count += count
				open[i] = p
				continue
			}
			open[i] = append(slices.Clone(p), run{shared, count})
		}
	}
	end := func() { closed, open = append(closed, open...), nil }
	extend = func(re *syntax.Regexp) {
		if len(open) == 0 {
			return
		}
		switch re.Op {
		case syntax.OpCapture, syntax.OpConcat:
			for _, sub := range re.Sub {
				extend(sub)
			}
		case syntax.OpEmptyMatch, syntax.OpWordBoundary:
		case syntax.OpLiteral, syntax.OpCharClass:
			for _, s := range setsOf(re) {
				step(s, 1)
			}
		case syntax.OpRepeat, syntax.OpPlus:
			least, most := 1, -1
			if re.Op == syntax.OpRepeat {
				least, most = re.Min, re.Max
			}
			each := setsOf(re.Sub[0])
			if len(each) != 1 {
				end()
				return
			}
			if least > 0 {
				step(each[0], least)
			}
			if least != most {
				end()
			}
		case syntax.OpAlternate:
			before := open
			var after []program
			for _, sub := range re.Sub {
				open = slices.Clone(before)
				extend(sub)
				after = append(after, open...)
			}
			open = after
			if len(open) > mostPrograms {
				end()
			}
		default:
			end()
		}
	}
	extend(re)
	return append(closed, open...)
}

// setsOf returns the sets of a literal or of one character; nil: it is neither.
func setsOf(re *syntax.Regexp) []charSet {
	switch re.Op { //nolint:exhaustive // the others are none
	case syntax.OpCapture:
		return setsOf(re.Sub[0])
	case syntax.OpLiteral:
		var out []charSet
		for _, c := range re.Rune {
			if c >= 0x80 {
				return nil
			}
			var s charSet
			s.add(byte(c))
			if re.Flags&syntax.FoldCase != 0 && isAlnum(byte(c)) {
				s.add(strings.ToLower(string(c))[0])
				s.add(strings.ToUpper(string(c))[0])
			}
			out = append(out, s)
		}
		return out
	case syntax.OpCharClass:
		var s charSet
		for i := 0; i+1 < len(re.Rune); i += 2 {
			for c := re.Rune[i]; c <= re.Rune[i+1] && c < 0x80; c++ {
				s.add(byte(c))
			}
			if re.Rune[i+1] >= 0x80 {
				for c := 0x80; c < 0x100; c++ { // any byte of such a character
					s.add(byte(c))
				}
			}
		}
		return []charSet{s}
	}
	return nil
}

// beginWith says whether whatever fits one of the programs begins with one of
// the words, whatever its case.
func beginWith(programs []program, words []string) bool {
	return len(programs) > 0 && !slices.ContainsFunc(programs, func(p program) bool { return !p.beginsWith(words, 0) })
}

// beginsWith is that for the words that fit the first at bytes.
func (p program) beginsWith(words []string, at int) bool {
	set := p.at(at)
	if set == nil {
		return false
	}
	for c := range 0x100 {
		if !set.has(byte(c)) {
			continue
		}
		left := make([]string, 0, len(words))
		done := false
		for _, w := range words {
			if w[at] == fold(byte(c)) {
				left, done = append(left, w), done || len(w) == at+1
			}
		}
		if !done && (len(left) == 0 || !p.beginsWith(left, at+1)) {
			return false
		}
	}
	return true
}

// longer returns the keywords with what may follow the short ones, so that all
// have the length of a key.
func (r *rule) longer(words []string) (out []string) {
	for _, w := range words {
		if len(w) >= keyLength {
			out = append(out, w)
			continue
		}
		seen := map[byte]bool{}
		for _, p := range r.outline().programs {
			set := p.at(len(w))
			for c := range 0x80 {
				if f := fold(byte(c)); set != nil && set.has(byte(c)) && !seen[f] {
					seen[f] = true
					out = append(out, r.longer([]string{w + string(f)})...)
				}
			}
		}
	}
	return out
}

// at is the set of the byte at a place; nil: the program is over.
func (p program) at(place int) *charSet {
	for _, r := range p {
		if place < r.count {
			return r.set
		}
		place -= r.count
	}
	return nil
}

func fold(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
