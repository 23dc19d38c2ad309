package install

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/metamcp/metamcp/integration/child"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
)

// Need is a value that a server wants from whoever uses it.
type Need = provisioned.Need

// Entry is a server as .mcp.json has it.
type Entry = provisioned.Entry

// Options say how servers are installed. StateDir is required.
type Options struct {
	// StateDir is where the lock file and the servers are.
	StateDir string
	// Timeout bounds one installation (3 min), QueryTimeout one question to a
	// package manager (1 min).
	Timeout, QueryTimeout time.Duration
	// Environ is what package managers get and where they are looked for, as
	// KEY=value; nil: the process's.
	Environ []string
	// Guard learns of every process tree; nil: none does.
	Guard child.Guard
	// Values are what the server is given for its needs, by their names, as in a
	// configuration file: ${NAME} stands for a variable. Secrets must be such
	// references; they are never written down.
	Values map[string]string
	// Version is the exact version that is wanted, in the place of what the
	// description says; "": that one, or the newest.
	Version string
	// Scripts lets packages run their install scripts, with all that this user
	// may do.
	Scripts bool
	// MaxBundle bounds a bundle as it is downloaded (256 MiB), MaxUnpacked what is
	// in it (1 GiB).
	MaxBundle, MaxUnpacked int64
	// Progress hears what is done next, in a few words; nil: nobody does. It is
	// called on the goroutine of the caller.
	Progress func(step string)

	// network, in tests, replaces the rules of who may be asked for a bundle.
	network *network
}

const (
	defaultTimeout     = 3 * time.Minute
	defaultQuery       = time.Minute
	defaultMaxBundle   = 256 << 20
	defaultMaxUnpacked = 1 << 30
)

func (o *Options) resolved() (Options, error) {
	r := *o
	if r.StateDir == "" {
		return r, fail(Invalid, "Set stateDir, or HOME.", "there is no state folder, so nothing can be installed")
	}
	if r.Timeout <= 0 {
		r.Timeout = defaultTimeout
	}
	if r.QueryTimeout <= 0 {
		r.QueryTimeout = defaultQuery
	}
	if r.Environ == nil {
		r.Environ = os.Environ()
	}
	if r.MaxBundle <= 0 {
		r.MaxBundle = defaultMaxBundle
	}
	if r.MaxUnpacked <= 0 {
		r.MaxUnpacked = defaultMaxUnpacked
	}
	if r.Progress == nil {
		r.Progress = func(string) {}
	}
	return r, nil
}

// Plan is what would be done to get a server. It is plain data and may be shown
// as JSON; whoever gets one must not change it.
type Plan struct {
	// Name is what the server would be called, where that is free.
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Source is exact: the version is resolved, and the integrity is what the
	// package manager says.
	Source provisioned.Source `json:"source"`
	// Commands are what would be run to install it, as words.
	Commands [][]string `json:"commands,omitempty"`
	// Start is how the installed server would be started. Of packages whose files
	// are not here yet it may be a guess.
	Start []string `json:"start,omitempty"`
	// Entry is what a person may put into .mcp.json instead, at this version.
	Entry Entry `json:"entry"`
	// Needs are all values that the server wants, Missing the required ones that
	// nobody gave: nothing is installed before they are there.
	Needs   []Need `json:"needs,omitempty"`
	Missing []Need `json:"missing,omitempty"`
	// Installable says that Install can do it; Why says why not.
	Installable bool   `json:"installable"`
	Why         string `json:"why,omitempty"`
	// Notes are what else one should know.
	Notes []string `json:"notes,omitempty"`

	refusal Reason // where it is not Installable
	opts    Options
	runner  *child.Runner
	way     way
	inputs  inputs
}

// way is how servers of one kind are installed.
type way interface {
	// install fills the claimed folder and says how the server there is started:
	// command, then arguments, before those of the inputs. Paths are below final.
	install(ctx context.Context, p *Plan, claim *provisioned.Claim) (*started, error)
}

// started is how an installed server is started.
type started struct {
	entry Entry // without what the inputs say
	// complete says that entry has the inputs already.
	complete bool
	notes    []string
}

// Resolve finds out how to get a server in the way of one candidate of
// [trust.Candidates]. via is that of the [trust.Decision]: with
// [trust.ServerName], or for a server that no registry told of, the description
// counts, and its version; otherwise only the name of the package does, in the
// newest version, and what the description says that it needs is only shown.
//
// It asks package managers, which takes a second or so, and changes nothing on
// disk. The error is an *[Error], or that of ctx. A server that cannot be
// installed here, for want of npm, say, has a plan all the same, which is not
// Installable.
func Resolve(ctx context.Context, opts Options, server *registry.Server, candidate trust.Candidate, via registry.Kind) (*Plan, error) {
	o, err := opts.resolved()
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Description: server.Description, Installable: true, opts: o, runner: child.NewRunner(o.Guard),
		Source: provisioned.Source{Server: candidate.Server, Kind: string(candidate.Kind), Package: candidate.Package},
	}
	own := via == trust.ServerName || candidate.Server == ""
	if candidate.Kind == trust.Remote {
		return p.remote(server, candidate.Package, own)
	}
	pkg := packageOf(server, candidate)
	if pkg == nil {
		return nil, fail(Invalid, "", "%s has no package %s:%s", server.Name, candidate.Kind, candidate.Package)
	}
	version := pkg.Version
	if !own {
		version = ""
	}
	if o.Version != "" && o.Version != version {
		if pkg.Kind != registry.NPM && pkg.Kind != registry.PyPI {
			return nil, fail(NotSupported, "Name it without a version, or add it by hand with `metamcp add`.", "a version can be chosen of packages of npm and PyPI only, and %s is one of %s", pkg.Identifier, pkg.Kind)
		}
		version = o.Version
	}
	if err := registry.CheckPackage(pkg.Kind, pkg.Identifier, version); err != nil {
		return nil, fail(Invalid, "", "the package %q cannot be installed: %v", pkg.Identifier, err)
	}
	p.Name = suggestName(pkg.Kind, pkg.Identifier)
	if p.inputs, err = p.readInputs(pkg, own); err != nil {
		return nil, err
	}
	if pkg.Transport.Type != "" && pkg.Transport.Type != "stdio" {
		p.cannot(NotSupported, fmt.Sprintf("it speaks %s and not stdio, and a server that is started for that is not supported", pkg.Transport.Type))
	}
	switch pkg.Kind {
	case registry.NPM:
		err = p.resolveNPM(ctx, pkg, version)
	case registry.PyPI:
		err = p.resolvePyPI(ctx, pkg, version)
	case registry.OCI:
		err = p.resolveImage(ctx, pkg, own)
	case registry.MCPB:
		err = p.resolveBundle(pkg)
	default:
		return nil, fail(NotSupported, "It can be configured by hand.", "packages of %s cannot be installed", pkg.Kind)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Draft is the entry that a person could write for a package, as [Plan.Entry]
// has it, and its name, without asking anybody: of the version that the
// description says. ok is false where that takes more than a description.
func Draft(server *registry.Server, candidate trust.Candidate, own bool) (name string, entry Entry, ok bool) {
	p := &Plan{opts: Options{Progress: func(string) {}}}
	if candidate.Kind == trust.Remote {
		_, err := p.remote(server, candidate.Package, own)
		return p.Name, p.Entry, err == nil
	}
	pkg := packageOf(server, candidate)
	if pkg == nil {
		return "", Entry{}, false
	}
	var err error
	if p.inputs, err = p.readInputs(pkg, own); err != nil {
		return "", Entry{}, false
	}
	version := pkg.Version
	switch pkg.Kind {
	case registry.NPM:
		p.npmEntry(pkg.Identifier, version)
	case registry.PyPI:
		w := &pypiWay{name: pkg.Identifier, version: version}
		p.Entry = w.entry(p)
	case registry.OCI:
		image, tag, digest := splitImage(pkg.Identifier)
		switch {
		case digest != "":
			image += "@" + digest
		case tag != "":
			image += ":" + tag
		case version != "":
			image += ":" + version
		}
		p.Entry = imageEntry(image, &p.inputs, p.inputs.draftArgs, p.inputs.draftEnv)
	default:
		return "", Entry{}, false
	}
	return suggestName(pkg.Kind, pkg.Identifier), p.Entry, true
}

// cannot says why Install will refuse; the first reason stays.
func (p *Plan) cannot(reason Reason, why string) {
	if p.Installable {
		p.Installable, p.Why, p.refusal = false, why, reason
	}
}

// without is cannot for a tool that is not there. A plan is made all the same,
// for whoever installs the tool, or takes the entry elsewhere.
func (p *Plan) without(what, hint string) {
	p.cannot(NoTool, what+" in PATH: "+hint)
	if p.Source.Version == "" {
		p.note("without it nobody tells which version is the newest, so the entry takes whatever that is")
	}
}

func (p *Plan) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// packageOf finds what a candidate is about.
func packageOf(server *registry.Server, c trust.Candidate) *registry.Package {
	for i := range server.Packages {
		if pkg := &server.Packages[i]; pkg.Kind == c.Kind && pkg.Identifier == c.Package {
			return pkg
		}
	}
	return nil
}

// Text is the plan for a person, in some lines.
func (p *Plan) Text() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("server", "%s", p.Name)
	if p.Description != "" {
		line("", "%s", p.Description)
	}
	src := p.Source
	what := src.Kind + ":" + src.Package
	if src.Version != "" {
		what += " " + src.Version
	}
	line("package", "%s", what)
	if src.Integrity != "" {
		line("integrity", "%s", src.Integrity)
	}
	for _, c := range p.Commands {
		line("would run", "%s", strings.Join(c, " "))
	}
	if len(p.Start) > 0 {
		line("starts as", "%s", strings.Join(p.Start, " "))
	}
	for i := range p.Needs {
		line("needs", "%s", describe(&p.Needs[i]))
	}
	for i := range p.Missing {
		line("missing", "%s", p.Missing[i].Name)
	}
	if !p.Installable {
		line("cannot", "be installed: %s", p.Why)
	}
	for _, n := range p.Notes {
		line("note", "%s", n)
	}
	return b.String()
}

// describe is a need in one line.
func describe(n *Need) string {
	var about []string
	if n.Required {
		about = append(about, "required")
	}
	if n.Secret {
		about = append(about, "secret")
	}
	if n.Default != "" && !n.Secret {
		about = append(about, "default "+n.Default)
	}
	if len(n.Choices) > 0 {
		about = append(about, "one of "+strings.Join(n.Choices, ", "))
	}
	text := string(n.Place) + " " + n.Name
	if len(about) > 0 {
		text += " (" + strings.Join(about, "; ") + ")"
	}
	if n.Description != "" {
		text += ": " + n.Description
	}
	return text
}
