package scrub

import (
	"encoding/binary"
	"slices"
)

// keyLength is how many bytes decide whether a place is looked at closely.
const keyLength = 3

// foldBit makes the letters of both cases one in a key.
const foldBit = 0x20

func keyOf(value []byte) uint32 {
	return uint32(value[0]|foldBit) | uint32(value[1]|foldBit)<<8 | uint32(value[2]|foldBit)<<16
}

// keys is a set of keys. It may have more than were added.
type keys [1 << (filterBits - 6)]uint64

const filterBits = 15

func filterPlace(key uint32) uint32 { return key * 2654435761 >> (32 - filterBits) }

func (k *keys) add(key uint32)      { p := filterPlace(key); k[p>>6] |= 1 << (p & 63) }
func (k *keys) has(key uint32) bool { p := filterPlace(key); return k[p>>6]>>(p&63)&1 != 0 }

// filter finds the places of a text where anything that is looked for may begin. All
// texts pass through it, and of nearly all nothing is left, so two places are looked at
// at once: by the four bytes from the first on, of each its last five bits, which are
// the same for both cases of a letter. Where these let one through, the key itself and
// the bytes around it have to be right.
type filter struct {
	pairs [1 << (4*pairBits - 6)]uint64
	keys  keys
	at    [1 << filterBits]uint16 // the place in around, by filterPlace of a key
	// around is what stands beside the keys with the same place. 0: no key has it.
	around []around
}

const (
	pairBits = 5
	pairMask = 1<<pairBits - 1
)

// around is which bytes may stand right before a key, right behind it and behind that:
// bits by their last five, which ignores case. Of ordinary texts that have a key, most
// have another byte there.
type around struct {
	before, behind, beyond uint32
	sorts                  sorts
}

// sorts are the sorts of what is looked for.
type sorts uint8

const (
	ofRule  sorts = 1 << iota // a keyword of a rule
	ofShape                   // what shapeAt knows
	ofKnown                   // a secret of the configuration
)

const anyByte = 1<<32 - 1

// add looks for a word, in whatever case, which has its key at rare: it is told by
// that, and rare is where the word is the rarest. follow are the bytes that may follow
// the word, as in around; where it has fewer, any byte may. It returns the key's place
// in around.
func (f *filter) add(word []byte, rare int, sort sorts, follow ...uint32) uint16 {
	key := keyOf(word[rare:])
	f.keys.add(key)
	n := f.at[filterPlace(key)]
	if n == 0 {
		if len(f.around) == 0 {
			f.around = make([]around, 1)
		}
		n = uint16(len(f.around))
		f.at[filterPlace(key)] = n
		f.around = append(f.around, around{})
	}
	bit := func(at int) uint32 {
		switch {
		case at >= 0 && at < len(word):
			return 1 << (word[at] & pairMask)
		case at >= len(word) && at < len(word)+len(follow):
			return follow[at-len(word)]
		}
		return anyByte
	}
	before, behind, beyond := bit(rare-1), bit(rare+keyLength), bit(rare+keyLength+1)
	a := &f.around[n]
	a.before, a.behind, a.beyond, a.sorts = a.before|before, a.behind|behind, a.beyond|beyond, a.sorts|sort
	k := key&pairMask | key>>8&pairMask<<pairBits | key>>16&pairMask<<(2*pairBits)
	for other := range uint32(1 << pairBits) {
		if behind>>other&1 != 0 {
			f.addPair(k | other<<(3*pairBits)) // the key is at the first place
		}
		if before>>other&1 != 0 {
			f.addPair(k<<pairBits | other) // and at the second
		}
	}
	return n
}

// copied returns a copy that may have more added.
func (f *filter) copied() *filter {
	own := *f // Go puts what is so large on the heap
	own.around = slices.Clone(f.around)
	return &own
}

func (f *filter) addPair(p uint32) { f.pairs[p>>6] |= 1 << (p & 63) }

// pair has its lowest bit set where a key may stand at one of two places.
func (f *filter) pair(p uint32) uint64 { return f.pairs[p>>6&(1<<(4*pairBits-6)-1)] >> (p & 63) }

// sortsAt are the sorts of what may be where key stands, if next has found it there.
func (f *filter) sortsAt(key uint32) sorts { return f.around[f.at[filterPlace(key)]].sorts }

// stands reports whether a key stands at i, and around it what stands there wherever
// something is found.
func (f *filter) stands(b []byte, i int) bool {
	key := keyOf(b[i:])
	return f.keys.has(key) && f.around[f.at[filterPlace(key)]].fit(b, i)
}

func (a *around) fit(b []byte, i int) bool {
	behind := i + keyLength
	return (i == 0 || a.before>>(b[i-1]&pairMask)&1 != 0) &&
		(behind >= len(b) || a.behind>>(b[behind]&pairMask)&1 != 0) &&
		(behind+1 >= len(b) || a.beyond>>(b[behind+1]&pairMask)&1 != 0)
}

// next is the first place from i on where the key of what is looked for stands, or may
// stand; -1: there is none.
func (f *filter) next(b []byte, i int) int {
	const (
		places = 8 // that are looked at in one turn
		ahead  = places + 2
		first  = 0x001f001f001f001f // of two bytes the first
		second = 0x03e003e003e003e0 // and the other one, beside it
		twos   = 0x000003ff000003ff
	)
	for ; i+ahead <= len(b); i += places {
		// Two neighbours become ten bits, and two of those twenty: at the places 0, 2, 4
		// and 6 from i.
		t := binary.LittleEndian.Uint64(b[i:])
		t = t&first | t>>(8-pairBits)&second
		end := uint64(b[i+places]&pairMask) | uint64(b[i+places+1]&pairMask)<<pairBits
		even, odd := t&twos, t>>16&twos
		at04 := even | odd<<(2*pairBits)
		at26 := odd | (even>>32|end<<32)<<(2*pairBits)
		p0, p2, p4, p6 := f.pair(uint32(at04)), f.pair(uint32(at26)), f.pair(uint32(at04>>32)), f.pair(uint32(at26>>32))
		if (p0|p2|p4|p6)&1 == 0 { // as nearly always, so that one jump decides
			continue
		}
		for n, p := range [...]uint64{p0, p2, p4, p6} {
			if p&1 == 0 {
				continue
			}
			at := i + 2*n
			if f.stands(b, at) {
				return at
			}
			if f.stands(b, at+1) {
				return at + 1
			}
		}
	}
	for ; i+keyLength <= len(b); i++ {
		if f.stands(b, i) {
			return i
		}
	}
	return -1
}
