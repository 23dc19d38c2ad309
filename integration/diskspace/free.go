// Package diskspace says how much room a disk has.
package diskspace

import (
	"math"
	"math/bits"
)

// bytesIn returns how many bytes so many blocks have, and the largest number for more
// than fits: some file systems say that they have no bound.
func bytesIn(blocks, size uint64) int64 {
	high, low := bits.Mul64(blocks, size)
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
