package builtin

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// testModel is the real model on the given kernel.
func testModel(t testing.TB, k kernel) *model {
	t.Helper()
	m, err := readModel(modelData, k)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// goldenTexts are the texts whose tokens and vectors make-model/golden.js
// had the original JavaScript build make.
func goldenTexts(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/texts.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func TestTokensAreThoseOfTheReference(t *testing.T) {
	data, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var want [][]int32
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	texts := goldenTexts(t)
	if len(texts) != len(want) || len(texts) < 200 {
		t.Fatalf("%d texts and %d lists of tokens", len(texts), len(want))
	}
	tk := testModel(t, portableKernel()).tokenizer
	for i, text := range texts {
		// The reference cuts nothing, and its network all but the first 128.
		want := want[i][:min(len(want[i]), maxTokens)]
		if got := tk.tokens(tk.prepare(text)); !slices.Equal(got, want) {
			t.Errorf("tokens of %q:\ngot  %v\nwant %v", text, got, want)
		}
	}
}

func TestPrepareMakesTextsReady(t *testing.T) {
	tk := testModel(t, portableKernel()).tokenizer
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"only white space", " \t\r\n\u00a0\u3000 ", ""},
		{"only control characters", "\x00\x01\x7f\u009f", ""},
		{"only invalid UTF-8", "\xff\xfe\xc3", ""},
		{"runs of white space", "  a \t\n b  ", "a b"},
		{"NUL bytes", "a\x00b", "a b"},
		{"invalid UTF-8", "a\xffb", "a b"},
		{"ANSI escapes lose their first character", "\x1b[31mred", "[31mred"},
		{"invisible format characters", "scr\u00adeen\u200bsh\u2060ot", "screenshot"},
		{"compatibility forms", "ﬁne Ｔｏｏｌ ①", "fine Tool 1"},
		{"composition", "cafe\u0301", "café"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := tk.prepare(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestLongTextsAreCut(t *testing.T) {
	tk := testModel(t, portableKernel()).tokenizer
	for _, c := range []struct{ name, text string }{
		{"words", strings.Repeat("internationalization ", 5000)},
		{"no space", strings.Repeat("a", 100_000)},
		{"characters that NFKC makes long", strings.Repeat("ﷺ", 50_000)},
		{"spaces first", strings.Repeat(" ", 100_000) + strings.Repeat("tool ", 1000)},
		{"emoji", strings.Repeat("😀 ok ", 20_000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			prepared := tk.prepare(c.text)
			if n := utf8.RuneCountInString(prepared); n > 18*maxTokens*tk.longest {
				t.Errorf("%d characters are left", n)
			}
			if n := len(tk.tokens(prepared)); n == 0 || n > maxTokens {
				t.Errorf("%d tokens", n)
			}
		})
	}
}

func TestVocabularyThatIsCutOffIsRefused(t *testing.T) {
	f, err := openModel(modelData)
	if err != nil {
		t.Fatal(err)
	}
	section, err := f.raw("vocabulary")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 5, len(section) - 1} {
		if _, err := newTokenizer(section[:n]); err == nil {
			t.Errorf("the first %d bytes of the vocabulary are taken", n)
		}
	}
}

func FuzzTokens(f *testing.F) {
	for _, text := range []string{"", "a", "list files", "\xff\x00 ﷺ", "😀關鍵詞", "▁▁", strings.Repeat("ab ", 30)} {
		f.Add(text)
	}
	m := testModel(f, portableKernel())
	f.Fuzz(func(t *testing.T, text string) {
		prepared := m.tokenizer.prepare(text)
		if !utf8.ValidString(prepared) {
			t.Fatalf("%q is not valid UTF-8", prepared)
		}
		tokens := m.tokenizer.tokens(prepared)
		if len(tokens) > maxTokens || (len(tokens) == 0) != (prepared == "") {
			t.Fatalf("%d tokens of %q", len(tokens), prepared)
		}
		for i, id := range tokens {
			if id < 0 || id >= vocabulary || (id > unknown && id < 6) {
				t.Fatalf("token %d of %q", id, prepared)
			}
			if i > 0 && id == unknown && tokens[i-1] == unknown {
				t.Fatalf("two unknown tokens in a row of %q", prepared)
			}
		}
		for _, word := range words(prepared) {
			if word == "" || word != strings.ToLower(word) {
				t.Fatalf("word %q of %q", word, prepared)
			}
		}
	})
}
