package metamcp

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/registry"
	"github.com/metamcp/metamcp/integration/trust"
	"github.com/metamcp/metamcp/messages"
)

const (
	// optionsShown is how many servers are recommended, candidatesRead how many
	// the registry is asked for.
	optionsShown   = 5
	candidatesRead = 50
	// leastConfidence is from where on a server is worth to be shown.
	leastConfidence = 0.2
	// resolveTime bounds what is asked of a package manager for a mere
	// recommendation.
	resolveTime = 20 * time.Second
	// descriptionShown bounds a description, in bytes.
	descriptionShown = 300
)

// registryCache is the name of the registry's cache in the state folder.
const registryCache = "registry-cache.json"

// NewRegistryClient returns a client of the registry that the settings name, with
// its cache and the built-in list behind it; who gets it closes it. The error says
// that the URL is none.
func NewRegistryClient(s *config.Settings) (*registry.Client, error) {
	file := ""
	if s.StateDir != "" {
		file = filepath.Join(s.StateDir, registryCache)
	}
	return registry.New(registry.Options{BaseURL: s.RegistryURL, CacheFile: file})
}

// SearchRegistry searches with a [NewRegistryClient]. The errors are those of
// [registry.Client.Search].
func SearchRegistry(ctx context.Context, s *config.Settings, q registry.Query) (*registry.Answer, error) {
	client, err := NewRegistryClient(s)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return client.Search(ctx, q)
}

// provisioner is what the provisioner's actor works with.
type provisioner struct{ e *Engine }

// option is one way to get one server, judged.
type option struct {
	server     registry.Server
	candidate  trust.Candidate
	confidence trust.Confidence
	decision   trust.Decision
	source     registry.Source
	shown      messages.ProvisionOption
}

func (o *option) key() string { return string(o.candidate.Kind) + ":" + o.candidate.Package }

// pkg is the package as the registry describes it; nil of a remote server.
func (o *option) pkg() *registry.Package {
	for i := range o.server.Packages {
		if pkg := &o.server.Packages[i]; pkg.Kind == o.candidate.Kind && pkg.Identifier == o.candidate.Package {
			return pkg
		}
	}
	return nil
}

// never says that a server must not be installed whoever wants it.
func (o *option) never() bool {
	return slices.ContainsFunc(o.decision.Checks, func(c trust.Check) bool {
		return !c.Passed && (c.Gate == trust.GateStatus || c.Gate == trust.GateBlocked || c.Gate == trust.GateImitation)
	})
}

// Look implements actors.Provisioner.
func (p provisioner) Look(ctx context.Context, ask *messages.Provision, step func(string)) (*messages.ProvisionReport, actors.ProvisionJob) {
	packages := trust.NamedPackages(ask.Intent)
	var notes []string
	if ask.Choice == "" {
		step("looking among the configured servers")
		if r := p.named(ctx, ask, packages); r != nil {
			return r, nil
		}
		// Who names a package that is not configured means no other one.
		if len(packages) == 0 {
			r, said := p.words(ctx, ask)
			if r != nil {
				return r, nil
			}
			notes = said
		}
	}
	step("asking the registry")
	options, said, err := p.options(ctx, ask, packages)
	if err != nil {
		return failedReport(err), nil
	}
	notes = append(notes, said...)
	if len(packages) > 0 && ask.Choice == "" && !slices.ContainsFunc(options, func(o *option) bool { return o.confidence.Exact != "" }) {
		r, said := p.words(ctx, ask)
		if r != nil {
			r.Notes = append(r.Notes, "No registry knows "+strings.Join(packages, ", ")+".")
			return r, nil
		}
		notes = append(notes, said...)
		notes = append(notes, "No registry knows "+strings.Join(packages, ", ")+"; the user can add a server to .mcp.json.")
	}
	return p.choose(ctx, ask, options, notes, step)
}

// options are the servers that the registry has, judged, best first.
func (p provisioner) options(ctx context.Context, ask *messages.Provision, packages []string) (options []*option, notes []string, err error) {
	st := &p.e.Config().Settings
	policy := trust.Load(st.TrustFile)
	if policy.Note != "" {
		notes = append(notes, policy.Note)
	}
	byKey := map[string]*option{}
	var leftOut int
	consider := func(server *registry.Server, source registry.Source) {
		for _, c := range trust.Candidates(server) {
			o := &option{server: *server, candidate: c, source: source}
			o.confidence = trust.Measure(ask.Intent, ask.Context, &c, server.Title+" "+server.Description)
			o.decision = policy.Decide(&c, o.confidence, settingOf(ask.Consent))
			if o.key() != ask.Choice && (o.confidence.Value < leastConfidence || o.never() && o.confidence.Exact == "") {
				leftOut++
				continue
			}
			if other := byKey[o.key()]; other == nil {
				byKey[o.key()] = o
				options = append(options, o)
			} else if better(o, other) < 0 {
				*other = *o
			}
		}
	}
	for _, text := range p.searchTexts(ask.Intent, packages) {
		a, err := SearchRegistry(ctx, st, registry.Query{Search: text, Limit: candidatesRead})
		if err != nil {
			return nil, nil, err
		}
		for _, note := range a.Notes {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
		for i := range a.Servers {
			consider(&a.Servers[i], a.Source)
		}
	}
	// A stranger's description of a well-known package must not keep it away.
	for _, s := range registry.Builtin() {
		if slices.Contains(packages, s.Name) {
			consider(&s, registry.FromBuiltin)
		}
	}
	slices.SortStableFunc(options, better)
	if n := len(options) - optionsShown; n > 0 {
		leftOut += n
	}
	if leftOut > 0 && len(options) == 0 {
		notes = append(notes, fmt.Sprintf("The registry has %s that share a word or so with the intent; none fits.", counted(leftOut, "server", "servers")))
	}
	for _, o := range options[:min(len(options), optionsShown)] {
		p.show(o, ask)
	}
	return options, notes, nil
}

// better orders options: what may be installed first, then by confidence and
// trust, and what never may be last.
func better(a, b *option) int {
	rank := func(o *option) float64 {
		switch {
		case o.decision.Allowed:
			return 10
		case o.never():
			return -10
		case o.decision.Trusted:
			return o.confidence.Value + 0.001
		}
		return o.confidence.Value
	}
	if c := cmp.Compare(rank(b), rank(a)); c != 0 {
		return c
	}
	// Trust in the description is worth more than trust in the package.
	via := func(o *option) int {
		if o.decision.Via == trust.ServerName {
			return 1
		}
		return 0
	}
	return cmp.Compare(via(b), via(a))
}

// redacted is what stands in the place of a secret.
var redacted = regexp.MustCompile(`\[REDACTED[^\]]*\]`)

// searchTexts is what the registry is asked for: the names that an intent
// names, else its words.
func (p provisioner) searchTexts(intent string, packages []string) []string {
	const names, longest = 3, 200
	if len(packages) > 0 {
		packages = slices.DeleteFunc(slices.Clone(packages), func(name string) bool { return len(name) > longest })
		return packages[:min(len(packages), names)]
	}
	text := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if registry.Hidden(r) {
			return ' '
		}
		return r
	}, intent)), " ")
	// It goes to somebody else.
	text = strings.TrimSpace(redacted.ReplaceAllString(p.e.secrets.Load().Text(text), ""))
	if len(text) > longest {
		text = text[:strings.LastIndexByte(text[:longest], ' ')+1]
		if text == "" { // one word
			return nil
		}
	}
	if text == "" {
		return nil
	}
	return []string{strings.TrimSpace(text)}
}

func settingOf(c messages.ProvisionConsent) trust.Setting {
	switch c {
	case messages.ConsentAsked, messages.ConsentPerson:
		return trust.Asked
	case messages.ConsentForbidden:
		return trust.Forbidden
	default:
		return trust.NotAsked
	}
}

// show writes down what is told of an option.
func (p provisioner) show(o *option, ask *messages.Provision) {
	description, _ := cutText(o.server.Description, descriptionShown)
	s := messages.ProvisionOption{
		Key: o.key(), Name: o.candidate.Package, Description: description, Registered: o.candidate.Server,
		Confidence: math.Round(o.confidence.Value*100) / 100, Trusted: o.decision.Trusted, Gate: string(o.decision.Gate), Reason: o.decision.Reason(),
	}
	if o.server.Status != "" && o.server.Status != registry.Active {
		s.Status = string(o.server.Status)
	}
	for _, c := range o.decision.Checks {
		if !c.Passed && c.Gate != o.decision.Gate {
			s.Closed = append(s.Closed, string(c.Gate))
		}
	}
	if !o.never() {
		describeWay(&s, o)
	}
	if pkg := o.pkg(); pkg != nil {
		s.Version = pkg.Version
		for _, v := range pkg.Environment {
			s.Environment = append(s.Environment, messages.ProvisionVariable{
				Name: v.Name, Description: v.Description, Required: v.Required, Secret: v.Secret, Default: plainDefault(&v.Input), Choices: v.Choices,
				Missing: v.Required && v.Value == "" && v.Default == "" && !given(ask, v.Name),
			})
		}
	}
	o.shown = s
}

func plainDefault(v *registry.Input) string {
	if v.Secret {
		return ""
	}
	return v.Default
}

// given says whether somebody has set a variable.
func given(ask *messages.Provision, name string) bool {
	return ask.Env[name] != "" || os.Getenv(name) != ""
}

func cutText(text string, most int) (short string, cut bool) {
	if len(text) <= most {
		return text, false
	}
	return strings.ToValidUTF8(text[:most], "") + "…", true
}

// describeWay says how a person would get a server, as far as that is known
// without asking anybody.
func describeWay(s *messages.ProvisionOption, o *option) {
	version := ""
	if pkg := o.pkg(); pkg != nil {
		version = pkg.Version
	}
	entry := map[string]any{}
	var words []string
	switch o.candidate.Kind {
	case registry.NPM:
		words = []string{"npx", "-y", joined(o.candidate.Package, "@", version)}
	case registry.PyPI:
		words = []string{"uvx", joined(o.candidate.Package, "@", version)}
	case registry.OCI:
		words = []string{"docker", "run", "-i", "--rm", o.candidate.Package}
	case trust.Remote:
		entry["url"] = o.candidate.Package
		s.Problem = "it runs elsewhere, so there is nothing to install; its entry works in .mcp.json"
	default:
		s.Problem = "metamcp has no command for packages of the kind " + string(o.candidate.Kind)
		return
	}
	if words != nil {
		s.Install = strings.Join(words, " ")
		entry["command"], entry["args"] = words[0], words[1:]
	}
	name := shortName(o.candidate.Package)
	s.Entry, _ = compact(map[string]any{name: entry}) // strings always marshal
}

func joined(name, by, version string) string {
	if version == "" {
		return name
	}
	return name + by + version
}

// shortName is the last part of a package's name, or the host of a URL.
func shortName(name string) string {
	if u, err := url.Parse(name); err == nil && u.Host != "" {
		return u.Hostname()
	}
	name = strings.TrimRight(name, "/")
	name = name[strings.LastIndexByte(name, '/')+1:]
	name, _, _ = strings.Cut(name, ":")
	return name
}
