package jsonrpc

import "testing"

func TestRepair(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":              "",
		"café\ufffd":    "café\ufffd",
		"a\xff\xc3b":    "a\ufffd\ufffdb",
		"\xe2\x82":      "\ufffd\ufffd",
		"\xed\xa0\x80x": "\ufffd\ufffd\ufffdx", // half a surrogate pair
	} {
		if got := string(Repair([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
