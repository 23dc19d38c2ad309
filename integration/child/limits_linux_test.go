package child

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

// TestLimitsOfAnEntry are in force in the child, and in no other process.
func TestLimitsOfAnEntry(t *testing.T) {
	p, r := launch(t, newLauncher(t, nil), "echo", func(s *messages.ServerSpec) {
		s.Limits = messages.Limits{MemoryMB: 512, CPUSeconds: 77}
	})
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Max data size": "536870912 536870912", "Max cpu time": "77 82"} {
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, name) && !strings.HasPrefix(strings.Join(strings.Fields(line), " "), name+" "+want) {
				t.Errorf("said %q, want %s", line, want)
			}
		}
		if strings.Contains(strings.Join(strings.Fields(string(own)), " "), name+" "+want) {
			t.Errorf("this process has the limit %s", name)
		}
	}
	if !strings.Contains(string(text), "536870912") {
		t.Errorf("no limit of memory:\n%s", text)
	}
	p.CloseInput()
	if e := r.exit(t); e.Code != 0 || e.OutOfMemory {
		t.Errorf("exit %+v", e)
	}
}

// TestKilledByOthersIsNotOutOfMemory has a child killed while memory is there.
func TestKilledByOthersIsNotOutOfMemory(t *testing.T) {
	_, r := launch(t, newLauncher(t, nil), "abort")
	if e := r.exit(t); e.Signal != "SIGKILL" || e.OutOfMemory {
		t.Errorf("exit %+v", e)
	}
}
