package sandbox_test

import (
	"fmt"
	"testing"

	"github.com/metamcp/metamcp/integration/sandbox"
)

// Very many servers, or a server with very many tools, leave a script enough of its
// memory to go through all of them, and do not take what it does not ask for.
func TestVeryManyNames(t *testing.T) {
	t.Parallel()
	const count = 20_000
	servers := make([]sandbox.Server, count)
	for i := range servers {
		servers[i] = sandbox.Server{Name: fmt.Sprintf("server-number-%d", i), Description: "does something useful for its users", State: "IDLE"}
	}
	big := sandbox.Server{Name: "big"}
	for i := range count {
		big.Tools = append(big.Tools, fmt.Sprintf("tool-that-does-%d", i))
	}
	const all, last = "20000", `"server-number-19999"`
	for _, tt := range []struct {
		servers          []sandbox.Server
		code, name, want string
		heap             int64
	}{
		{servers, `return Object.keys(servers).length`, "keys", all, 16 << 20},
		{servers, `return JSON.parse(JSON.stringify(Object.keys(servers))).at(-1)`, "keys as JSON", last, 16 << 20},
		{servers, `let n = 0; for (const s in servers) n++; return n`, "for in", all, 16 << 20},
		{servers, `return ["server-number-9" in servers, "server_number_9" in servers, "x" in servers]`, "in", `[true,true,false]`, 16 << 20},
		{servers, `return Object.keys(Object.getOwnPropertyDescriptors(servers)).length`, "descriptors", all, 0},
		{servers, `const e = Object.entries(servers); return (await e.at(-1)[1].x({})).server`, "entries", last, 0},
		{servers, `return Object.keys({...servers}).length`, "spread", all, 0},
		{servers, `return Object.values(servers).map(s => s.read_file).length`, "a tool of each", all, 0},
		{servers, `return JSON.parse(JSON.stringify(servers))["server-number-7"]`, "servers as JSON", `{}`, 0},
		{servers, `return servers.list().filter(s => servers[s.name] !== undefined).length`, "list", all, 0},
		{[]sandbox.Server{big}, `return ["tool-that-does-7" in servers.big, "tool_that_does_7" in servers.big, "x" in servers.big]`, "a tool in", `[true,true,false]`, 16 << 20},
		{[]sandbox.Server{big}, `return servers.list()[0].tools.map(t => servers.big[t]).length`, "every tool", all, 0},
		{[]sandbox.Server{big}, `return (await servers.big.tool_that_does_19999()).tool`, "a tool as identifier", `"tool-that-does-19999"`, 16 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := launch(t, nil).run(t, &sandbox.Script{Code: tt.code, Servers: tt.servers, Limits: sandbox.Limits{HeapBytes: tt.heap}})
			if o.Failure != nil || string(o.Value) != tt.want {
				t.Errorf("%v\n got %s\nwant %s", o.Failure, o.Value, tt.want)
			}
		})
	}
}

// What a name's descriptor says is lawful, and leads to the server.
func TestDescriptorOfServer(t *testing.T) {
	t.Parallel()
	const code = `const d = Object.getOwnPropertyDescriptor(servers, "files"), copy = Object.defineProperties({}, Object.getOwnPropertyDescriptors(servers));
return [(await d.get().x({})).server, d.enumerable, Object.hasOwn(servers, "files"), Object.hasOwn(servers, "nope"), (await copy["my server/2"].x({})).server, copy.files === servers.files]`
	if got, want := value(t, code), `["files",true,true,false,"my server/2",true]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
