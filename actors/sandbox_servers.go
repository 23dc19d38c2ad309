package actors

import (
	"slices"
	"weak"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/messages"
	"github.com/metamcp/metamcp/supervision"
)

// maxScriptTools is from which number on the tools of further servers are not
// told to every script; it may call them all the same.
const maxScriptTools = 2000

// scriptList is what scripts see of the servers of one version of the directory, with
// the tools of one catalog, which it does not hold alive.
type scriptList struct {
	catalog weak.Pointer[index.Catalog]
	version uint64
	servers []messages.ScriptServer // without their states
	entries []*supervision.Entry    // of the same
}

// scriptServers are the servers that a script sees; only narrows them, unless it is nil.
// The list of all of them is made once for all scripts, but for the states.
func (e *Engine) scriptServers(only []string) []messages.ScriptServer {
	var list *scriptList
	if only == nil {
		list = e.allScriptServers()
	} else {
		names := slices.Sorted(slices.Values(only))
		list = e.listScriptServers(e.view.Load(), slices.Compact(names))
	}
	servers := slices.Clone(list.servers)
	for i := range servers {
		servers[i].State = supervision.StateName(list.entries[i].Status().State)
	}
	return servers
}

func (e *Engine) allScriptServers() *scriptList {
	cat, version := e.view.Load(), e.dir.Version()
	of := weak.Make(cat)
	if last := e.scriptList.Load(); last != nil && last.version == version && last.catalog == of {
		return last
	}
	list := e.listScriptServers(cat, e.dir.Names())
	list.catalog, list.version = of, version
	e.scriptList.Store(list)
	return list
}

// listScriptServers makes the list of those of the names that a script can use.
func (e *Engine) listScriptServers(cat *index.Catalog, names []string) *scriptList {
	list := &scriptList{servers: make([]messages.ScriptServer, 0, len(names))}
	tools := 0
	for _, name := range names {
		entry, ok := e.dir.Lookup(name)
		if !ok || entry.Spec().Disabled {
			continue
		}
		s := messages.ScriptServer{Name: name, Description: entry.Spec().Description}
		if known := cat.Server(name); known != nil {
			for _, t := range known.Entries {
				if !t.Enabled {
					continue
				}
				if tools >= maxScriptTools {
					s.ToolsOmitted = true
					break
				}
				s.Tools = append(s.Tools, t.Tool.Name)
			}
			tools += len(s.Tools)
		}
		list.servers, list.entries = append(list.servers, s), append(list.entries, entry)
	}
	return list
}
