package diskspace

import (
	"math"
	"path/filepath"
	"testing"
)

func TestFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if free, err := Free(dir); err != nil || free < 0 {
		t.Errorf("%d, %v", free, err)
	}
	if _, err := Free(filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is missing has room")
	}
}

func TestBytesInAreNeverNegative(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		blocks, size uint64
		want         int64
	}{
		{0, 4096, 0}, {3, 4096, 12288}, {5, 0, 0},
		{math.MaxInt64, 1, math.MaxInt64}, {math.MaxInt64 + 1, 1, math.MaxInt64}, {math.MaxUint64, 1, math.MaxInt64},
		{1 << 51, 4096, math.MaxInt64}, {1 << 52, 4096, math.MaxInt64}, {math.MaxUint64, 4096, math.MaxInt64},
	} {
		if got := bytesIn(tt.blocks, tt.size); got != tt.want {
			t.Errorf("%d of %d: %d, want %d", tt.blocks, tt.size, got, tt.want)
		}
	}
}
