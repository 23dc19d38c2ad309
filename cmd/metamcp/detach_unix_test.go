//go:build unix

package main

import (
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"
)

// What a program's arguments name by its descriptor is there for it, under that number.
func TestKeepNamed(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	fd := strconv.Itoa(int(w.Fd()))
	var out strings.Builder
	cmd := osexec.Command("/bin/sh", "-c", `(true >&`+fd+`) 2>/dev/null && echo there; echo "$@"`, "sh",
		"--config", "/dev/fd/"+fd, "--trace=/proc/self/fd/"+fd, "/dev/fd/1", "/dev/fd/x", "--config=/dev/fd/999999")
	cmd.Stdout = &out
	done := keepNamed(cmd)
	err = cmd.Run()
	done()
	if err != nil || !strings.HasPrefix(out.String(), "there\n") {
		t.Errorf("%v, %q", err, &out)
	}
	if _, err := w.WriteString("x"); err != nil {
		t.Errorf("what was handed over is closed here: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	for word, want := range map[string]int{"/dev/fd/9": 9, "--trace=/proc/self/fd/12": 12, "/dev/fd": -1, "/dev/fd/9/x": -1, "x/dev/fd/9": -1, "--name": -1} {
		if got := namedDescriptor(word); got != want {
			t.Errorf("%q names %d, want %d", word, got, want)
		}
	}
}
