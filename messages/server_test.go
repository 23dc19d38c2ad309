package messages_test

import (
	"strings"
	"testing"

	"github.com/metamcp/metamcp/messages"
)

func TestRunsPackage(t *testing.T) {
	for line, want := range map[string]bool{
		"npx -y x": true, "/usr/bin/npx x": true, `C:\node\npx.cmd x`: true, "UVX.EXE x": true, "uvx": true, "npm exec x": true, "pnpm dlx x": true, "docker run x": true,
		"npm": false, "npm start": false, "node x": false, "docker ps": false, "": false, "/opt/npx/server": false,
	} {
		command, args, _ := strings.Cut(line, " ")
		s := messages.ServerSpec{Command: command, Args: strings.Fields(args)}
		if got := s.RunsPackage(); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
