package jsonrpc

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

var stringsToQuote = []string{
	"", "a", "plain text, longer than eight bytes", "q\"b\\s/", "\b\f\n\r\t\x00\x1f\x7f", "grüße 日本語 😀", "\xff", "abcdefgh\xffij\xe3\x81", "<a href='x'>&</a>", "\u2028\u2029",
	"01234567\"89", "\xed\xa0\x80", "tail\"",
}

func roundTrip(t *testing.T, s string) {
	t.Helper()
	quoted := AppendQuote([]byte("x"), s)
	if quoted[0] != 'x' {
		t.Fatalf("AppendQuote(%q) changed what was there", s)
	}
	quoted = quoted[1:]
	var want string
	if err := json.Unmarshal(quoted, &want); err != nil {
		t.Fatalf("AppendQuote(%q) = %s: %v", s, quoted, err)
	}
	if clean := strings.ToValidUTF8(s, "\ufffd"); strings.ToValidUTF8(s, "") == s && want != clean {
		t.Fatalf("AppendQuote(%q) reads %q", s, want)
	}
	got, err := Unquote(quoted)
	if err != nil || got != want {
		t.Fatalf("Unquote(%s) = %q, %v, want %q", quoted, got, err, want)
	}
}

func TestQuoteRoundTrip(t *testing.T) {
	for _, s := range stringsToQuote {
		roundTrip(t, s)
	}
	if got := string(AppendQuote(nil, "<&>\n")); got != `"<&>\n"` {
		t.Errorf("got %s", got)
	}
	if got := string(AppendQuote(nil, "\xffa\xfe")); got != "\"\ufffda\ufffd\"" {
		t.Errorf("got %s", got)
	}
}

func unquoteAgrees(t *testing.T, raw []byte) {
	t.Helper()
	got, err := Unquote(raw)
	if err != nil {
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Fatalf("Unquote(%q): %v", raw, err)
		}
		return
	}
	var want string
	if err := json.Unmarshal(raw, &want); err != nil || got != want {
		t.Fatalf("Unquote(%s) = %q, encoding/json says %q, %v", raw, got, want, err)
	}
}

func TestUnquote(t *testing.T) {
	for _, raw := range []string{
		`"a"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\u0041"`, `"\ud83d\ud83d\ude00"`, `"\u00E9\u00e9"`, `"\b\f\n\r\t\/\\\""`, `""`,
	} {
		if _, err := Unquote([]byte(raw)); err != nil {
			t.Errorf("Unquote(%s): %v", raw, err)
		}
		unquoteAgrees(t, []byte(raw))
	}
	for _, raw := range []string{``, `a`, `"`, `"a`, `"a"b`, `"\x"`, `1`, "\"\n\""} {
		if s, err := Unquote([]byte(raw)); err == nil {
			t.Errorf("Unquote(%s) = %q, want an error", raw, s)
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range stringsToQuote {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		roundTrip(t, s)
		unquoteAgrees(t, []byte(s))
		unquoteAgrees(t, []byte(`"`+s+`"`))
	})
}

func TestWalk(t *testing.T) {
	var got []string
	err := Scan([]byte(` { "a" : 1 , "b\n":[ {"x":"}"} , "]" ] , "c":"\"," } `), func(key, val []byte) error {
		got = append(got, string(key), string(val))
		return nil
	})
	want := []string{"a", "1", "b\n", `[ {"x":"}"} , "]" ]`, "c", `"\","`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Scan: %q, %v", got, err)
	}
	got = nil
	err = Elements([]byte(` [ 1 , "a,]" , [ ] , {"k":[2]} , null ] `), func(el []byte) error {
		got = append(got, string(el))
		return nil
	})
	want = []string{"1", `"a,]"`, "[ ]", `{"k":[2]}`, "null"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Elements: %q, %v", got, err)
	}
	for text, v := range map[string]string{`{"a":1,"b":2}`: "2", `{"b":1,"b":2}`: "2", `{"a":{"b":1}}`: "", `[]`: "", ``: "", `{"b":1`: "", `{"b":[}`: "", `{}`: "", `{"\u0062":3}`: "3"} {
		if got := string(Get([]byte(text), "b")); got != v {
			t.Errorf("Get(%s) = %q, want %q", text, got, v)
		}
	}
	stop := errors.New("stop")
	for _, err := range []error{
		Scan([]byte(`{"a":1,"b":2}`), func(_, _ []byte) error { return stop }),
		Elements([]byte(`[1,2]`), func([]byte) error { return stop }),
	} {
		if !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
	}
	for _, text := range []string{``, `x`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1}x`, `{}x`, `{"a":"`, `{1:2}`, `[1`, `[`, `[1}`, `[]x`, `[1]x`, `[,]`} {
		if Scan([]byte(text), func(_, _ []byte) error { return nil }) == nil || Elements([]byte(text), func([]byte) error { return nil }) == nil {
			t.Errorf("a walk through %q found no error", text)
		}
	}
}
