package clients

import (
	"strings"
	"testing"
)

// What is shown of a file does not steer the terminal that shows it.
func TestShownTextDoesNotSteer(t *testing.T) {
	got := shown(Find("cursor"), "f", []byte("{\n}\n"), []byte("{\n\t\"a\": \"b\u202ec\u2028d\U000e0041e\u009b 👩\u200d👧\"\n}\n"))
	if want := "+\t\"a\": \"b\ufffdc\ufffdd\ufffde\ufffd 👩\u200d👧\"\n"; !strings.Contains(got, want) {
		t.Errorf("%+q, want %+q in it", got, want)
	}
}
