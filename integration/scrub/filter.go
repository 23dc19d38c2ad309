package scrub

import "encoding/binary"

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
// the same for both cases of a letter.
type filter struct {
	keys  keys
	pairs [1 << (4*pairBits - 6)]uint64
}

const (
	pairBits = 5
	pairMask = 1<<pairBits - 1
)

func (f *filter) add(key uint32) {
	f.keys.add(key)
	k := key&pairMask | key>>8&pairMask<<pairBits | key>>16&pairMask<<(2*pairBits)
	for other := range uint32(1 << pairBits) {
		f.addPair(k | other<<(3*pairBits)) // the key at the first place
		f.addPair(k<<pairBits | other)     // and at the second
	}
}

func (f *filter) addPair(p uint32)   { f.pairs[p>>6] |= 1 << (p & 63) }
func (f *filter) pair(p uint32) bool { return f.pairs[p>>6&(1<<(4*pairBits-6)-1)]>>(p&63)&1 != 0 }

// next is the first place from i on where a key stands that is looked for, or may be;
// -1: there is none.
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
		at := -1
		switch {
		case f.pair(uint32(at04)) && f.either(b, i, &at):
		case f.pair(uint32(at26)) && f.either(b, i+2, &at):
		case f.pair(uint32(at04>>32)) && f.either(b, i+4, &at):
		case f.pair(uint32(at26>>32)) && f.either(b, i+6, &at):
		default:
			continue
		}
		return at
	}
	for ; i+keyLength <= len(b); i++ {
		if f.keys.has(keyOf(b[i:])) {
			return i
		}
	}
	return -1
}

// either reports whether a key stands at i or behind it, and where.
func (f *filter) either(b []byte, i int, at *int) bool {
	if *at = i; f.keys.has(keyOf(b[i:])) {
		return true
	}
	*at = i + 1
	return f.keys.has(keyOf(b[i+1:]))
}
