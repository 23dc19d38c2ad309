package jsonc

import (
	"strings"
	"testing"
)

func TestTooDeep(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{
		{"[[]]", -1},
		{"[[[]]]", 2},
		{`{"[[[[": {}}`, -1},
		{`["\"[[[["]`, -1},
		{"[ // [[[[\n[]]", -1},
		{"[ /* [[[[ */ {[", 14},
		{"[][][][]", -1},
		{"/* [[[[", -1}, // the parser will say that it does not end
		{strings.Repeat("[", 1<<20), 2},
	} {
		if got := TooDeep([]byte(c.text), 2); got != c.want {
			t.Errorf("%.20q: %d, want %d", c.text, got, c.want)
		}
	}
}
