package messages

import "testing"

func TestHidden(t *testing.T) {
	for _, c := range []struct {
		before, r rune
		want      bool
	}{
		{' ', 'a', false}, {'a', 'é', false}, {'a', '\n', false}, {'a', '\t', false}, {'a', '\r', true}, {'a', '\x1b', true}, {'a', '\ufffd', true},
		{'a', '\u200b', true}, {'a', '\u202e', true}, {'a', '\u2028', true}, {'a', '\u3164', true}, {'a', '\U000e0041', true},
		{'a', '\u200d', true}, {'👩', '\u200d', false}, {'\u200d', '\u200d', true}, {'ر', '\u200c', false},
		{'a', '\ufe0f', true}, {'❤', '\ufe0f', false}, {'1', '\ufe0f', false}, {'\ufe0f', '\ufe0f', true}, {'❤', '\U000e0100', true},
		{'a', '\u2800', true}, {' ', '\u2800', true}, {'\u2800', '\u2800', true}, {'⠓', '\u2800', false}, {'⠓', '⠊', false},
	} {
		if got := Hidden(c.r, c.before); got != c.want {
			t.Errorf("%U after %q: %v", c.r, c.before, got)
		}
	}
}

func TestSteers(t *testing.T) {
	for _, r := range "\x00\n\t\x1b\x7f\u009b\u00ad\u061c\u200b\u200d\u202e\u2066\u2028\u2029\ufeff\U000e0041" {
		if !Steers(r) {
			t.Errorf("%U is only shown", r)
		}
	}
	for _, r := range " aé東\u0301👩\ufe0f\u2800\ue000\ufffd" {
		if Steers(r) {
			t.Errorf("%U steers", r)
		}
	}
}
