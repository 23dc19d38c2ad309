//go:build unix

package limits

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestDescriptors(t *testing.T) {
	before := ReadDescriptors()
	if before.Limit == 0 {
		t.Fatal("nothing is known of the descriptors")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if after := ReadDescriptors(); after.Open != before.Open+1 {
		t.Errorf("%d open, then %d", before.Open, after.Open)
	}
	if err := (Descriptors{Open: 100, Limit: 256}).CheckStart(); err != nil {
		t.Error(err)
	}
	if err := (Descriptors{Open: 240, Limit: 256}).CheckStart(); !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "240 of 256") {
		t.Errorf("said %v", err)
	}
}

// However they are counted, there are as many.
func TestDescriptorsAreCountedAlike(t *testing.T) {
	listed, err := listDescriptors()
	if err != nil {
		t.Fatal(err)
	}
	if size := sizeOfDescriptors(); size != 0 && size != listed {
		t.Errorf("%d by the size of the folder, %d listed", size, listed)
	}
	if got := ReadDescriptors().Open; got != listed {
		t.Errorf("%d of %d", got, listed)
	}
}

// What a start pays for that a host has thousands of descriptors.
func BenchmarkReadDescriptors(b *testing.B) {
	for _, more := range []int{0, 5000} {
		b.Run(strconv.Itoa(more), func(b *testing.B) {
			for range more {
				f, err := os.Open(os.DevNull)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = f.Close() })
			}
			for b.Loop() {
				ReadDescriptors()
			}
		})
	}
}
