package pins

import "testing"

// An expression that cannot be compiled would show only when it is needed.
func TestExpressionsCompile(t *testing.T) {
	t.Parallel()
	for _, r := range signRules {
		if r.re().MatchString("") {
			t.Errorf("%s: an expression fits the empty text: %s", r.sign, r.re())
		}
	}
	if spacedOut().MatchString("") {
		t.Error("the expression for spaced words fits the empty text")
	}
}
