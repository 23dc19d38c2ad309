package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/metamcp/metamcp"
	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/gallery"
	"github.com/metamcp/metamcp/integration/install"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
	"github.com/metamcp/metamcp/messages"
)

// byName is a server of the gallery, or a package: of npm, or of the kind that
// stands before its name.
func (f *addFlags) byName(ctx context.Context, c *common, name string, env map[string]string) (*addition, error) {
	kind, plain := packageKind(name)
	e := gallery.Find(plain)
	if e != nil && plain != name && e.Kind != kind {
		e = nil // the gallery's is another one
	}
	if e != nil {
		kind = e.Kind
	}
	if f.version != "" {
		if err := registry.ExactVersion(registry.Kind(kind), plain, f.version); kind != gallery.OCI && err != nil {
			return nil, registryError(err)
		}
		if kind == gallery.OCI && imageVersion(plain) != "" {
			return nil, usageError{fmt.Errorf("the image %s names its version, and --version another one; leave out one of the two", plain)}
		}
	}
	from := "gallery"
	var notes []string
	if e == nil {
		from = string(kind)
		note, err := f.checkPackage(c, kind, plain)
		if err != nil {
			return nil, err
		}
		notes = append(notes, note...)
		e = &gallery.Entry{Kind: kind, Package: plain}
	} else if err := f.refuseCandidate(c, &trust.Candidate{Kind: registry.Kind(kind), Package: e.Package}); err != nil {
		return nil, err
	}
	a := &addition{Name: e.Name, From: from, Kind: string(e.Kind), Package: e.Package, Version: f.version, Notes: notes}
	if f.name != "" {
		a.Name = f.name
	}
	if e.Kind == gallery.NPM {
		plan, err := c.resolve(ctx, &registry.Server{Packages: []registry.Package{{
			Kind: registry.NPM, Identifier: e.Package, Version: f.version, Transport: registry.Transport{Type: "stdio"},
		}}}, trust.Candidate{Kind: registry.NPM, Package: e.Package}, "", nil)
		if err != nil {
			return nil, err
		}
		a.Version, a.Notes = plan.Source.Version, append(a.Notes, plan.Notes...)
		if a.Name == "" {
			a.Name = suggestedName(plan)
		}
	} else if note := unpinned(e); a.Version == "" && note != "" {
		a.Notes = append(a.Notes, note)
	}
	if a.Name == "" {
		a.Name = strings.ReplaceAll(install.SuggestName(registry.Kind(kind), e.Package), ".", "-")
	}
	if e.Note != "" {
		a.Notes = append(a.Notes, e.Note)
	}
	given, err := e.Arguments(f.args)
	if err != nil {
		return nil, usageError{err}
	}
	n := &clients.NewServer{Name: a.Name, Env: e.Environment(env), Cwd: f.cwd, Description: e.Description}
	n.Command, n.Args = e.Start(a.Version, given, slices.Sorted(maps.Keys(n.Env)))
	a.server = n
	for _, v := range e.Env {
		if v.Value == "" {
			a.Needs = append(a.Needs, additionNeed{v.Name, v.Description, v.Required, v.Secret, isSet(n.Env, v.Name)})
		}
	}
	for _, need := range unsetNeeds(n) {
		if !slices.ContainsFunc(a.Needs, func(o additionNeed) bool { return o.Name == need.Name }) {
			a.Needs = append(a.Needs, need)
		}
	}
	return a, nil
}

// unpinned says which version of a package runs whose entry names none, by what starts
// it; "": its name says the version.
func unpinned(e *gallery.Entry) string {
	switch version := imageVersion(e.Package); {
	case e.Kind == gallery.PyPI:
		return "it is not pinned: uvx takes the newest version at the first start, and that one for as long as it is in its cache; --version pins it"
	case e.Kind != gallery.OCI, version != "" && version != "latest":
		return ""
	case version == "latest":
		return "it is not pinned: docker takes the image " + e.Package + " that is on this machine, and downloads it only where there is none; a tag of a version pins it"
	}
	return "it is not pinned: docker takes the image " + e.Package + ":latest that is on this machine, and downloads it only where there is none; --version pins it"
}

// imageVersion is the digest of an image's name, else its tag; "": it has neither.
func imageVersion(image string) string {
	if _, digest, ok := strings.Cut(image, "@"); ok {
		return digest
	}
	_, tag, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":") // a colon before that is of a port
	return tag
}

// packageKind takes the kind from before a name: pypi:mcp-server-git.
func packageKind(name string) (kind gallery.Kind, plain string) {
	for _, k := range []gallery.Kind{gallery.NPM, gallery.PyPI, gallery.OCI} {
		if rest, ok := strings.CutPrefix(name, string(k)+":"); ok {
			return k, rest
		}
	}
	return gallery.NPM, name
}

// checkPackage refuses names that are no package of an MCP server, as far as the
// name tells: npm has millions of packages, and each would be run. That one
// imitates another, or is blocked, is said before anything else. The notes say
// that nobody vouches for it.
func (f *addFlags) checkPackage(c *common, kind gallery.Kind, name string) (notes []string, err error) {
	candidate := &trust.Candidate{Kind: registry.Kind(kind), Package: name}
	near := ""
	if like := gallery.Like(name); len(like) > 0 {
		near = "the gallery has " + strings.Join(like, ", ") + "; "
	}
	looksServer := strings.Contains(strings.ToLower(name), "mcp") || strings.HasPrefix(strings.ToLower(name), "@modelcontextprotocol/")
	err = registry.CheckPackage(registry.Kind(kind), name, "")
	if f.meant != "" && (err != nil || !looksServer) {
		return nil, usageError{fmt.Errorf("%q is not in the gallery; %s", name, f.meant)}
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("%q is not in the gallery, and no %s package: %w; %smetamcp add --list shows the gallery, and a command follows --", name, kind, err, near)}
	}
	if err := f.refuseCandidate(c, candidate); err != nil {
		return nil, err
	}
	if !looksServer && !f.force {
		if cfg, err := config.Load(c.sources()); err == nil && cfg.Server(name) != nil {
			return nil, fmt.Errorf("%s is in the configuration already (%s); metamcp test %s tries it, and a package of that name is added with --force and another --name", name, cfg.Server(name).Source, messages.ShellWord(name))
		}
		return nil, fmt.Errorf("%s is not in the gallery, and nothing in its name says that the %s package is an MCP server; %smetamcp registry search %s looks further, and --force adds the package", name, kind, near, messages.ShellWord(name))
	}
	policy, err := c.policy()
	if err != nil {
		return nil, err
	}
	if d := policy.Decide(candidate, trust.Confidence{}, trust.NotAsked); !d.Trusted {
		note := fmt.Sprintf("neither the gallery nor the trust file knows the %s package %s: whoever published it decides what runs here; look at it first", kind, name)
		if like := gallery.Find(alikeName(name)); like != nil {
			note += fmt.Sprintf(" (the gallery's %s is %s)", like.Name, like.Package)
		}
		notes = append(notes, note)
	}
	return notes, nil
}

// alikeName is the short name that the gallery would have for a package.
func alikeName(name string) string { return strings.ReplaceAll(trust.Telling(name), " ", "-") }

// policy is what the trust file says; one that is not there is not made.
func (c *common) policy() (*trust.Policy, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(settings.TrustFile); settings.TrustFile != "" && !errors.Is(err, fs.ErrNotExist) { // loading it would make it
		return trust.Load(settings.TrustFile), nil
	}
	return trust.Default(), nil
}

// refuseCandidate refuses what somebody blocked, or what imitates another.
func (f *addFlags) refuseCandidate(c *common, candidate *trust.Candidate) error {
	policy, err := c.policy()
	if err != nil {
		return err
	}
	for _, check := range policy.Decide(candidate, trust.Confidence{}, trust.NotAsked).Checks {
		switch {
		case check.Passed:
		case check.Gate == trust.GateBlocked:
			return fmt.Errorf("%s was not added: %s; metamcp trust remove --block takes that back", candidate.Package, check.Reason)
		case check.Gate == trust.GateImitation && !f.force:
			return fmt.Errorf("%s was not added: %s; look twice, and use --force where it is meant", candidate.Package, check.Reason)
		}
	}
	return nil
}

// resolve asks the package manager for what would be installed.
func (c *common) resolve(ctx context.Context, s *registry.Server, candidate trust.Candidate, via registry.Kind, values map[string]string) (*install.Plan, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	return install.Resolve(ctx, install.Options{StateDir: settings.StateDir, Values: values}, s, candidate, via)
}

// settings are those of the configuration; of one that is not there yet, those
// of flags and variables.
func (c *common) settings() (*config.Settings, error) {
	cfg, err := config.Load(c.sources())
	if err != nil {
		missing := func(file string) bool {
			_, err := os.Stat(file)
			return errors.Is(err, fs.ErrNotExist)
		}
		if !slices.ContainsFunc(c.configFiles(), missing) {
			return nil, err
		}
		var wrong error
		if cfg, wrong = c.withoutFiles(); wrong != nil {
			return nil, err
		}
	}
	return &cfg.Settings, nil
}

// suggestedName is what a planned server is called, as a configuration has it.
func suggestedName(p *install.Plan) string { return strings.ReplaceAll(p.Name, ".", "-") }

// fromRegistry is a server of the MCP registry, in the first way to get it that
// can be had here. Its description is not taken over: it is text of somebody
// whom nobody knows, and a model would read it.
func (f *addFlags) fromRegistry(ctx context.Context, c *common, env map[string]string) (*addition, error) {
	settings, err := c.settings()
	if err != nil {
		return nil, err
	}
	s, note, err := f.registered(ctx, settings)
	if err != nil {
		return nil, err
	}
	a := &addition{From: "registry"}
	if note != "" {
		a.Notes = append(a.Notes, note)
	}
	if s.Status == registry.Deleted {
		err := s.Name + " was deleted from the registry and must not be installed"
		if s.StatusMessage != "" {
			err += ": " + printable(s.StatusMessage)
		}
		return nil, errors.New(err)
	}
	if s.Status == registry.Deprecated {
		a.Notes = append(a.Notes, strings.TrimSuffix("the registry calls it deprecated: "+s.StatusMessage, ": "))
	}
	values := maps.Clone(env)
	named, err := pairs("--arg", f.args, nil)
	if err != nil {
		return nil, err
	}
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, named)
	plan, err := f.firstWay(ctx, c, s, values)
	if err != nil {
		return nil, err
	}
	for _, need := range plan.Missing {
		if need.Place == provisioned.InArguments || need.Place == provisioned.InURL {
			return nil, usageError{fmt.Errorf("%s needs %s: give it with --arg %s", s.Name, strings.TrimSuffix(need.Name+", "+need.Description, ", "), messages.ShellWord(need.Name+"=VALUE"))}
		}
	}
	a.Name = suggestedName(plan)
	if f.name != "" {
		a.Name = f.name
	}
	a.Kind, a.Package, a.Version = plan.Source.Kind, plan.Source.Package, plan.Source.Version
	a.Notes = append(a.Notes, plan.Notes...)
	entry := plan.Entry
	a.server = &clients.NewServer{
		Name: a.Name, Command: entry.Command, Args: entry.Args, Env: entry.Env, Cwd: entry.Cwd, URL: entry.URL, Type: entry.Type, Headers: entry.Headers,
	}
	if f.cwd != "" {
		a.server.Cwd = f.cwd
	}
	if entry.URL != "" && entry.Type == "" {
		a.server.Type = "http"
	}
	for _, need := range plan.Needs {
		a.Needs = append(a.Needs, additionNeed{need.Name, need.Description, need.Required, need.Secret, isSet(entry.Env, need.Name) || need.Place != provisioned.InEnvironment})
	}
	return a, nil
}

// registered asks for the server that is meant. The built-in list, which search
// shows as well, has those that are called as their packages are.
func (f *addFlags) registered(ctx context.Context, settings *config.Settings) (s *registry.Server, note string, err error) {
	for _, b := range registry.Builtin() {
		if b.Name != f.registry {
			continue
		}
		if f.version != "" {
			b.Packages = slices.Clone(b.Packages)
			for i := range b.Packages {
				if err := registry.ExactVersion(b.Packages[i].Kind, b.Name, f.version); err != nil {
					return nil, "", registryError(err)
				}
				b.Packages[i].Version = f.version
			}
		}
		return &b, "it is from the built-in list", nil
	}
	if _, plain := packageKind(f.registry); registry.CheckPackage(registry.NPM, plain, "") == nil && (plain[0] == '@' || !strings.Contains(plain, "/")) {
		return nil, "", usageError{fmt.Errorf("%s is the name of a package, and those in a registry look like io.github.user/weather; metamcp add %s adds the package", f.registry, messages.ShellWord(f.registry))}
	}
	client, err := metamcp.NewRegistryClient(settings)
	if err != nil {
		return nil, "", registryError(err)
	}
	defer client.Close()
	s, note, err = client.Version(ctx, f.registry, f.version)
	if err != nil {
		return nil, "", registryError(err)
	}
	return s, note, nil
}

// firstWay resolves the first way to get a server that can be resolved here.
func (f *addFlags) firstWay(ctx context.Context, c *common, s *registry.Server, values map[string]string) (*install.Plan, error) {
	list := trust.Candidates(s)
	if len(list) == 0 {
		return nil, fmt.Errorf("the registry names no package or address of %s that metamcp could start", s.Name)
	}
	var failed []error
	for _, candidate := range list {
		if err := f.refuseCandidate(c, &candidate); err != nil {
			return nil, err
		}
		plan, err := c.resolve(ctx, s, candidate, trust.ServerName, values)
		if err == nil && plan.Entry.Command == "" && plan.Entry.URL == "" {
			err = fmt.Errorf("%s cannot be added in this way (%s)", s.Name, candidate.Kind)
		}
		if err == nil {
			return plan, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}
