package clients

import (
	"bytes"
	"testing"
)

// isWithin reports whether all bytes of part stand in whole, in their order.
func isWithin(part, whole []byte) bool {
	for _, b := range whole {
		if len(part) > 0 && part[0] == b {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// Any bytes: an error, or a text that has all that was there, and the entry.
func FuzzSetJSON(f *testing.F) {
	for _, s := range []string{"", "{}", "{ // a\n}", `{"s":{"a":1 /* x */,},}`, "\xef\xbb\xbf{\r\n\t\"s\": null\r\n}\r\n// x", `{"s":{"m":{"command":1}}}`, `{"\u0073":{"a":[1,{}]}, "s":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept := bytes.Clone(raw)
		after, err := setJSON(raw, []string{"s"}, "m", wanted)
		if !bytes.Equal(raw, kept) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		d, err := parseJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		if find(&d.root, "s") == nil && !d.none && !isWithin(raw, after) {
			t.Fatalf("%q lost something in %q", raw, after)
		}
		again, err := setJSON(after, []string{"s"}, "m", wanted)
		if err != nil || !bytes.Equal(again, after) {
			t.Fatalf("the second time: %v\n%q\n%q", err, after, again)
		}
		without, err := removeJSON(after, []string{"s"}, []string{"m"})
		if err != nil {
			t.Fatalf("%q cannot be undone: %v", after, err)
		}
		if !isWithin(without, after) {
			t.Fatalf("%q got something in %q", after, without)
		}
		maskJSON(after, true)
	})
}

func FuzzSetTOML(f *testing.F) {
	for _, s := range []string{"", "a = 1", "[s.m]\ncommand = 'x' # y\n[s.m.env]\nA='b'", "s.m.command = 'x'\n", "x = \"\"\"\n[s.m]\n\"\"\"\n", "\xef\xbb\xbf[s]\r\nb = {command = 'y'}\r\n", "[[s]]\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kept := bytes.Clone(raw)
		after, err := setTOML(raw, "s", "m", wanted)
		if !bytes.Equal(raw, kept) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		if tree, err := parseTOML(raw); err != nil {
			t.Fatal(err)
		} else if servers, _ := tree["s"].(map[string]any); servers["m"] == nil && !bytes.HasPrefix(after, raw) {
			t.Fatalf("%q is not the beginning of %q", raw, after)
		}
		again, err := setTOML(after, "s", "m", wanted)
		if err != nil || !bytes.Equal(again, after) {
			t.Fatalf("the second time: %v\n%q\n%q", err, after, again)
		}
		without, err := removeTOML(after, "s", []string{"m"})
		if err == nil && !isWithin(without, after) {
			t.Fatalf("%q got something in %q", after, without)
		}
		maskTOML(after)
	})
}
