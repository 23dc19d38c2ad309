package jsonrpc

import (
	"bytes"
	"encoding/json"
	"testing"
)

// compacts fails the test where Compact and encoding/json do not agree on a valid
// text, or where text was written to.
func compacts(t *testing.T, text []byte) {
	t.Helper()
	before := bytes.Clone(text)
	got := Compact([]byte("left over"), text)
	if !bytes.Equal(text, before) {
		t.Fatalf("Compact wrote to its argument: %q became %q", before, text)
	}
	var want bytes.Buffer
	if json.Compact(&want, text) == nil && !bytes.Equal(got, want.Bytes()) {
		t.Fatalf("Compact(%q) = %q, encoding/json says %q", text, got, want.Bytes())
	}
}

func TestCompactAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range texts {
		compacts(t, []byte(text))
		compacts(t, []byte(" { \"k \\\" \" :\t"+text+" ,\n\"é  \\\\\":[ "+text+"\r] } "))
		for i := range text {
			compacts(t, []byte(text[:i]))
		}
	}
}

func TestCompactAllocatesNothing(t *testing.T) {
	dense, spaced := []byte(`{"a":"b \" c","d":[1,2]}`), []byte(`{"a": "b \" c",  "d":[1, 2]}`)
	buf := make([]byte, 0, len(spaced))
	if n := testing.AllocsPerRun(10, func() { Compact(nil, dense); Compact(buf, spaced) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got := Compact(nil, dense); &got[0] != &dense[0] {
		t.Error("a text without space was copied")
	}
}

func FuzzCompact(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
		f.Add([]byte(" [" + text + " , {\"a\" : " + text + "\n}]"))
	}
	f.Fuzz(compacts)
}
