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
	"github.com/metamcp/metamcp/integration/install"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
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

// localMatch is a configured server that an intent means.
type localMatch struct {
	spec       *messages.ServerSpec
	why        string
	confidence float64
	name       trust.NamedPackage // zero: the server is named, and not its package
	version    string             // that it runs; "": whatever is newest when it starts
	// of is what was installed, where the name is that of its server in a registry;
	// else nil.
	of *provisioned.Source
}

// pkg is what it runs.
func (m *localMatch) pkg() string {
	if m.of != nil {
		return m.of.Package
	}
	return m.name.Name
}

// usable says that it can be called, as far as is known without a start.
func (m *localMatch) usable() bool { return !m.spec.Disabled && m.spec.Err == nil }

// rank orders servers that are meant: one that can be called comes before one that takes
// no calls for now, and that before one that cannot be used.
func (p provisioner) rank(m *localMatch) int {
	if !m.usable() {
		return 2
	}
	why, _ := p.e.away(m.spec.Name)
	return one(why != nil)
}

// better is whichever of two is to be preferred, the first where they are alike; best may
// be nil.
func (p provisioner) better(best, m *localMatch) *localMatch {
	if best == nil || p.rank(m) < p.rank(best) {
		return m
	}
	return best
}

// named looks for a configured server, or a tool of one, that the intent names.
// Those that can be called come first. nil: it names none, or one that is there in
// another version only, which the notes say. undecided are those of which only a
// registry can tell whether they are there in the version that the intent names.
func (p provisioner) named(ctx context.Context, ask *messages.Provision, packages []trust.NamedPackage) (r *messages.ProvisionReport, undecided []localMatch, notes []string) {
	var unusable, other *localMatch
	var failing *messages.ProvisionReport
	for _, m := range p.localMatches(ask.Intent, packages) {
		switch {
		case m.name.Version != "" && m.of != nil:
			undecided = append(undecided, m)
		case m.name.Version != "" && !install.SameVersion(m.name.Kind, m.version, m.name.Version):
			other = p.better(other, &m)
		case !m.usable():
			if unusable == nil {
				unusable = &m
			}
		default:
			r, works := p.localServer(ctx, &m)
			if works {
				return r, nil, nil
			}
			if failing == nil {
				failing = r
			}
		}
	}
	switch {
	case failing != nil:
		return failing, nil, nil
	case unusable != nil:
		return unusableReport(unusable), nil, nil
	case other != nil:
		r, notes = p.otherVersion(ask, other)
		return r, undecided, notes
	}
	r = &messages.ProvisionReport{Decision: messages.DecisionLocal, Source: sourceLocal, Confidence: localName}
	cat := p.e.core.Catalog()
	for _, spec := range p.e.Config().Servers {
		known := cat.Server(spec.Name)
		if known == nil || spec.Disabled {
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
		return nil, undecided, nil
	}
	p.callableFirst(r.Local)
	return r, nil, nil
}

// inThatVersion answers for the undecided servers, now that the options say which
// package the version is that the intent names. nil: none is there in it, which the
// notes say where installing was not asked for.
func (p provisioner) inThatVersion(ctx context.Context, ask *messages.Provision, undecided []localMatch, options []*option) (r *messages.ProvisionReport, notes []string) {
	var same, other *localMatch
	for i := range undecided {
		m := &undecided[i]
		best := &other
		switch {
		case slices.ContainsFunc(options, func(o *option) bool { return o.installed(m.of) }):
			best = &same
		case !slices.ContainsFunc(options, func(o *option) bool { return o.candidate.Server == m.of.Server }):
			continue // the registry did not tell
		}
		*best = p.better(*best, m)
	}
	switch {
	case same != nil:
		return p.there(ctx, same), nil
	case other != nil:
		return p.otherVersion(ask, other)
	}
	return nil, nil
}

// untold answers for the undecided servers of which no registry says which package the
// version is that the intent names; err is why it was not asked, or nil. Then the version
// is taken for that of the package. nil: none is there in it.
func (p provisioner) untold(ctx context.Context, undecided []localMatch, options []*option, err error) *messages.ProvisionReport {
	away := registry.Away(err)
	if err != nil && !away {
		return nil
	}
	var same *localMatch
	for i := range undecided {
		m := &undecided[i]
		told := !away && slices.ContainsFunc(options, func(o *option) bool { return o.candidate.Server == m.of.Server })
		if told || !install.SameVersion(registry.Kind(m.of.Kind), m.version, m.name.Version) {
			continue
		}
		same = p.better(same, m)
	}
	if same == nil {
		return nil
	}
	r := p.there(ctx, same)
	r.Notes = append(r.Notes, fmt.Sprintf("No registry said which package version %s of %s is; the one that is there, %s, has that version.", same.name.Version, same.name.Name, same.of))
	return r
}

// there reports a server that is there.
func (p provisioner) there(ctx context.Context, m *localMatch) *messages.ProvisionReport {
	if !m.usable() {
		return unusableReport(m)
	}
	r, _ := p.localServer(ctx, m)
	return r
}

// installed says whether it is what was installed.
func (o *option) installed(src *provisioned.Source) bool {
	if o.candidate.Server != src.Server || string(o.candidate.Kind) != src.Kind || o.candidate.Package != src.Package {
		return false
	}
	if pkg := o.pkg(); o.candidate.Kind == registry.OCI && pkg != nil && pkg.Version == "" {
		return true // the name of the image has the tag
	}
	return install.SameVersion(o.candidate.Kind, cmp.Or(o.shown.Version, o.version), src.Version)
}

// localMatches are the configured servers that an intent means: by a package
// that they run, then by their own name.
func (p provisioner) localMatches(intent string, packages []trust.NamedPackage) (list []localMatch) {
	cfg := p.e.Config()
	ran := p.provisionedNames()
	for _, n := range packages {
		for _, spec := range cfg.Servers {
			if version, of, runs := runsPackage(spec, ran[spec.Name], n.Name); runs {
				list = append(list, localMatch{spec, "a configured server runs " + n.Name, localPackage, n, version, of})
			}
		}
	}
	for _, spec := range cfg.Servers {
		if why := trust.NamedLocally(intent, spec.Name); why != "" {
			list = append(list, localMatch{spec: spec, why: why, confidence: localName})
		}
	}
	return list
}

// runsPackage says whether a server runs a package, and in which version. The name may
// be that of a server in a registry, whose versions are not those of its package: then
// of is what was installed of it, else nil.
func runsPackage(spec *messages.ServerSpec, locked *provisioned.Source, name string) (version string, of *provisioned.Source, runs bool) {
	if spec.Provisioned != nil {
		switch {
		case locked == nil:
			return "", nil, false
		case locked.Package == name:
			return locked.Version, nil, true
		case locked.Server == name:
			return locked.Version, locked, true
		}
		return "", nil, false
	}
	for _, arg := range spec.Args {
		if pkg, version := packageIn(arg); pkg == name {
			return version, nil, true
		}
	}
	return "", nil, false
}

// unusableReport reports a server that is there and cannot be called.
func unusableReport(m *localMatch) *messages.ProvisionReport {
	r := &messages.ProvisionReport{Decision: messages.DecisionDenied, Source: sourceLocal, Confidence: m.confidence, Package: m.pkg(), Version: m.version}
	e := &Error{Code: messages.CodeProvisionDenied, Server: m.spec.Name}
	if m.spec.Disabled {
		e.Message = fmt.Sprintf("%s, but it is turned off in the configuration (%s), so it cannot be called", means(m), m.spec.Source)
		e.Hint = "The user can turn it on " + m.spec.TurnOn() + "."
	} else {
		e.Message = fmt.Sprintf("%s, but it cannot be started: %s", means(m), m.spec.Err.Message)
		e.Hint = m.spec.Err.Hint
	}
	r.Reason, r.Err = e.Message, e
	return r
}

// means says which server is meant.
func means(m *localMatch) string {
	if m.name.Name != "" {
		return fmt.Sprintf("the server %q runs %s", m.spec.Name, m.name.Name)
	}
	return fmt.Sprintf("the server %q is configured", m.spec.Name)
}

// otherVersion reports a server that is there in another version than the one
// that is asked for. Where nobody asked to install, that is only noted.
func (p provisioner) otherVersion(ask *messages.Provision, m *localMatch) (*messages.ProvisionReport, []string) {
	has := "in version " + m.version
	switch {
	case m.of != nil:
		has = "as " + m.of.String()
	case m.version == "":
		has = "in whatever version is newest when it starts"
	}
	wanted := m.name.Name + "@" + m.name.Version
	said := fmt.Sprintf("%s %s, and not in version %s", means(m), has, m.name.Version)
	how := fmt.Sprintf("To change it, the user changes the version in its entry (%s).", m.spec.Source)
	if m.spec.Provisioned != nil {
		how = fmt.Sprintf("To change it, the user runs `metamcp remove %s` and then `metamcp provision %s`, which installs that version; to use the one that is there, ask without a version.", messages.ShellWord(m.spec.Name), messages.ShellWord(wanted))
	}
	if ask.Consent == messages.ConsentNone {
		return nil, []string{"Note that " + said + ". " + how}
	}
	return &messages.ProvisionReport{
		Decision: messages.DecisionDenied, Source: sourceLocal, Confidence: m.confidence, Package: m.pkg(), Version: m.version, Reason: said,
		Err: &Error{Code: messages.CodeProvisionDenied, Server: m.spec.Name, Message: wanted + " was not installed: " + said, Hint: how},
	}, nil
}

// provisionedNames say where the servers are from that metamcp installed. A lock
// file that cannot be used is told of elsewhere.
func (p provisioner) provisionedNames() map[string]*provisioned.Source {
	if p.e.Config().Settings.StateDir == "" {
		return nil
	}
	list, err := p.lock().List()
	if err != nil {
		return nil
	}
	names := make(map[string]*provisioned.Source, len(list))
	for i := range list {
		names[list[i].Name] = &list[i].Source
	}
	return names
}

func (p provisioner) lock() *provisioned.Lock {
	return provisioned.Open(p.e.Config().Settings.StateDir)
}

// packageIn is the package that an argument of npx, uvx and the like names, and
// its version; "": it says none.
func packageIn(arg string) (name, version string) {
	for _, kind := range []string{"npm:", "--package=", "--from="} {
		arg = strings.TrimPrefix(arg, kind)
	}
	if name, version, ok := strings.Cut(arg, "=="); ok {
		return name, version
	}
	if i := strings.LastIndexByte(arg, '@'); i > 0 {
		return arg[:i], arg[i+1:]
	}
	return arg, ""
}

// localServer reports a configured server, with its tools where they can be had;
// works says that they could, and that it takes calls.
func (p provisioner) localServer(ctx context.Context, m *localMatch) (r *messages.ProvisionReport, works bool) {
	r = &messages.ProvisionReport{Decision: messages.DecisionLocal, Source: sourceLocal, Confidence: m.confidence, Server: m.spec.Name, Reason: m.why}
	starting, cancel := context.WithTimeout(ctx, p.e.patience(m.spec.Name, true))
	defer cancel()
	if _, err := p.e.known(starting, m.spec.Name); err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("The server %q did not list its tools: %s", m.spec.Name, p.e.scrubbed(asError(err)).Message))
		if note := p.e.awayNote(m.spec.Name); note != nil {
			r.Notes = append(r.Notes, note.brief)
		}
		return r, false
	}
	why, _ := p.e.away(m.spec.Name)
	return r, why == nil
}

// callableFirst puts the tools of which is surest that they are meant first, and those
// of servers that take no calls for now behind others that fit at least half as well.
func (p provisioner) callableFirst(tools []messages.ProvisionTool) {
	sure := func(t messages.ProvisionTool) float64 {
		if why, _ := p.e.away(t.Server); why != nil {
			return t.Confidence / 2
		}
		return t.Confidence
	}
	slices.SortStableFunc(tools, func(a, b messages.ProvisionTool) int { return cmp.Compare(sure(b), sure(a)) })
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
			p.callableFirst(r.Local)
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
