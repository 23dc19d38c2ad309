package scrub

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// The filter finds every place where a key stands, wherever that is and whatever stands
// around it, and no other.
func TestFilterFindsEveryPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) // the same texts with every run
	for range 300 {
		f, added := &filter{}, map[uint32]bool{}
		for _, key := range []string{"aBc", "dab", "b-d"} {
			f.add(keyOf([]byte(key)))
			added[keyOf([]byte(key))] = true
		}
		b := make([]byte, rng.IntN(60))
		for i := range b {
			b[i] = byte('a' + rng.IntN(4))
		}
		for range rng.IntN(3) {
			if len(b) >= keyLength {
				copy(b[rng.IntN(len(b)-keyLength+1):], bytes.ToUpper([]byte("abc")))
			}
		}
		var want, got []int
		for i := 0; i+keyLength <= len(b); i++ {
			if added[keyOf(b[i:])] {
				want = append(want, i)
			}
		}
		for i := f.next(b, 0); i >= 0; i = f.next(b, i+1) {
			got = append(got, i)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("in %q it finds %v, want %v", b, got, want)
		}
	}
}
