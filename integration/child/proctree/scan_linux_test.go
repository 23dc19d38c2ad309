package proctree

import "testing"

func TestParseStat(t *testing.T) {
	for _, c := range []struct {
		stat string
		want Process
		ok   bool
	}{
		{"12 (sh) S 3 4 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 777 1 2\n", Process{PID: 12, PPID: 3, Group: 4, Session: 5, Start: 777, Name: "sh"}, true},
		{"12 (a) b) (c) R 3 4 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 777 9\n", Process{PID: 12, PPID: 3, Group: 4, Session: 5, Start: 777, Name: "a) b) (c"}, true},
		{"12 (sh) Z 3 4 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 777 9\n", Process{}, false},
		{"12 (sh) S 3", Process{}, false},
		{"12 sh S", Process{}, false},
		{"", Process{}, false},
		{")(", Process{}, false},
	} {
		got, ok := parseStat([]byte(c.stat))
		if ok != c.ok || ok && got != c.want {
			t.Errorf("parseStat(%q) = %+v, %v; want %+v, %v", c.stat, got, ok, c.want, c.ok)
		}
	}
}

func TestFindMarker(t *testing.T) {
	for environ, want := range map[string]string{
		"METAMCP_TREE=h.1\x00A=2\x00":     "h.1",
		"A=2\x00METAMCP_TREE=h.1":         "h.1",
		"XMETAMCP_TREE=h.1\x00":           "",
		"A=METAMCP_TREE=h.1\x00":          "",
		"METAMCP_TREE=\x00":               "",
		"METAMCP_TREE=h.1\x00\x00\x00":    "h.1",
		"\x00\x00METAMCP_TREE=h.2\x00B=1": "h.2",
		"":                                "",
	} {
		if got := findMarker([]byte(environ)); got != want {
			t.Errorf("findMarker(%q) = %q, want %q", environ, got, want)
		}
	}
}
