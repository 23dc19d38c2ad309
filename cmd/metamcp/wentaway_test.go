package main

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/metamcp/metamcp/integration/attach"
	"github.com/metamcp/metamcp/integration/control"
)

// A host that could not be asked has gone, unless it is known to be there, or nothing was
// learned of it at all.
func TestWentAway(t *testing.T) {
	for _, tt := range []struct {
		cause error
		want  bool
	}{
		{errors.New("connection reset by peer"), true},
		{&attach.HangsError{}, false},
		{&attach.NotOursError{Cause: errors.New("the folder is open to others")}, false},
		{&os.PathError{Op: "connect", Path: "control.sock", Err: fs.ErrPermission}, false},
	} {
		if got := wentAway(&control.Error{Code: control.CodeUnreachable, Cause: tt.cause}); got != tt.want {
			t.Errorf("%T: %v, want %v", tt.cause, got, tt.want)
		}
	}
}
