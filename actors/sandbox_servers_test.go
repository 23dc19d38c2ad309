package actors

import (
	"fmt"
	"slices"
	"testing"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
)

// The list of servers for scripts is made once for all of them until something changes,
// and says all the same how they are now.
func TestScriptsShareTheListOfServers(t *testing.T) {
	r := newRig(t, nil)
	r.add("b", nil, func(s *messages.ServerSpec) { s.Description = "Old." })
	r.add("a", nil, nil)
	r.add("off", nil, func(s *messages.ServerSpec) { s.Disabled = true })
	names := func(list []messages.ScriptServer) (names []string) {
		for _, s := range list {
			names = append(names, s.Name)
		}
		return names
	}
	if first := r.e.scriptServers(nil); !slices.Equal(names(first), []string{"a", "b"}) || first[0].State != "IDLE" || first[0].Tools != nil {
		t.Errorf("at first: %+v", first)
	}
	r.ok("a")
	r.ok("b")
	r.settled(2)
	made := r.e.allScriptServers()
	first := r.e.scriptServers(nil)
	if want := []string{"do", "read", "twice", "typed"}; !slices.Equal(first[0].Tools, want) || !slices.Equal(first[1].Tools, want) {
		t.Errorf("the tools are not those of the new catalog: %+v", first)
	}
	first[0].Name = "changed by a script's process"
	call := r.start("a", "do", doArgs{Do: "silent"})
	r.got("a", "tools/call", 2)
	again := r.e.scriptServers(nil)
	if again[0].Name != "a" || &again[0].Tools[0] != &first[0].Tools[0] || r.e.allScriptServers() != made {
		t.Errorf("the list was made anew, or is not as it was: %+v", again)
	}
	if again[0].State != "ACTIVE" || again[1].State != "IDLE" {
		t.Errorf("with a call in flight the servers are %s and %s", again[0].State, again[1].State)
	}
	r.e.Cancel(call.call, "the test is over")
	r.wait(call)
	if some := r.e.scriptServers([]string{"off", "b", "nobody", "b"}); !slices.Equal(names(some), []string{"b"}) || len(some[0].Tools) != 4 {
		t.Errorf("some: %+v", some)
	}
	if none := r.e.scriptServers([]string{}); len(none) != 0 {
		t.Errorf("none: %+v", none)
	}
	var many []*messages.Tool
	for i := range maxScriptTools {
		many = append(many, &messages.Tool{Server: "a", Definition: &messages.Definition{Name: fmt.Sprint("tool", i)}})
	}
	cat := r.e.Catalog().With(&messages.Toolset{Server: "a", Tools: many}, index.Labels{})
	full := r.e.listScriptServers(cat, r.e.dir.Names()).servers
	if len(full[0].Tools) != maxScriptTools || full[0].ToolsOmitted || len(full[1].Tools) != 0 || !full[1].ToolsOmitted {
		t.Errorf("with many tools: %d of %s, %v; %d of %s, %v",
			len(full[0].Tools), full[0].Name, full[0].ToolsOmitted, len(full[1].Tools), full[1].Name, full[1].ToolsOmitted)
	}
	s := spec("b", func(s *messages.ServerSpec) { s.Description = "New." })
	r.specs["b"] = s
	r.apply(Change{Changed: []*messages.ServerSpec{s}})
	if now := r.e.scriptServers(nil); r.e.allScriptServers() == made || now[1].Description != "New." {
		t.Errorf("after a change: %+v", now)
	}
}
