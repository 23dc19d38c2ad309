package messages

import "testing"

func TestFindArgs(t *testing.T) {
	there := func(program string) bool { return program == "/opt/node" || program == `C:\node.exe` }
	for _, c := range []struct{ command, want string }{
		{"metamcp demo-server", `Arguments go into "args": {"command": "metamcp", "args": ["demo-server"]}.`},
		{" npx  -y\tserver ", `Arguments go into "args": {"command": "npx", "args": ["-y", "server"]}.`},
		{"/opt/node server.js", `Arguments go into "args": {"command": "/opt/node", "args": ["server.js"]}.`},
		{`C:\node.exe server.js`, `Arguments go into "args": {"command": "C:\\node.exe", "args": ["server.js"]}.`},
		{`node "my server.js"`, `Arguments go into "args", one word each: "command" is "node" alone.`},
		{"/opt/My Programs/node", ""},
		{`C:\My Programs\node.exe`, ""},
		{"node", ""},
		{"", ""},
	} {
		got := ""
		if e := FindArgs(c.command, there); e != nil {
			got = e.Advice()
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.command, got, c.want)
		}
	}
}
