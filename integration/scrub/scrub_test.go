package scrub

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func TestSecretsGo(t *testing.T) {
	s := New([]*messages.ServerSpec{
		{Env: []string{"PATH=/usr/local/bin", "API_KEY=sk-123456789", "HOME=/home/someone", "GITHUB_TOKEN=sk-123456789-long", "DEBUG_TOKEN=1"}},
		{Headers: map[string]string{"Authorization": "Bearer abcdefghij"}},
	})
	for _, c := range []struct{ in, want string }{
		{"key sk-123456789 refused", "key [REDACTED:API_KEY] refused"},
		{"sk-123456789-long", "[REDACTED:GITHUB_TOKEN]"},
		{"got abcdefghij", "got [REDACTED:Authorization]"},
		{"in /usr/local/bin and /home/someone, 1 time", "in /usr/local/bin and /home/someone, 1 time"},
	} {
		if got := s.Text(c.in); got != c.want {
			t.Errorf("Text(%q) = %q, want %q", c.in, got, c.want)
		}
		if got := string(s.Bytes([]byte(c.in))); got != c.want {
			t.Errorf("Bytes(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	err := s.Error(&messages.Error{Message: "x sk-123456789", Hint: "h sk-123456789", Details: []string{"d sk-123456789"}})
	if all := err.Message + err.Hint + strings.Join(err.Details, ""); strings.Contains(all, "sk-1") {
		t.Errorf("an error keeps a secret: %s", all)
	}
}

func TestNoSecrets(t *testing.T) {
	s := New([]*messages.ServerSpec{{Env: []string{"PATH=/bin", "SSH_AUTH_SOCK=/run/agent.sock"}}})
	if s != nil {
		t.Errorf("found secrets where there are none: %q", s.values)
	}
	if s.Text("x") != "x" || string(s.Bytes([]byte("x"))) != "x" || s.Error(nil) != nil {
		t.Error("a nil Set changes text")
	}
}
