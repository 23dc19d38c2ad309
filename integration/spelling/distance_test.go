package spelling

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"same", "same", 0},
		{"ab", "ba", 1}, {"abc", "abd", 1}, {"abcd", "acbd", 1}, {"abc", "ab", 1},
		{"ca", "abc", 3}, // a swap is not torn apart by an insertion
		{"kitten", "sitting", 3}, {"ü", "u", 2},
		{strings.Repeat("ab", short), strings.Repeat("ab", short) + "c", 1},
	} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := Distance(tt.b, tt.a); got != tt.want {
			t.Errorf("%q %q: %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

func TestDistanceOfRunes(t *testing.T) {
	if got := DistanceOfRunes([]rune("Grüße"), []rune("Grusse")); got != 3 {
		t.Errorf("%d, want 3", got)
	}
	word, other := []rune(strings.Repeat("a", short)), []rune(strings.Repeat("b", short))
	if n := testing.AllocsPerRun(10, func() { DistanceOfRunes(word, other) }); n != 0 {
		t.Errorf("%v allocations for short words", n)
	}
}
