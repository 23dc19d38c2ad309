package spelling

import "testing"

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
	} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := Distance(tt.b, tt.a); got != tt.want {
			t.Errorf("%q %q: %d, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}
