package metamcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/metamcp/metamcp/integration/gallery"
	"github.com/metamcp/metamcp/integration/install"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
	"github.com/metamcp/metamcp/messages"
)

// Where an option is from that no registry told of.
const (
	fromGallery registry.Source = "gallery"
	fromName    registry.Source = "name" // the intent's: the trust file trusts or refuses it
)

const (
	// weakShown is how many servers are shown that share but a word or so, where
	// nothing fits better.
	weakShown = 3
	// surely is the confidence from which on nobody is told that a server may not
	// be the right one.
	surely = localThreshold
)

// finder collects the servers that there are for one request.
type finder struct {
	p     provisioner
	ask   *messages.Provision
	named []trust.NamedPackage

	policy  *trust.Policy
	client  *registry.Client
	options []*option // best first, after find
	weak    []*option // below [leastConfidence]
	byKey   map[string]*option
	leftOut int
	source  registry.Source // that answered
	notes   []string
	absent  map[string]*install.Error // names that the trust file lets be had, and that no package manager has
}

// find asks the registry, and looks into the lists that come with metamcp.
func (f *finder) find(ctx context.Context) error {
	st := &f.p.e.Config().Settings
	f.policy = trust.Load(st.TrustFile)
	if f.policy.Note != "" {
		f.notes = append(f.notes, f.policy.Note)
	}
	var err error
	if f.client, err = NewRegistryClient(st); err != nil {
		return err
	}
	defer f.client.Close()
	if len(f.named) == 0 {
		if text := f.p.searchText(f.ask.Intent); text != "" {
			if err := f.search(ctx, text, false); err != nil {
				return err
			}
		}
		for _, hit := range gallerySearch(f.ask.Intent) {
			f.considerGallery(hit.entry, hit.confidence)
		}
	}
	asked := f.asked()
	for _, n := range asked {
		if err := f.findNamed(ctx, n); err != nil {
			return err
		}
	}
	f.byNames(ctx, f.unknown())
	var left []string
	for _, n := range f.named[len(asked):] {
		if !f.knows(n.Name) {
			left = append(left, n.Name)
		}
	}
	if len(left) > 0 {
		f.notes = append(f.notes, fmt.Sprintf("The intent names more than %d servers; not looked for: %s. Ask for these by themselves.", namesAsked, strings.Join(left, ", ")))
	}
	if f.source == registry.FromBuiltin {
		f.notes = append(f.notes, "The gallery that comes with metamcp was searched too.")
	}
	f.order()
	return nil
}

// asked are the names that are looked for.
func (f *finder) asked() []trust.NamedPackage { return f.named[:min(len(f.named), namesAsked)] }

// findNamed looks for what an intent names.
func (f *finder) findNamed(ctx context.Context, n trust.NamedPackage) error {
	if len(n.Name) <= longestSearch {
		if err := f.search(ctx, n.Name, false); err != nil {
			return err
		}
		// A server may have a package of another name than its own.
		if text := trust.Telling(n.Name); !f.knows(n.Name) && text != "" && text != n.Name {
			if err := f.search(ctx, text, true); err != nil {
				return err
			}
		}
	}
	// A stranger's description of a well-known package must not keep it away.
	for _, s := range registry.Builtin() {
		if s.Name == n.Name {
			f.consider(&s, registry.FromBuiltin, 0)
		}
	}
	if e := galleryPackage(n); e != nil {
		f.considerGallery(e, 0)
	}
	return f.inVersion(ctx, n)
}

// search asks the registry for a text; onlyNamed leaves out what the intent does
// not name.
func (f *finder) search(ctx context.Context, text string, onlyNamed bool) error {
	a, err := f.client.Search(ctx, registry.Query{Search: text, Limit: candidatesRead})
	if err != nil {
		return err
	}
	for _, note := range a.Notes {
		if !slices.Contains(f.notes, note) {
			f.notes = append(f.notes, note)
		}
	}
	if f.source = a.Source; a.Source == "" {
		f.source = registry.FromRegistry
	}
	for i := range a.Servers {
		s, source := &a.Servers[i], a.Source
		if s.IsBuiltin() {
			source = registry.FromBuiltin
		}
		if onlyNamed && !f.names(s) {
			continue
		}
		f.consider(s, source, 0)
	}
	return nil
}

// names says whether the intent names a server or a package of it.
func (f *finder) names(s *registry.Server) bool {
	return slices.ContainsFunc(trust.Candidates(s), func(c trust.Candidate) bool {
		return slices.ContainsFunc(f.named, func(n trust.NamedPackage) bool { return n.Name == c.Server || n.Name == c.Package })
	})
}

// knows says whether there is a server that goes by a name of the intent.
func (f *finder) knows(name string) bool {
	return slices.ContainsFunc(f.options, func(o *option) bool {
		return o.confidence.Exact == name || o.confidence.Exact != "" && (o.candidate.Package == name || o.candidate.Server == name)
	})
}

// unknown are the names that were looked for and that nobody knows.
func (f *finder) unknown() (list []trust.NamedPackage) {
	for _, n := range f.asked() {
		if !f.knows(n.Name) {
			list = append(list, n)
		}
	}
	return list
}

// consider judges the ways to get one server. least is a confidence that it has
// in any case, by words alone.
func (f *finder) consider(server *registry.Server, source registry.Source, least float64) {
	ways := len(server.Packages) + len(server.Remotes)
	server, signs := withoutOrders(server, func(name string) bool {
		return slices.ContainsFunc(f.named, func(n trust.NamedPackage) bool { return n.Name == name })
	})
	if len(server.Packages)+len(server.Remotes) < ways && !slices.Contains(f.notes, ordersLeftOut) {
		f.notes = append(f.notes, ordersLeftOut)
	}
	for _, c := range trust.Candidates(server) {
		o := &option{server: *server, candidate: c, source: source, suspicious: signs}
		o.confidence = trust.Measure(f.ask.Intent, f.ask.Context, &c, server.Title+" "+server.Description)
		if o.confidence.Value < least {
			o.confidence = trust.Confidence{Value: least, Why: "the intent does not name it exactly"}
		}
		for _, n := range f.named {
			switch {
			case n.Name == c.Package && (!n.Explicit || n.Kind == c.Kind):
				o.version = n.Version
			case n.Name == c.Server && n.Version != "" && n.Version == server.Version && o.pkg() != nil:
				o.version = o.pkg().Version // also where its description does not count
			}
		}
		f.add(o)
	}
}

func (f *finder) considerGallery(e *gallery.Entry, least float64) {
	f.consider(galleryServer(e), fromGallery, least)
	if o := f.byKey[string(e.Kind)+":"+e.Package]; o != nil && o.source == fromGallery && e.Program != e.Package {
		o.program = e.Program
	}
}

// add takes an option in where it is worth it.
func (f *finder) add(o *option) {
	o.decision = f.policy.Decide(&o.candidate, o.confidence, settingOf(f.ask.Consent))
	if o.key() != f.ask.Choice && (o.confidence.Value < leastConfidence || o.never() && o.confidence.Exact == "") {
		if !o.never() && o.confidence.Value > 0 && !slices.ContainsFunc(f.weak, func(w *option) bool { return w.key() == o.key() }) {
			f.weak = append(f.weak, o)
		}
		f.leftOut++
		return
	}
	if other := f.byKey[o.key()]; other == nil {
		f.byKey[o.key()] = o
		f.options = append(f.options, o)
	} else if better(o, other) < 0 {
		*other = *o
	}
}

// byNames judges names that nobody tells of. Package managers are asked about all of
// them at once: one that hangs takes its time once.
func (f *finder) byNames(ctx context.Context, names []trust.NamedPackage) {
	found, gone := make([]*option, len(names)), make([]*install.Error, len(names))
	var asking sync.WaitGroup
	for i, n := range names {
		asking.Go(func() { found[i], gone[i] = f.byName(ctx, n) })
	}
	asking.Wait()
	for i, n := range names {
		if gone[i] != nil {
			f.absent[n.Name] = gone[i]
		}
		if found[i] != nil && !f.knows(n.Name) { // the same name may be there in two ways
			f.add(found[i])
		}
	}
}

// byName judges a name that nobody tells of by what the trust file says: what it
// trusts its package manager may have, unless that says that there is no such package,
// which is returned as gone, and what is blocked or imitates another is told as such.
// Others may be judged at the same time.
func (f *finder) byName(ctx context.Context, n trust.NamedPackage) (found *option, gone *install.Error) {
	kinds := []registry.Kind{n.Kind}
	if n.Kind == registry.NPM && !n.Explicit && n.Name[0] != '@' {
		kinds = append(kinds, registry.PyPI)
	}
	for _, kind := range kinds {
		server := &registry.Server{Name: n.Name, Status: registry.Active, Packages: []registry.Package{{
			Kind: kind, Identifier: n.Name, Transport: registry.Transport{Type: "stdio"},
		}}}
		o := &option{server: *server, candidate: trust.Candidate{Kind: kind, Package: n.Name}, source: fromName, version: n.Version}
		if kind == trust.ServerName {
			o.server.Packages = nil
		}
		o.confidence = trust.Measure(f.ask.Intent, f.ask.Context, &o.candidate, "")
		o.decision = f.policy.Decide(&o.candidate, o.confidence, settingOf(f.ask.Consent))
		switch {
		case o.never():
			if found == nil {
				found = o
			}
		case o.decision.Trusted && (kind == registry.NPM || kind == registry.PyPI):
			lacks := f.lacks(ctx, o)
			if lacks == nil {
				return o, gone
			}
			gone = lacks
		}
	}
	return found, gone
}

// lacks returns what a package manager says that has no such package; nil: it may have it.
func (f *finder) lacks(ctx context.Context, o *option) *install.Error {
	if f.ask.Choice != "" {
		return nil // somebody saw it already
	}
	f.p.resolve(ctx, f.ask, o)
	if e := (*install.Error)(nil); errors.As(o.resolved.err, &e) && e.Absent {
		return e
	}
	return nil
}

// inVersion replaces a registry's description by that of the version that the
// intent asks for.
func (f *finder) inVersion(ctx context.Context, n trust.NamedPackage) error {
	if n.Version == "" || n.Kind != trust.ServerName {
		return nil
	}
	i := slices.IndexFunc(f.options, func(o *option) bool { return o.candidate.Server == n.Name && o.server.Version != n.Version })
	if i < 0 || f.options[i].never() {
		return nil
	}
	newest := f.options[i].server.Version
	server, note, err := f.client.Version(ctx, n.Name, n.Version)
	if err != nil {
		if e := (*registry.Error)(nil); errors.As(err, &e) && e.Reason == registry.NotFound {
			return &registry.Error{Reason: registry.NotFound, Message: e.Message + "; the newest is " + newest, Hint: "Name it without a version for the newest, or with one that is there.", Cause: err}
		}
		return err
	}
	if note != "" {
		f.notes = append(f.notes, note)
	}
	source := f.options[i].source
	f.options = slices.DeleteFunc(f.options, func(o *option) bool {
		gone := o.candidate.Server == n.Name
		if gone {
			delete(f.byKey, o.key())
		}
		return gone
	})
	f.consider(server, source, 0)
	return nil
}

// order puts the best first, and writes down what is told of those that are
// shown.
func (f *finder) order() {
	f.options = ranked(f.options)
	if len(f.options) == 0 && len(f.weak) > 0 {
		slices.SortStableFunc(f.weak, better)
		f.options = f.weak[:min(len(f.weak), weakShown)]
		f.notes = append(f.notes, fmt.Sprintf("The registry has %s that share a word or so with the intent, and none that surely fits.", counted(f.leftOut, "server", "servers")))
	}
	if len(f.options) > 0 && len(f.named) == 0 && f.options[0].confidence.Value < surely {
		f.notes = append(f.notes, "These are suggestions: none of them surely does what is needed. Read what they say of themselves.")
	}
	for _, o := range f.options[:min(len(f.options), optionsShown)] {
		f.p.show(o, f.ask)
	}
}

// ranked sorts options, the best first, and returns those to tell of.
func ranked(options []*option) []*option {
	slices.SortStableFunc(options, better)
	exact := func(o *option) bool { return o.confidence.Exact != "" }
	if refused := slices.DeleteFunc(slices.Clone(options), func(o *option) bool { return !exact(o) }); len(refused) > 0 && !slices.ContainsFunc(refused, func(o *option) bool { return !o.never() }) {
		// What is named must not be had: then that is the answer, and not another
		// one that looks like it.
		return refused
	}
	return options
}

// better orders options: what may be installed first, then what is named, what
// somebody still maintains, by confidence and trust, and what never may be last.
func better(a, b *option) int {
	rank := func(o *option) float64 {
		value := o.confidence.Value
		switch {
		case o.decision.Allowed:
			return 10
		case o.never():
			return -10
		case o.decision.Trusted:
			value += 0.001
		}
		if o.deprecated() && o.confidence.Exact == "" {
			value--
		}
		return value
	}
	if c := cmp.Compare(rank(b), rank(a)); c != 0 {
		return c
	}
	// Trust in the description is worth more than trust in the package, and metamcp's
	// own description more than a stranger's.
	via := func(o *option) int {
		switch {
		case o.decision.Via == trust.ServerName:
			return 2
		case o.candidate.Server == "":
			return 1
		}
		return 0
	}
	return cmp.Compare(via(b), via(a))
}
