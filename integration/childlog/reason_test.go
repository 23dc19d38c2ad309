package childlog

import (
	"fmt"
	"strings"
	"testing"
)

// The line in which a runtime says why it gave up is shown though a long dump of
// stacks comes after it.
func TestLastKeepsTheReason(t *testing.T) {
	l := &Log{folder: &Folder{}}
	l.remember([]byte("runtime: out of memory: cannot allocate 4194304-byte block"), false)
	l.remember([]byte("fatal error: out of memory"), false)
	for i := range tailLines - 1 {
		l.remember(fmt.Appendf(nil, "\tframe %d", i), false)
	}
	if got := l.Last(); len(got) != tailLines || got[0] != "fatal error: out of memory" {
		t.Errorf("while it is among the last lines: %q", got)
	}
	l.remember([]byte("one more"), false)
	got := l.Last()
	if len(got) != tailLines+1 || got[0] != "fatal error: out of memory" || got[tailLines] != "one more" {
		t.Errorf("afterwards: %s", strings.Join(got, "|"))
	}
}
