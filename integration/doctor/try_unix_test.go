//go:build unix

package doctor_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metamcp/metamcp/integration/testkit"
)

// metamcp test starts the servers that are named, and no others.
func TestTestCommand(t *testing.T) {
	home := configured(t, object{
		"good": demo(t), "off": object{"command": testkit.Binary(t), "args": []string{"demo-server"}, "disabled": true},
		"crash": demo(t, "--exit-at-start", "3", "--exit-text", "no luck with "+secret),
		"self":  object{"command": testkit.Binary(t), "args": []string{}}, "far": object{"url": "http://127.0.0.1:1/mcp"},
		"broken": object{}, "unasked": object{"command": "sh", "args": []string{"-c", "touch started"}},
	}, nil)
	r := metamcp(t, home, "test", "off", "good", "good")
	if r.status != 0 || strings.Count(r.out, toolsIn) != 2 || !strings.Contains(r.out, "it is turned off at") || !strings.Contains(r.out, "protocol 20") {
		t.Errorf("status %d, %q\n%s", r.status, r.said, r.out)
	}
	r = metamcp(t, home, "test", "good", "crash", "self", "far", "broken", "--json", "--timeout", "30s")
	var tried []struct {
		Server string
		OK     bool
		TookMs int64
		Tools  []struct{ Name string }
		Error  *struct {
			Message string
			Details []string
		}
	}
	if err := json.Unmarshal([]byte(r.out), &tried); err != nil || r.status != 1 || len(tried) != 5 {
		t.Fatalf("status %d, %v, %q\n%s", r.status, err, r.said, r.out)
	}
	if s := tried[0]; s.Server != "good" || !s.OK || len(s.Tools) != testkit.DemoTools || s.TookMs <= 0 {
		t.Errorf("%+v", s)
	}
	if s := tried[1]; s.OK || !strings.Contains(strings.Join(s.Error.Details, "\n"), "no luck with [REDACTED:API_KEY]") {
		t.Errorf("%+v", s.Error)
	}
	for i, want := range map[int]string{2: "would start itself", 3: "could not be reached", 4: "not configured correctly"} {
		if s := tried[i]; s.OK || !strings.Contains(s.Error.Message, want) {
			t.Errorf("%s: %+v", s.Server, s.Error)
		}
	}
	if r = metamcp(t, home, "test", "crash"); r.status != 1 || !strings.Contains(r.out, "  | ") || strings.Contains(r.out, secret) {
		t.Errorf("status %d\n%s", r.status, r.out)
	}
	for _, words := range [][]string{{"test"}, {"test", "nobody"}} {
		if r = metamcp(t, home, words...); r.status != 2 {
			t.Errorf("%q: status %d, %q", words, r.status, r.said)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "started")); err == nil {
		t.Error("a server was started that nobody asked for")
	}
}
