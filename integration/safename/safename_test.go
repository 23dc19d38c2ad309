package safename_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/metamcp/metamcp/integration/safename"
)

func TestSafeName(t *testing.T) {
	long := strings.Repeat("a", 81)
	for _, c := range []struct {
		name, prefix string
		same         bool
	}{
		{"github", "github", true},
		{"my-server_2.1", "my-server_2.1", true},
		{strings.Repeat("a", 80), "aaaa", true},
		{"GitHub", "GitHub@", false},
		{"", "@", false},
		{".", "_@", false},
		{"..", "_.@", false},
		{".hidden", "_hidden@", false},
		{"dot.", "dot.@", false},
		{"con", "con@", false},
		{"nul.txt", "nul.txt@", false},
		{"com1", "com1@", false},
		{"common", "common", true},
		{"../../etc/passwd", "_.", false},
		{`a\b:c`, "a_b_c@", false},
		{"größe", "gr____e@", false},
		{"github@0123456789abcdef", "github_0123456789abcdef@", false},
		{long, "aaaa", false},
	} {
		got := safename.SafeName(c.name)
		if (got == c.name) != c.same || !strings.HasPrefix(got, c.prefix) {
			t.Errorf("SafeName(%q) = %q, want prefix %q, unchanged: %v", c.name, got, c.prefix, c.same)
		}
	}
}

// TestStable pins results: caches of earlier versions are found by them.
func TestStable(t *testing.T) {
	if got, want := safename.SafeName("GitHub"), "GitHub@f911e414cf6bdfc5"; got != want {
		t.Errorf("SafeName(GitHub) = %q, want %q", got, want)
	}
}

func TestSafeNameProperties(t *testing.T) {
	allowed := regexp.MustCompile(`^[A-Za-z0-9_@-][A-Za-z0-9._@-]{0,79}$`)
	name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[aA./@_con1-]{0,90}`))
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		sa, sb := safename.SafeName(a), safename.SafeName(b)
		if !allowed.MatchString(sa) {
			t.Fatalf("SafeName(%q) = %q is not safe", a, sa)
		}
		if a != b && strings.EqualFold(sa, sb) {
			t.Fatalf("SafeName(%q) and SafeName(%q) are both %q", a, b, sa)
		}
	})
}
