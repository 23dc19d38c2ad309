package messages

import (
	"runtime"
	"strings"
	"testing"
)

func TestCut(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"exact", "exact"},
		{"longer", "longe…"},
		{"four€", "four…"},
		{"a\xffb", "a\xffb"},
		{"a\xffbcde", "abcd…"},
	} {
		const most = 5
		if got := Cut(c.text, most); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestCutAtWord(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"0123456789abcdef", "0123456789abcdef"},
		{"0123456789 bcdefg", "0123456789…"},
		{"0123456789abcdefg", "…"},
		{"key=secretsecretsecret", "key=…"},
		{"a key: secretsecret", "a key:…"},
		{`{"k":"secretsecretsecret`, `{"k":"…`},
		{"f(x,secretsecretsecret", "f(x,…"},
		{"<a>secretsecretsecret", "<a>…"},
		{"k: c2VjcmV0ab== and more", "k:…"},
		{"c2VjcmV0abcd== and more", "…"},
		{"word ääääääääääää", "word…"},
		{"             secretsecret", "…"},
		{"one two three four five", "one two…"},
	} {
		const most = 16
		got := CutAtWord(c.text, most)
		if got != c.want || len(got) > most {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
	if got := CutAtWord(strings.Repeat("x", 4), 3); got != "…" {
		t.Errorf("the least that there may be: %q", got)
	}
}

func TestShellWord(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"a-b.c", "a-b.c"}, {"@scope/x:1", "@scope/x:1"}, {"a b", "'a b'"}, {"it's", `'it'\''s'`}, {"", "''"}, {"$(x)", "'$(x)'"}, {"é", "'é'"},
		{"~", "'~'"}, {`~a\b`, `'~a\b'`},
	} {
		if got := ShellWord(c.word); got != c.want {
			t.Errorf("%q: %s", c.word, got)
		}
	}
	for word, onWindows := range map[string]bool{`a\b`: true, `C:\PROGRA~1\x.exe`: true, `C:\Program Files\x`: false} {
		want := "'" + word + "'"
		if onWindows && runtime.GOOS == "windows" {
			want = word
		}
		if got := ShellWord(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}

func TestHintSentence(t *testing.T) {
	for hint, want := range map[string]string{
		"": "", "close the bracket": "Close the bracket", "Close it": "Close it",
		"metamcp list shows them": "metamcp list shows them", "metamcpx": "Metamcpx", "`x` does it": "`x` does it", "é": "é",
	} {
		if got := HintSentence(hint); got != want {
			t.Errorf("%q becomes %q, want %q", hint, got, want)
		}
	}
}
