package limits

import (
	"os"
	"strconv"
	"testing"
)

// What the unit says counts for the process that systemd has started, and not for what
// inherits its variables.
func TestHandedOverByTheUnit(t *testing.T) {
	dir, own := t.TempDir(), strconv.Itoa(os.Getpid())
	for _, tt := range []struct {
		said, pid string
		want      bool
	}{{"1", own, true}, {"1", "1", false}, {"1", "", false}, {"", own, false}} {
		t.Setenv(delegatedVariable, tt.said)
		t.Setenv("SYSTEMD_EXEC_PID", tt.pid)
		if got := handedOver(dir); got != tt.want {
			t.Errorf("%q for the process %q: %v", tt.said, tt.pid, got)
		}
	}
}
