package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/metamcp/metamcp/index/embed/models/gguf/gguftest"
)

func newTestCutter(t testing.TB, m gguftest.BERT) *cutter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, m.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newCutter(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The counts are held against llama.cpp's in index/embed/local.
func TestPrepare(t *testing.T) {
	words := gguftest.BERT{Context: 6, Words: []string{"take", "picture"}} // room for four tokens
	bytesOnly := gguftest.BERT{Context: 10, TokenizerName: "gpt2"}         // room for seven bytes
	tests := []struct {
		name       string
		model      gguftest.BERT
		text, want string
	}{
		{"short", words, "take picture", "take picture"},
		{"just fits", words, "take take take take", "take take take take"},
		{"one too many", words, "take take take take take", "take take take take"},
		{"capitals", words, "TAKE Picture take take x", "TAKE Picture take take"},
		{"letter by letter", words, "take abcd", "take"},
		{"a long word alone", words, "abcdefgh", "abcd"},
		{"marks", words, "take,picture.take", "take,picture."},
		{"marks that fit", words, "take-picture take", "take-picture take"},
		{"Chinese", words, "你好世界你好", "你好世界"},
		{"characters that are not known", words, "ééééé", "éééé"},
		{"white space around", words, "\n take \t", "take"},
		{"blank", words, " \u00a0\n", ""},
		{"a NUL", words, "take\x00picture", "take picture"},
		{"not UTF-8", words, "take \xff", "take"},
		{"another tokenizer", bytesOnly, "abcdefghij", "abcdefg"},
		{"another tokenizer, within a character", bytesOnly, "abcdef世", "abcdef"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := newTestCutter(t, tt.model).prepare(tt.text); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if c := newTestCutter(t, gguftest.BERT{Context: 8192}); c.max != batchTokens {
		t.Errorf("%d tokens would abort llama.cpp", c.max)
	}
}

func FuzzPrepare(f *testing.F) {
	for _, s := range []string{"take a picture", "世界", "a-b_c", "\xff\x00", "é\u0301", strings.Repeat("x", 100)} {
		f.Add(s)
	}
	c := newTestCutter(f, gguftest.BERT{Context: 12, Words: []string{"take"}})
	f.Fuzz(func(t *testing.T, text string) {
		got := c.prepare(text)
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || got != "" && strings.TrimSpace(got) == "" {
			t.Errorf("%q became %q", text, got)
		}
		if !strings.HasPrefix(strings.TrimSpace(strings.ReplaceAll(strings.ToValidUTF8(text, " "), "\x00", " ")), got) {
			t.Errorf("%q became %q, which is not its beginning", text, got)
		}
	})
}
