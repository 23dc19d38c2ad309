package metamcp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/index"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/trust"
	"github.com/metamcp/metamcp/messages"
)

// How surely an intent means what is configured; docs/PROVISION.md has the
// definition.
const (
	localPackage   = 1.0  // the intent names the package that a server runs
	localName      = 0.95 // it names a server or a tool
	localWords     = 0.85 // words alone are never surer
	localThreshold = 0.5  // from here on the registry is not asked

	// Where there are no vectors, a tool also has to share words with the
	// intent: more than half of them for the threshold.
	sharedBase  = 0.15
	sharedWords = 0.65
)

// settleTime bounds the wait for vectors of tools, which a host waits for once.
const settleTime = 5 * time.Second

// sourceLocal is where an answer is from that asked nobody.
const sourceLocal = "local"

// named looks for a configured server, or a tool of one, that the intent names.
// nil: it names none.
func (p provisioner) named(ctx context.Context, ask *messages.Provision, packages []string) *messages.ProvisionReport {
	cfg := p.e.Config()
	ran := p.provisionedNames()
	for _, spec := range cfg.Servers {
		for _, name := range packages {
			if spec.Provisioned != nil && slices.Contains(ran[spec.Name], name) || slices.ContainsFunc(spec.Args, func(arg string) bool { return packageIn(arg) == name }) {
				return p.localServer(ctx, spec, localPackage, "a configured server runs "+name)
			}
		}
	}
	for _, spec := range cfg.Servers {
		if why := trust.NamedLocally(ask.Intent, spec.Name); why != "" {
			return p.localServer(ctx, spec, localName, why)
		}
	}
	r := &messages.ProvisionReport{Decision: messages.DecisionLocal, Source: sourceLocal, Confidence: localName}
	cat := p.e.core.Catalog()
	for _, spec := range cfg.Servers {
		known := cat.Server(spec.Name)
		if known == nil {
			continue
		}
		for _, entry := range known.Entries {
			if !entry.Enabled || len(r.Local) == p.e.Config().Settings.Search.Limit {
				continue
			}
			if why := trust.NamedLocally(ask.Intent, entry.Tool.Name); why != "" {
				r.Reason = why
				r.Local = append(r.Local, messages.ProvisionTool{Server: spec.Name, Tool: entry.Tool.Name, Confidence: localName})
			}
		}
	}
	if len(r.Local) == 0 {
		return nil
	}
	return r
}

// provisionedNames are the names of packages and in registries by which servers
// go that metamcp installed. A lock file that cannot be used is told of
// elsewhere.
func (p provisioner) provisionedNames() map[string][]string {
	if p.e.Config().Settings.StateDir == "" {
		return nil
	}
	list, err := p.lock().List()
	if err != nil {
		return nil
	}
	names := make(map[string][]string, len(list))
	for i := range list {
		names[list[i].Name] = []string{list[i].Source.Package, list[i].Source.Server}
	}
	return names
}

func (p provisioner) lock() *provisioned.Lock {
	return provisioned.Open(p.e.Config().Settings.StateDir)
}

// packageIn is the package that an argument of npx, uvx and the like names,
// without its version.
func packageIn(arg string) string {
	for _, kind := range []string{"npm:", "--package=", "--from="} {
		arg = strings.TrimPrefix(arg, kind)
	}
	arg, _, _ = strings.Cut(arg, "==")
	if i := strings.LastIndexByte(arg, '@'); i > 0 {
		arg = arg[:i]
	}
	return arg
}

// localServer reports a configured server, with its tools where they can be
// had.
func (p provisioner) localServer(ctx context.Context, spec *messages.ServerSpec, confidence float64, why string) *messages.ProvisionReport {
	r := &messages.ProvisionReport{Decision: messages.DecisionLocal, Source: sourceLocal, Confidence: confidence, Server: spec.Name, Reason: why}
	switch {
	case spec.Disabled:
		r.Notes = append(r.Notes, fmt.Sprintf("The server %q is turned off in the configuration (%s); the user can turn it on with: metamcp enable %s", spec.Name, spec.Source, spec.Name))
		return r
	case spec.Err != nil:
		r.Notes = append(r.Notes, fmt.Sprintf("The server %q cannot be started: %s", spec.Name, spec.Err.Message))
		return r
	}
	starting, cancel := context.WithTimeout(ctx, p.e.patience(spec.Name, true))
	defer cancel()
	if _, err := p.e.known(starting, spec.Name); err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("The server %q did not list its tools: %s", spec.Name, p.e.scrubbed(asError(err)).Message))
	}
	return r
}

// words looks for tools of configured servers by the words of a request. nil:
// none fits.
func (p provisioner) words(ctx context.Context, ask *messages.Provision) (r *messages.ProvisionReport, notes []string) {
	texts := []string{ask.Intent}
	if ask.Context != "" {
		texts = append(texts, ask.Intent+"\n"+ask.Context)
	}
	pending := map[string]bool{}
	for i, text := range texts {
		// Only the hybrid ranking's scores are a confidence.
		opts := SearchOptions{ranking: index.RankingHybrid, CachedOnly: i > 0}
		found, err := p.e.Search(ctx, text, opts)
		if err == nil && len(found.Notes) > 0 {
			// Without vectors a score says much less; they take a moment once.
			settling, cancel := context.WithTimeout(ctx, settleTime)
			_ = p.e.core.Settle(settling) // what has none by then is judged by its words
			cancel()
			for _, name := range found.Pending {
				pending[name] = true
			}
			opts.CachedOnly = true
			found, err = p.e.Search(ctx, text, opts)
		}
		if err != nil {
			return nil, append(notes, "The configured servers could not be searched: "+asError(err).Message)
		}
		for _, name := range found.Pending {
			pending[name] = true
		}
		r = &messages.ProvisionReport{Decision: messages.DecisionLocal, Source: sourceLocal, Reason: "tools of configured servers fit", Notes: found.Notes}
		wordsAlone := len(found.Notes) > 0 || p.e.core.IndexStatus().Model == ""
		for i := range found.Matches {
			m := &found.Matches[i]
			sure := min(m.Score, localWords)
			if wordsAlone {
				sure = min(sure, sharedBase+sharedWords*trust.Overlap(text, m.Server+" "+m.listed.Name+" "+m.listed.Title+" "+m.listed.Description))
			}
			if sure >= localThreshold {
				r.Local = append(r.Local, messages.ProvisionTool{Server: m.Server, Tool: m.Name, Confidence: sure})
			}
		}
		if len(r.Local) > 0 {
			slices.SortStableFunc(r.Local, func(a, b messages.ProvisionTool) int { return cmp.Compare(b.Confidence, a.Confidence) })
			r.Confidence = r.Local[0].Confidence
			return r, nil
		}
	}
	if len(pending) > 0 {
		names := slices.Sorted(maps.Keys(pending))
		notes = append(notes, "Not looked at, since they are still starting: "+strings.Join(names[:min(len(names), 10)], ", ")+".")
	}
	return nil, notes
}
