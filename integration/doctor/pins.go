package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/messages"
)

// pinChecks look at what servers' tools say, as they were listed last.
func (p *Patient) pinChecks() []Check {
	st := &p.Config.Settings
	if st.StateDir == "" || p.LoadError != nil {
		return nil
	}
	store := pins.NewStore(st.StateDir)
	off := st.Pins == string(messages.PinsOff)
	each := func(look func(server string, s *pins.Server) []Result, well string) func(context.Context) []Result {
		return func(ctx context.Context) []Result {
			if off {
				return []Result{{Status: Skipped, Found: "turned off by trust.pins"}}
			}
			var results []Result
			known := 0
			for _, spec := range p.Config.Servers {
				if len(p.Servers) > 0 && !slices.Contains(p.Servers, spec.Name) || ctx.Err() != nil {
					continue
				}
				s := store.Load(spec.Name)
				if s.Pinned() {
					known++
				}
				results = append(results, look(spec.Name, s)...)
			}
			if results == nil {
				results = []Result{{Status: OK, Found: fmt.Sprintf(well, count(known, "server"))}}
			}
			return results
		}
	}
	return []Check{
		{ID: "pins.changed", Group: GroupServers, Run: each(p.changedTools, "the tools of %s are as accepted")},
		{ID: "pins.texts", Group: GroupServers, Run: each(suspiciousTools, "no tool of %s holds texts that read like orders to a model")},
	}
}

func (p *Patient) changedTools(server string, s *pins.Server) []Result {
	if why := s.Problem(); why != "" {
		return []Result{{
			Subject: server, Status: Fail, Found: why, Why: "It is not known what was accepted of this server's tools, so changes are not noticed, or all of its tools are held back.",
			Fix: "Mend the file, or delete it to have what the server says next accepted.",
		}}
	}
	list := s.Differences()
	if len(list) == 0 {
		return nil
	}
	r := Result{
		Subject: server, Status: Warn, Found: fmt.Sprintf("tools that are not as accepted: %d", len(list)),
		Why: "A server that says something else than it did when you took it may have been updated, or taken over. Its tools can be called meanwhile (trust.pins is warn).",
		Fix: "metamcp pins diff " + messages.ShellWord(server) + ", then metamcp approve " + messages.ShellWord(server),
	}
	if p.Config.Settings.Pins == string(messages.PinsHold) {
		r.Why = "They cannot be found or called until you accept them (trust.pins is hold)."
	}
	for i := range list {
		r.Details = append(r.Details, pins.Visible(list[i].String()))
	}
	return []Result{r}
}

func suspiciousTools(server string, s *pins.Server) []Result {
	signs := s.Signs()
	if len(signs) == 0 {
		return nil
	}
	r := Result{
		Subject: server, Status: Warn, Found: fmt.Sprintf("tools with texts that read like orders to a model, or that are too long to be examined: %d", len(signs)),
		Why: "A model may take them for yours: docs/PINS.md says what is looked for.",
		Fix: "Read them with metamcp discover --json --server " + messages.ShellWord(server) + " --tool NAME; close tools with metamcp.toolRules, or remove the server.",
	}
	for _, tool := range slices.Sorted(maps.Keys(signs)) {
		r.Details = append(r.Details, pins.Visible(tool)+": "+strings.Join(signs[tool], ", "))
	}
	return []Result{r}
}
