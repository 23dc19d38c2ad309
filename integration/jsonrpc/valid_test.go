package jsonrpc

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

var texts = []string{
	`{}`, `[]`, `""`, `0`, `-0`, `true`, `false`, `null`, ` { } `, "\t[\r\n]\n",
	`{"a":1,"b":[1,2,{"c":null}],"d":"x"}`, `[1, 2 ,3 , 4.5e+10, -0.0E-7]`,
	`"plain text that is longer than eight bytes"`, `"esc \" \\ \/ \b \f \n \r \t \u00e9 \ud83d\ude00 \ud83d"`,
	`"grüße 日本語 😀"`, `{"é":"日本語日本語日本語"}`, `"1234567\"89012345\\6"`,
	``, ` `, `{`, `[`, `"`, `"abc`, `"abcdefghijkl`, `tru`, `truex`, `nul`, `fals`, `-`, `01`, `1.`, `.5`, `1e`, `1e+`, `+1`, `--1`, `1.e3`, `0x1`,
	`{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a" 1}`, `{"a":1 "b":2}`, `[1,]`, `[,1]`, `[1 2]`, `[1}`, `{"a":1]`, `{}}`, `{} {}`, `[]]`,
	`"\x"`, `"\u12"`, `"\u12g4"`, `"\`, `"\u`, "\"a\x00b\"", "\"a\nb\"", "\"abcdefgh\x1f\"", "\"\x7f\"", `'a'`, `NaN`, `Infinity`,
	"\ufeff{}", "\u00a0{}", "\v{}", "{}\x00", "\"\xff\"", "\"abc\xe3\x81\"", "\"\xe3\\n\x81\x82\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "{\"\xff\":1}",
	`{"a":1,"a":2}`, `[[[[[[[[]]]]]]]]`, `[[[[[[[[]]]]]]]`, `123456789012345678901234567890`, `1E400`, `"\u2028"`, "\"\u2028\"",
}

// agree fails the test where Valid and encoding/json do not agree, except on
// text that is no UTF-8, which Valid must refuse.
func agree(t *testing.T, text []byte) {
	t.Helper()
	err := Valid(text)
	want := json.Valid(text) && utf8.Valid(text)
	if got := err == nil; got != want {
		t.Fatalf("Valid(%q) = %v, encoding/json says %v, UTF-8 %v", text, err, json.Valid(text), utf8.Valid(text))
	}
	var syntax *SyntaxError
	for _, size := range []int{1, 3, len(text) + 1} {
		var v Validator
		for rest := text; len(rest) > 0; {
			n := min(size, len(rest))
			v.Feed(rest[:n])
			rest = rest[n:]
		}
		if v.Valid() != want {
			t.Fatalf("in pieces of %d bytes %q is valid: %v, as a whole: %v", size, text, !want, want)
		}
	}
	if err != nil && (!errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(text) || syntax.What == "") {
		t.Fatalf("Valid(%q): bad error %#v", text, err)
	}
}

func TestValidAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range texts {
		agree(t, []byte(text))
		agree(t, []byte(`{"k":`+text+`}`))
		agree(t, []byte(`[`+text+`,`+text+`]`))
		// Every prefix, so that each way to end early is seen.
		for i := range text {
			agree(t, []byte(text[:i]))
		}
	}
}

// Each byte value at each of many positions in a string finds errors in the
// eight-byte steps.
func TestValidEveryByteInStrings(t *testing.T) {
	base := []byte(`"0123456789abcdefghijklmnopqrstuvwxyz"`)
	for i := 1; i < len(base)-1; i++ {
		for c := range 256 {
			text := append([]byte(nil), base...)
			text[i] = byte(c)
			agree(t, text)
		}
	}
}

func TestDepth(t *testing.T) {
	for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		nest := func(n int) []byte {
			inner := "0"
			return []byte(strings.Repeat(pair[0], n) + inner + strings.Repeat(pair[1], n))
		}
		agree(t, nest(MaxDepth))
		agree(t, nest(MaxDepth+1))
		err := Valid(nest(1_000_000))
		if err == nil || !strings.Contains(err.Error(), "deeper than 10000") {
			t.Errorf("a million of %q: %v", pair[0], err)
		}
	}
}

func TestErrorOffsets(t *testing.T) {
	for text, offset := range map[string]int{
		`{"a":1,}`: 7, `[1 2]`: 3, `{"a":tru}`: 8, `"abc`: 4, "\"ab\ncd\"": 3, "\"ab\xffcd\"": 3,
		`{} x`: 3, `{"a":"\q"}`: 7, `01`: 1, `[1.]`: 3, ``: 0, "\"0123456789\xe6\x97\xa5\xff\"": 14,
	} {
		var syntax *SyntaxError
		if err := Valid([]byte(text)); !errors.As(err, &syntax) || syntax.Offset != offset {
			t.Errorf("Valid(%q) = %v, want offset %d", text, err, offset)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		agree(t, text)
		if Valid(text) == nil {
			// The walk that does not check must come to the same end.
			s := scanner{b: text}
			begin := s.space(0)
			if end := s.skip(begin); end < 0 || s.space(end) != len(text) {
				t.Fatalf("skip(%q) = %d", text, end)
			}
		}
		walkAll(text)
	})
}

// walkAll walks whatever can be walked, valid or not: nothing may panic.
func walkAll(text []byte) {
	_ = Scan(text, func(_, val []byte) error {
		_ = Elements(val, func([]byte) error { return nil })
		return nil
	})
	_ = Elements(text, func(el []byte) error {
		_ = Scan(el, func(_, _ []byte) error { return nil })
		return nil
	})
	_ = Get(text, "id")
	_ = Without(text, "id")
	_, _ = Unquote(text)
	_, _ = Parse(text)
}
