package scrub

import (
	"strings"
	"testing"
)

// TestSkip: lines that are skipped tell as much about those after them as lines that
// are looked at.
func TestSkip(t *testing.T) {
	key := strings.Repeat("MIIEpAIBAAKCAQEA", 4) + "\n"
	begin, end := "-----BEGIN PRIVATE"+" KEY-----\n", "-----END PRIVATE"+" KEY-----\n"
	text := "words\n" + begin + key + "\n" + key + end + key + "12:00 " + begin + "12:01 " + key + "no key\n" + key +
		strings.ReplaceAll(begin, "PRIVATE"+" KEY", "CERTIFICATE") + key + end + begin + begin + key + end + "\n" +
		begin + strings.Repeat(key, 210) + end + "words " + strings.TrimSpace(begin+end) + "\n" + key + begin + key
	lines := strings.SplitAfter(text, "\n")
	set := New(nil)
	known := func() *Set { return set }
	looks := NewStream(known)
	var want []string
	for _, line := range lines {
		want = append(want, string(looks.Line([]byte(strings.TrimSuffix(line, "\n")))))
	}
	for from := range lines {
		for to := from + 1; to <= len(lines); to += 1 + (to-from)/4 {
			s := NewStream(known)
			for _, line := range lines[:from] {
				s.Line([]byte(strings.TrimSuffix(line, "\n")))
			}
			s.Skip([]byte(strings.Join(lines[from:to], "")))
			for i, line := range lines[to:] {
				if got := string(s.Line([]byte(strings.TrimSuffix(line, "\n")))); got != want[to+i] {
					t.Fatalf("lines %d to %d were skipped: line %d is %q, want %q", from, to, to+i, got, want[to+i])
				}
			}
		}
	}
	off := NewStream(func() *Set { return nil })
	off.Skip([]byte(begin))
	if got := off.Line([]byte(key)); string(got) != key {
		t.Errorf("without scrubbing: %s", got)
	}
}
