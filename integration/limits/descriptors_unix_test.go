//go:build unix

package limits

import (
	"errors"
	"os"
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
