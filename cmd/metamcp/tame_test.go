package main

import (
	"bytes"
	"testing"
)

func TestTame(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2Jb\tc\nd\x07": "a␛[2Jb\tc\nd␇",
		"x\r\ny\rz\x7f":       "x\ny␍z␡",
		"\u009b1m\u202eabc":   "\ufffd1m\ufffdabc",
		"\x9b1m":              "\ufffd1m",
		"a\u2028b\u2029c":     "a\ufffdb\ufffdc",
		"❤\ufe0f \ue000":      "❤\ufe0f \ue000",
		"né 👩\u200d👧":         "né 👩\u200d👧",
	} {
		var out bytes.Buffer
		if n, err := (tame{&out}).Write([]byte(text)); n != len(text) || err != nil || out.String() != want {
			t.Errorf("%q: %d, %v, %q, want %q", text, n, err, &out, want)
		}
	}
}
