package models

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestDiskFull writes to a device that has no room, as a full disk does.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	w := &progressWriter{out: full, p: &plan{maxBytes: 1 << 20, tell: func(Progress) {}}, alive: func() {}}
	_, err = w.Write([]byte("GGUF"))
	var permanent permanentError
	if !isDiskFull(err) || !errors.As(err, &permanent) {
		t.Fatalf("got %v", err)
	}
	if e := (&plan{Installed: Installed{Name: "m"}}).explain(err); !strings.Contains(e.Error(), "the disk is full. Make room") {
		t.Error(e)
	}
}
