package builtin

import (
	"math"
	"slices"
	"testing"
)

func TestWords(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"--- ... ", nil},
		{"list the files", []string{"list", "the", "files"}},
		{"listFiles", []string{"list", "files"}},
		{"LIST_FILES", []string{"list", "files"}},
		{"HTTPServer2Go", []string{"http", "server", "2", "go"}},
		{"getHTTP", []string{"get", "http"}},
		{"k8s v1.28", []string{"k", "8", "s", "v", "1", "28"}},
		{"azure-mcp: kv.get(name)", []string{"azure", "mcp", "kv", "get", "name"}},
		{"a", []string{"a"}},
		{"Ab", []string{"ab"}},
		{"AB", []string{"ab"}},
		{"ABc", []string{"a", "bc"}},
		{"naïve 天気 weather", []string{"na", "ve", "weather"}},
	} {
		if got := words(c.text); !slices.Equal(got, c.want) {
			t.Errorf("words of %q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestEveryWordOfTheTableIsFound(t *testing.T) {
	table := testModel(t, portableKernel()).words
	if len(table.from) < 10_000 {
		t.Fatalf("the table has %d words", len(table.from))
	}
	for i := range table.from {
		word := table.at(i)
		if n, ok := table.find(word); !ok || n != i {
			t.Fatalf("word %d, %q: found %d, %v", i, word, n, ok)
		}
		if got := words(word); len(got) != 1 || got[0] != word {
			t.Fatalf("word %q can never be met: it is cut into %q", word, got)
		}
	}
	for _, word := range []string{"", "\n", "zzzzzzzzzz", "~", "no such word", "0x"} {
		if n, ok := table.find(word); ok {
			t.Errorf("%q is found at %d", word, n)
		}
	}
}

func TestWordVectorsKnowRelatedWords(t *testing.T) {
	table := testModel(t, portableKernel()).words
	cosine := func(a, b string) float64 {
		x, y := make([]float32, wordDim), make([]float32, wordDim)
		table.encode(a, x)
		table.encode(b, y)
		return float64(dotGo(x, y))
	}
	for _, c := range []struct{ text, near, far string }{
		{"postgres", "a sql database", "a weather forecast"},
		{"kubectl", "kubernetes pods", "postal address"},
		{"hotel", "booking a room", "compile a program"},
	} {
		if near, far := cosine(c.text, c.near), cosine(c.text, c.far); near < far+0.2 {
			t.Errorf("%q: %.2f to %q and %.2f to %q", c.text, near, c.near, far, c.far)
		}
	}
	v := make([]float32, wordDim)
	table.encode("Kubernetes pods", v)
	if n := dotGo(v, v); math.Abs(float64(n)-1) > 1e-5 {
		t.Errorf("the square of the length is %g", n)
	}
	table.encode("qqxzzk 天気", v)
	if n := dotGo(v, v); n != 0 {
		t.Errorf("unknown words have a vector of square length %g", n)
	}
}
