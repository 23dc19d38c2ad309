package actors

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func TestChangedNumbers(t *testing.T) {
	quoted, err := json.Marshal(`[{"id": 9007199254740993}]`)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		`{"id":9007199254740993}`:                    "9007199254740993",
		`[1,-9007199254740993]`:                      "-9007199254740993",
		`{"id":9007199254740992}`:                    "", // 2^53 itself is one of them
		`[9007199254740991,1764340000123456789]`:     "1764340000123456789",
		`12345678901234567890`:                       "12345678901234567890",
		`[10000000000000000]`:                        "",
		`[0.1234567890123456789,1.0000000000e3]`:     "",
		`[1e400]`:                                    "1e400",
		`["9007199254740993","x\"9007199254740993"]`: "", // texts keep every digit
		`"id 9007199254740993"`:                      "",
		string(quoted):                               "9007199254740993", // a script parses it
		`{"content":[{"type":"text","text":` + string(quoted) + `}]}`: "9007199254740993",
		`{}`: "", `""`: "", `null`: "", ``: "",
	} {
		if got := changedNumber([]byte(value)); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
	for value, want := range map[string]string{
		`{"id":9007199254740991}`:              "",
		`{"id":9007199254740992}`:              "9007199254740992",
		`{"id":1e+21}`:                         "1e+21",
		`{"share":0.30000000000000004}`:        "",
		`{"text":"[9007199254740993]"}`:        "",
		`{"deep":[[{"n":-9007199254741000}]]}`: "-9007199254741000",
	} {
		if got := unsafeInteger([]byte(value)); got != want {
			t.Errorf("argument %s: %q, want %q", value, got, want)
		}
	}
}

// A script whose numbers lose digits is told so once for each tool, for what
// it got and for what it sent.
func TestLostDigitsAreTold(t *testing.T) {
	r := newRig(t, nil)
	r.add("a", nil, nil)
	r.s.programs["ids"] = func(s *fakeScript) {
		for range 3 {
			s.call("a", "do", `{"id":9007199254740994}`)
		}
		s.call("a", "do", `{"do":"say \"result\":{\"content\":[],\"structuredContent\":{\"n\":1764340000123456789}}"}`)
		s.value("1")
	}
	rep := r.report(r.script("ids"))
	want := []messages.LostDigits{
		{Server: "a", Tool: "do", Arguments: true, Number: "9007199254740994"},
		{Server: "a", Tool: "do", Number: "1764340000123456789"},
	}
	if !slices.Equal(rep.Lost, want) {
		t.Errorf("lost %+v, want %+v", rep.Lost, want)
	}
}

func BenchmarkChangedNumber(b *testing.B) {
	value := []byte(`[` + strings.Repeat(`{"id":123456,"name":"some text of a record","share":0.25},`, 20_000) + `1]`)
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		if n := changedNumber(value); n != "" {
			b.Fatal(n)
		}
	}
}
