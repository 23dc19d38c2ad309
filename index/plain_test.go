package index

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	tests := []struct {
		name, in, want string
		hidden         bool
	}{
		{"ordinary", "Reads a file.\n\tTwice.", "Reads a file.\n\tTwice.", false},
		{"windows lines", "one\r\ntwo", "one\ntwo", false},
		{"umlauts and Chinese", "für 文件", "für 文件", false},
		{"emoji with joiner", "👩‍💻 ✔️ 1️⃣", "👩‍💻 ✔️ 1️⃣", false},
		{"Persian", "می\u200cخواهم", "می\u200cخواهم", false},
		{"colours", "\x1b[31mred\x1b[0m", "red", true},
		{"title sequence", "\x1b]0;evil\x07ok", "ok", true},
		{"bare escape", "a\x1b", "a", true},
		{"tag characters", "hi\U000e0069\U000e0067", "hi", true},
		{"zero width", "pass\u200bword\u200d", "password", true},
		{"bidi", "\u202eevil\u2066", "evil", true},
		{"variation selectors as bytes", "x\U000e0101\ufe01", "x", true},
		{"a row of variation selectors", "😀\ufe00\ufe05\ufe0f", "😀\ufe00", true},
		{"a row of joiners", "م\u200c\u200d\u200c", "م\u200c", true},
		{"fillers", "a\u034fb\u3164c\u17b4", "abc", true},
		{"NUL and backspace", "a\x00\bb", "ab", true},
		{"soft hyphen and BOM", "\ufeffso\u00adft", "soft", true},
		{"C1", "a\u009b31mb", "a31mb", true},
		{"invalid", "a\xff", "a", true},
		{"line separator", "a\u2028b", "ab", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, hidden := Plain(tt.in)
			if got != tt.want || hidden != tt.hidden {
				t.Errorf("Plain(%q) = %q, %v; want %q, %v", tt.in, got, hidden, tt.want, tt.hidden)
			}
		})
	}
}

func TestPlainJSON(t *testing.T) {
	for _, tt := range []struct {
		in, want string
		hidden   bool
	}{
		{`{"a": "b",  "n":1.0}`, `{"a": "b",  "n":1.0}`, false},
		{`{"a":"\u00e4\"x"}`, `{"a":"\u00e4\"x"}`, false},
		{`{"a":"x\u200by", "b" : [1, "\u001b[1mz"]}`, `{"a":"xy", "b" : [1, "z"]}`, true},
		{`{"` + "k\u202e" + `":"v"}`, `{"k":"v"}`, true},
		{`{"open`, `{"open`, false},
		{`"\ud800\u200b"`, `""`, true},
		{"", "", false},
	} {
		got, hidden := PlainJSON(json.RawMessage(tt.in))
		if string(got) != tt.want || hidden != tt.hidden {
			t.Errorf("PlainJSON(%q) = %q, %v; want %q, %v", tt.in, got, hidden, tt.want, tt.hidden)
		}
	}
}

func FuzzPlainJSON(f *testing.F) {
	f.Add(`{"a":"x\u200by"}`)
	f.Fuzz(func(t *testing.T, s string) {
		got, _ := PlainJSON(json.RawMessage(s))
		if json.Valid([]byte(s)) && !json.Valid(got) {
			t.Errorf("%q became %q, which is no JSON", s, got)
		}
		plain, _ := Plain(s)
		if strings.ContainsAny(plain, "\x1b\x00\u202e\u200b") {
			t.Errorf("%q keeps hidden characters: %q", s, plain)
		}
	})
}
