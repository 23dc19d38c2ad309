package metamcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/metamcp/metamcp/integration/audit"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/pins"
	"github.com/metamcp/metamcp/messages"
)

func pinMode(cfg *config.Config) messages.PinMode { return messages.PinMode(cfg.Settings.Pins) }

// keeper implements index.Keeper with the files in the state folder, and tells
// people what it finds.
type keeper struct {
	e     *Engine
	store *pins.Store // nil: there is no state folder
	// memory is what was accepted where there is none, or could not be written:
	// server → *pins.Server.
	memory sync.Map
}

func newKeeper(e *Engine, st *config.Settings) *keeper {
	k := &keeper{e: e}
	if st.StateDir != "" {
		k.store = pins.NewStore(st.StateDir)
	}
	return k
}

// Load implements index.Keeper.
func (k *keeper) Load(server string) messages.Accepted {
	known := k.remembered(server) // before the file: it may be written meanwhile
	if k.store == nil {
		return known
	}
	accepted := k.store.Load(server).Slim()
	if known.Alone() {
		if !accepted.Pinned() {
			return known.Slim()
		}
		if accepted.Problem() == "" {
			k.memory.CompareAndDelete(server, known) // what another host has written counts
		}
	}
	k.complain(server, accepted)
	return accepted
}

func (k *keeper) complain(server string, accepted *pins.Server) {
	if p := accepted.Problem(); p != "" {
		k.e.log.Error("what was accepted of a server's tools is not known", "server", server, "why", p, "hint", "mend the file, or delete it to have what the server says next accepted")
	}
}

func (k *keeper) remembered(server string) *pins.Server {
	if known, ok := k.memory.Load(server); ok {
		return known.(*pins.Server)
	}
	return &pins.Server{}
}

// slimGone drops the definitions of servers that are there no more. What was accepted of
// them holds all the same, should they come back; it only cannot be shown as a diff.
func (k *keeper) slimGone(thereIs func(server string) bool) {
	k.memory.Range(func(server, known any) bool {
		if !thereIs(server.(string)) {
			k.memory.CompareAndSwap(server, known, known.(*pins.Server).Slim())
		}
		return true
	})
}

// Keep implements index.Keeper.
func (k *keeper) Keep(ts *messages.Toolset) messages.Accepted {
	if k.store == nil {
		if known := k.remembered(ts.Server); known.Pinned() {
			return known
		}
		accepted := pins.Accept(ts)
		k.memory.Store(ts.Server, accepted)
		return accepted
	}
	const enough = 20 * time.Second
	ctx, cancel := context.WithTimeout(k.e.reloads, enough)
	defer cancel()
	known := k.remembered(ts.Server)
	accepted, news, err := k.store.Record(ctx, ts, known)
	switch {
	case accepted.Unwritten():
		k.memory.Store(ts.Server, accepted)
		if !known.Unwritten() { // it is tried again and again, and told once
			k.e.log.Error(err.Error(), "server", ts.Server, "hint", "until it can be written it counts for this host alone; see to it that there is room in the state folder, and that metamcp may write there")
		}
		accepted = accepted.Slim()
	case known.Unwritten() && accepted.Problem() == "":
		k.memory.Delete(ts.Server)
		k.e.log.Info("what was accepted of the tools of a server is written now", "server", ts.Server)
	}
	k.complain(ts.Server, accepted)
	if news != nil {
		k.e.pinNews(ts.Server, news)
	}
	return accepted
}

// Forget implements index.Keeper.
func (k *keeper) Forget(server string) {
	k.memory.Delete(server)
	if k.store == nil {
		return
	}
	const enough = 20 * time.Second
	ctx, cancel := context.WithTimeout(k.e.reloads, enough)
	defer cancel()
	if err := k.store.Forget(ctx, server); err != nil {
		k.e.log.Error("what was accepted of the tools of a server that is gone could not be deleted", "server", server, "error", err)
	}
}

// pinNews tells what a listing brought.
func (e *Engine) pinNews(server string, news *pins.News) {
	if news.First {
		e.log.Info("the tools of a server are accepted as they are", "server", server, "tools", news.Tools)
		e.auditPins(server, "accepted", strconv.Itoa(news.Tools)+" tools, as the server listed them first")
	}
	if len(news.Differences) > 0 {
		e.log.Warn("tools of a server are not what was accepted", "server", server, "tools", differences(news.Differences), "hint", "metamcp pins diff "+messages.ShellWord(server))
		e.auditPins(server, "changed", differences(news.Differences))
	}
	if len(news.Signs) > 0 {
		e.log.Warn("tools of a server hold texts that read like orders to a model, or are too long to be examined for them", "server", server, "tools", suspicious(news.Signs), "hint", "metamcp pins list "+messages.ShellWord(server))
		e.auditPins(server, "suspicious", suspicious(news.Signs))
	}
}

func (e *Engine) auditPins(server, decision, reason string) {
	if e.audit == nil {
		return
	}
	e.audit.append(audit.Entry{Kind: audit.KindPins, Server: server, Decision: &audit.Decision{Decision: decision, Reason: pins.Visible(reason)}})
}

// namedTools is how many tools one line names.
const namedTools = 20

// differences says in one line what differs.
func differences(list []pins.Difference) string {
	var parts []string
	for i := range list {
		if i == namedTools {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		parts = append(parts, list[i].String())
	}
	return strings.Join(parts, "; ")
}

func suspicious(signs map[string][]string) string {
	var parts []string
	for i, tool := range slices.Sorted(maps.Keys(signs)) {
		if i == namedTools {
			parts = append(parts, fmt.Sprintf("and %d more", len(signs)-i))
			break
		}
		parts = append(parts, tool+" ("+strings.Join(signs[tool], ", ")+")")
	}
	return strings.Join(parts, "; ")
}

// pinsChanged is told which files have changed.
func (e *Engine) pinsChanged(files []string) {
	changed := make(map[string]bool, len(files))
	for _, f := range files {
		changed[f] = true
	}
	var servers []string
	for _, spec := range e.Config().Servers {
		if changed[pins.File(spec.Name)] {
			servers = append(servers, spec.Name)
		}
	}
	if len(servers) > 0 {
		e.core.PinsChanged(servers)
	}
}
