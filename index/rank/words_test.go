package rank

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func lex(text string) (words []string) {
	l := &lexer{max: 1000}
	l.read(text)
	for _, t := range l.tokens {
		if w := t.word; t.joined {
			words = append(words, "+"+w)
		} else {
			words = append(words, w)
		}
	}
	return words
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"take_screenshot":                  "take screenshot",
		"getUserID":                        "get user id",
		"HTTPServer":                       "http server +httpserver",
		"parseURLs":                        "parse urls +parseurls",
		"kebab-case.and.dots":              "kebab case and dots",
		"GitHub":                           "git hub +github",
		"s3 ec2 web3 base64":               "s3 ec2 web3 base64",
		"oauth2Token 3D k8s":               "oauth2 token +oauth2token 3d k8s",
		"get12306Tickets":                  "get12306 tickets +get12306tickets",
		"ALLCAPS":                          "allcaps",
		"don't the user's file":            "dont the user file",
		"Café ＦＵＬＬ naïve":                  "cafe full naive",
		"查询股票":                             "查询 询股 股票",
		"中":                                "中",
		"查询stock价格":                        "查询 stock 价格",
		"Привет мир":                       "привет мир",
		"a\x00b\xff\xfec":                  "a b c",
		"🎉 party 🎉":                        "party",
		`^(a+)+$ [\w]*`:                    "a w",
		"soft\u00adhyphen zero\u200bwidth": "softhyphen zerowidth",
		"":                                 "", "  \n\t": "", "___": "",
	} {
		if got := strings.Join(lex(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWordsAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	words := lex(long)
	if len(words) != 1 || len(words[0]) != maxWord {
		t.Errorf("%d words of a word of a million letters", len(words))
	}
	l := &lexer{max: 7}
	l.read(strings.Repeat("some words ", 1000))
	if len(l.tokens) != 7 {
		t.Errorf("%d tokens, want 7", len(l.tokens))
	}
}

func TestStems(t *testing.T) {
	same := [][]string{
		{"issue", "issues"}, {"repository", "repositories"}, {"deploy", "deployed", "deploying"}, {"list", "listing"}, {"kubernetes", "kubernets"},
	}
	for _, words := range same {
		for _, w := range words[1:] {
			if lookUp([]byte(w)).hash != lookUp([]byte(words[0])).hash {
				t.Errorf("%s and %s differ", words[0], w)
			}
		}
	}
	for _, pair := range [][2]string{{"create", "delete"}, {"s3", "s"}, {"база", "базы"}} {
		if lookUp([]byte(pair[0])).hash == lookUp([]byte(pair[1])).hash {
			t.Errorf("%s and %s are one", pair[0], pair[1])
		}
	}
}

func TestTexts(t *testing.T) {
	for query, want := range map[string][]string{
		"":                    nil,
		" ?! ":                nil,
		"take a screenshot":   {"take a screenshot"},
		"Open v1.2 of a.txt.": {"Open v1.2 of a.txt."},
		"Read the sales file. Then draw a bar chart! Thanks.": {
			"Read the sales file. Then draw a bar chart! Thanks.", "Read the sales file", "Then draw a bar chart",
		},
		"Read the sales file. Thanks a lot.": {"Read the sales file. Thanks a lot."},
	} {
		if got := Texts(query); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	if got := Texts(strings.Repeat("Draw some bar chart. ", 500)); len(got) != maxTexts || len(got[0]) > maxQuery {
		t.Errorf("%d texts, the first of %d bytes", len(got), len(got[0]))
	}
}

func TestPassage(t *testing.T) {
	for _, c := range []struct {
		doc  Doc
		want string
	}{
		{Doc{Tool: "take_screenshot", Description: "Takes\n  a picture."}, "take screenshot: Takes a picture."},
		{Doc{Tool: "getUserURLs", Title: "Addresses"}, "get User URLs: Addresses"},
		{Doc{Tool: "__查询.a-b", Description: " "}, "查询 a b"},
		{Doc{}, ""},
	} {
		if got := Passage(c.doc); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	long := Passage(Doc{Tool: strings.Repeat("ab_", 1<<19), Description: strings.Repeat("é ", 1<<19)})
	if len(long) > 700 || !utf8.ValidString(long) {
		t.Errorf("%d bytes", len(long))
	}
}

func FuzzAnalyze(f *testing.F) {
	for _, s := range []string{"", "getUserURLs", "查询stock", "a\x00\xff", "don't 's '", "ＦＵＬＬ\u0301\u200b", strings.Repeat("aB", 200)} {
		f.Add(s, s, s)
	}
	f.Fuzz(func(t *testing.T, name, text, query string) {
		d := Doc{Server: text, Tool: name, Title: query, Description: text, Params: []Param{{name, text}}, Tags: []string{query}, ServerText: text}
		a := Analyze(d)
		if len(a.hashes) > maxDocTerms || len(a.hashes) != len(a.ends) {
			t.Fatalf("%d terms", len(a.hashes))
		}
		if b := Analyze(d); !slices.Equal(a.hashes, b.hashes) || a.text != b.text || !slices.Equal(a.counts, b.counts) {
			t.Fatal("two analyses differ")
		}
		if p := Passage(d); len(p) > 800 {
			t.Fatalf("a passage of %d bytes", len(p))
		}
		Params([]byte(text))
		ix := Build([]*Terms{a, nil, Analyze(Doc{Tool: "read_file", Description: "Read a file"})})
		if n := len(Texts(query)); n > maxTexts {
			t.Fatalf("%d texts", n)
		}
		for _, h := range ix.Search(Query{Text: query}) {
			if h.Doc == 1 || !(h.Score >= 0 && h.Score <= 1) {
				t.Fatalf("%+v", h)
			}
		}
	})
}
