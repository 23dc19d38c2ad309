package metamcp

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
)

// sourceLocal is where an answer is from that asked nobody.
const sourceLocal = "local"

// named looks for a configured server, or a tool of one, that the intent names.
// nil: it names none.
func (p provisioner) named(ctx context.Context, ask *messages.Provision, packages []string) *messages.ProvisionReport {
	cfg := p.e.Config()
	ran := p.provisionedPackages()
	for _, spec := range cfg.Servers {
		for _, name := range packages {
			if ran[spec.Name] == name || slices.ContainsFunc(spec.Args, func(arg string) bool { return packageIn(arg) == name }) {
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

// provisionedPackages are the packages of servers that metamcp installed, by
// server. A lock file that cannot be used is told of elsewhere.
func (p provisioner) provisionedPackages() map[string]string {
	list, err := p.lock().List()
	if err != nil {
		return nil
	}
	packages := make(map[string]string, len(list))
	for i := range list {
		packages[list[i].Name] = list[i].Source.Package
	}
	return packages
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
		r.Notes = append(r.Notes, fmt.Sprintf("The server %q is turned off in the configuration (%s); the user can turn it on there.", spec.Name, spec.Source))
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
	for _, text := range texts {
		// Only the hybrid ranking's scores are a confidence.
		found, err := p.e.Search(ctx, text, SearchOptions{ranking: index.RankingHybrid})
		if err != nil {
			return nil, append(notes, "The configured servers could not be searched: "+asError(err).Message)
		}
		for _, note := range found.Notes {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
		r = &messages.ProvisionReport{Decision: messages.DecisionLocal, Source: sourceLocal, Reason: "tools of configured servers fit", Notes: notes}
		for _, m := range found.Matches {
			if m.Score < localThreshold {
				break
			}
			r.Local = append(r.Local, messages.ProvisionTool{Server: m.Server, Tool: m.Name, Confidence: min(m.Score, localWords)})
		}
		if len(r.Local) > 0 {
			r.Confidence = r.Local[0].Confidence
			return r, nil
		}
		if len(found.Pending) > 0 {
			notes = append(notes, "Not looked at, since they are still starting: "+strings.Join(found.Pending[:min(len(found.Pending), 10)], ", ")+".")
		}
	}
	return nil, notes
}
