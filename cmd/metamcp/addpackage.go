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
)

// byName is a server of the gallery, or of npm.
func (f *addFlags) byName(ctx context.Context, c *common, name string, env map[string]string) (*addition, error) {
	e := gallery.Find(name)
	from := "gallery"
	if e == nil {
		if err := f.checkPackage(c, name); err != nil {
			return nil, err
		}
		from = "npm"
		e = &gallery.Entry{Kind: gallery.NPM, Package: name}
	}
	a := &addition{Name: e.Name, From: from, Kind: string(e.Kind), Package: e.Package, Version: f.version}
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
		a.Version, a.Notes = plan.Source.Version, plan.Notes
		if a.Name == "" {
			a.Name = suggestedName(plan)
		}
	} else if a.Version == "" {
		a.Notes = append(a.Notes, "it is not pinned: the newest version is taken at each start; --version pins it")
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

// checkPackage refuses names that are no npm package of an MCP server, as far
// as the name tells: npm has millions of packages, and each would be run.
func (f *addFlags) checkPackage(c *common, name string) error {
	near := ""
	if like := gallery.Like(name); len(like) > 0 {
		near = "the gallery has " + strings.Join(like, ", ") + "; "
	}
	if err := registry.CheckPackage(registry.NPM, name, f.version); err != nil {
		return usageError{fmt.Errorf("%q is not in the gallery, and no npm package: %w; %smetamcp add --list shows the gallery, and a command follows --", name, err, near)}
	}
	if lower := strings.ToLower(name); !strings.Contains(lower, "mcp") && !strings.HasPrefix(lower, "@modelcontextprotocol/") && !f.force {
		return fmt.Errorf("%s is not in the gallery, and nothing in its name says that the npm package is an MCP server; %smetamcp registry search %s looks further, and --force adds the package", name, near, shellWord(name))
	}
	return f.refuseCandidate(c, &trust.Candidate{Kind: registry.NPM, Package: name})
}

// refuseCandidate refuses what somebody blocked, or what imitates another.
func (f *addFlags) refuseCandidate(c *common, candidate *trust.Candidate) error {
	settings, err := c.settings()
	if err != nil {
		return err
	}
	policy := trust.Default()
	if _, err := os.Stat(settings.TrustFile); settings.TrustFile != "" && !errors.Is(err, fs.ErrNotExist) { // loading it would make it
		policy = trust.Load(settings.TrustFile)
	}
	d := policy.Decide(candidate, trust.Confidence{}, trust.NotAsked)
	if d.Gate == trust.GateBlocked {
		return fmt.Errorf("%s was not added: %s; metamcp trust remove --block takes that back", candidate.Package, d.Reason())
	}
	if d.Gate == trust.GateImitation && !f.force {
		return fmt.Errorf("%s was not added: %s; look twice, and use --force where it is meant", candidate.Package, d.Reason())
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
		if cfg = c.withoutFiles(); cfg == nil {
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
	client, err := metamcp.NewRegistry(settings)
	if err != nil {
		return nil, registryError(err)
	}
	defer client.Close()
	s, note, err := client.Version(ctx, f.registry, f.version)
	if err != nil {
		return nil, registryError(err)
	}
	a := &addition{From: "registry"}
	if note != "" {
		a.Notes = append(a.Notes, note)
	}
	if s.Status == registry.Deleted {
		return nil, fmt.Errorf("%s was deleted from the registry and must not be installed: %s", s.Name, printable(s.StatusMessage))
	}
	if s.Status == registry.Deprecated {
		a.Notes = append(a.Notes, strings.TrimSpace("the registry calls it deprecated: "+s.StatusMessage))
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
			return nil, usageError{fmt.Errorf("%s needs %s: give it with --arg %s", s.Name, strings.TrimSuffix(need.Name+", "+need.Description, ", "), shellWord(need.Name+"=VALUE"))}
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
