package metamcp

import (
	"cmp"
	"context"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/metamcp/metamcp/actors"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/integration/install"
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
	// longestSearch bounds what a registry is asked for, in bytes, namesAsked how
	// many names.
	longestSearch = 200
	namesAsked    = 3
	// descriptionShown bounds a description, in bytes.
	descriptionShown = 300
)

// registryCache is the name of the registry's cache in the state folder.
const registryCache = "registry-cache.json"

// NewRegistryClient returns a client of the registry that the settings name, with
// its cache and the built-in list behind it; who gets it closes it. The error says
// that the URL is none.
func NewRegistryClient(s *config.Settings) (*registry.Client, error) {
	return registry.New(registryOptions(s))
}

func registryOptions(s *config.Settings) registry.Options {
	file := ""
	if s.StateDir != "" {
		file = filepath.Join(s.StateDir, registryCache)
	}
	return registry.Options{BaseURL: s.RegistryURL, CacheFile: file}
}

// SearchRegistry searches like a [NewRegistryClient], and where the registry gives no
// answer and its cache has none, in the gallery too, whose servers have their short
// names. What is deprecated comes last. The errors are those of
// [registry.Client.Search].
func SearchRegistry(ctx context.Context, s *config.Settings, q registry.Query) (*registry.Answer, error) {
	o := registryOptions(s)
	o.Gallery = galleryServers()
	client, err := registry.New(o)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	a, err := client.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	registry.SortDeprecated(a.Servers)
	return a, nil
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
	version    string   // that the intent asks for; "": none
	program    string   // of a package of PyPI, where it has another name
	suspicious []string // kinds of text in its description that was left out
	resolved   *resolved
	shown      messages.ProvisionOption
}

// resolved is what a package manager said of an option; nil: it was not asked.
type resolved struct {
	plan *install.Plan
	err  error
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

// own says that its description is to be believed.
func (o *option) own() bool { return o.decision.Via == trust.ServerName || o.candidate.Server == "" }

func (o *option) deprecated() bool { return o.candidate.Status == registry.Deprecated }

// never says that a server must not be installed whoever wants it.
func (o *option) never() bool {
	return slices.ContainsFunc(o.decision.Checks, func(c trust.Check) bool {
		return !c.Passed && (c.Gate == trust.GateStatus || c.Gate == trust.GateBlocked || c.Gate == trust.GateImitation)
	})
}

// closedToAll says that a person's yes would not let it be installed either.
func (o *option) closedToAll() bool { return o.never() || o.decision.Gate == trust.GateFile }

// Look implements actors.Provisioner.
func (p provisioner) Look(ctx context.Context, ask *messages.Provision, step func(string)) (*messages.ProvisionReport, actors.ProvisionJob) {
	r, job := p.look(ctx, ask, step)
	if r.Decision == messages.DecisionLocal && len(ask.Env) > 0 {
		names := strings.Join(slices.Sorted(maps.Keys(ask.Env)), ", ")
		how := "change its entry in the configuration"
		if r.Server != "" && p.provisionedNames()[r.Server] != nil {
			how = "the user removes it with `metamcp remove " + messages.ShellWord(r.Server) + "` and provisions it again with them"
		}
		r.Notes = append(r.Notes, "What was given for "+names+" was not used, since the server is there already; to change what it gets, "+how+".")
	}
	return r, job
}

func (p provisioner) look(ctx context.Context, ask *messages.Provision, step func(string)) (*messages.ProvisionReport, actors.ProvisionJob) {
	named := trust.NamedPackages(ask.Intent)
	for _, n := range named {
		if n.Version == "" {
			continue
		}
		if err := registry.ExactVersion(n.Kind, n.Name, n.Version); err != nil {
			return failedReport(err), nil
		}
	}
	var undecided []localMatch
	var notes []string
	if ask.Choice == "" {
		step("looking among the configured servers")
		var r *messages.ProvisionReport
		if r, undecided, notes = p.named(ctx, ask, named); r != nil {
			return r, nil
		}
		// Who names a package that is not configured means no other one.
		if len(named) == 0 {
			r, said := p.words(ctx, ask)
			if r != nil {
				return r, nil
			}
			notes = append(notes, said...)
		}
	}
	step("asking the registry")
	f := &finder{p: p, ask: ask, named: named, byKey: map[string]*option{}, absent: map[string]*install.Error{}}
	err := f.find(ctx)
	if r := p.untold(ctx, undecided, f.options, err); r != nil {
		r.Notes = slices.Concat(notes, f.notes, r.Notes)
		return r, nil
	}
	if err != nil {
		return failedReport(err), nil
	}
	notes = append(notes, f.notes...)
	unknown := f.unknown()
	if len(unknown) > 0 && ask.Choice == "" {
		if len(unknown) == len(f.asked()) {
			r, said := p.words(ctx, ask)
			if r != nil {
				r.Notes = slices.Concat(r.Notes, notes, f.unknownNote(unknown))
				return r, nil
			}
			notes = append(notes, said...)
		}
		notes = append(notes, f.unknownNote(unknown)...)
	}
	r, job := p.choose(ctx, ask, f.options, undecided, notes, step)
	if r.Decision == messages.DecisionNothing {
		r.Source = string(f.source)
	}
	for _, n := range unknown {
		r.Unknown = append(r.Unknown, n.Name)
	}
	return r, job
}

// unknownNote says what a person can do about names that nobody knows.
func (f *finder) unknownNote(list []trust.NamedPackage) (notes []string) {
	for _, n := range list {
		switch gone := f.absent[n.Name]; {
		case gone != nil:
			notes = append(notes, "No registry knows "+n.Name+": "+readable(gone.Message)+". "+gone.Hint)
		case n.Kind == trust.ServerName:
			notes = append(notes, "No registry knows "+n.Name+"; `metamcp registry search` finds the names that there are.")
		case n.Kind != registry.NPM:
			notes = append(notes, "No registry knows "+n.Name+". If the name is right, the user can add it with `metamcp add "+string(n.Kind)+":"+n.Name+"`.")
		default:
			notes = append(notes, "No registry knows "+n.Name+". If the name is right, the user can add the npm package with `metamcp add "+n.Name+"`.")
		}
	}
	return notes
}

// redacted is what stands in the place of a secret.
var redacted = regexp.MustCompile(`\[REDACTED[^\]]*\]`)

// searchText is what the registry is asked for where an intent names nothing;
// "": nothing is left to ask.
func (p provisioner) searchText(intent string) string {
	text := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if registry.HiddenAlone(r) {
			return ' '
		}
		return r
	}, intent)), " ")
	// It goes to somebody else.
	text = strings.TrimSpace(redacted.ReplaceAllString(p.e.secrets.Load().Text(text), ""))
	if len(text) > longestSearch {
		text = text[:strings.LastIndexByte(text[:longestSearch], ' ')+1] // "" of one word
	}
	return strings.TrimSpace(text)
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
	s := messages.ProvisionOption{
		Key: o.key(), Name: o.candidate.Package, Description: messages.Cut(o.server.Description, descriptionShown), Registered: o.candidate.Server, Suspicious: o.suspicious,
		Confidence: math.Round(o.confidence.Value*100) / 100, Trusted: o.decision.Trusted, Gate: string(o.decision.Gate), Reason: o.decision.Reason(),
	}
	if o.decision.Trusted {
		s.TrustedBy = o.decision.By
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
		s.Version = cmp.Or(o.version, pkg.Version)
		for _, v := range pkg.Environment {
			if v.Value != "" {
				continue
			}
			if !o.own() { // as in a plan
				v.Default, v.Choices = "", nil
			}
			s.Environment = append(s.Environment, messages.ProvisionVariable{
				Name: v.Name, Description: v.Description, Required: v.Required, Secret: v.Secret, Default: plainDefault(&v.Input), Choices: v.Choices,
				Missing: v.Required && v.Default == "" && !given(ask, v.Name),
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

// describeWay says how a person would get a server, as far as that is known
// without asking anybody.
func describeWay(s *messages.ProvisionOption, o *option) {
	pinned := o.server
	if o.version != "" {
		pinned.Packages = slices.Clone(pinned.Packages)
		for i := range pinned.Packages {
			pinned.Packages[i].Version = o.version
		}
	}
	name, entry, ok := install.Draft(&pinned, o.candidate, o.own())
	if !ok {
		s.Problem = "metamcp has no command for packages of the kind " + string(o.candidate.Kind)
		return
	}
	o.tellEntry(s, name, &entry)
	s.Add = addCommand(o)
	if o.candidate.Kind == trust.Remote {
		s.Problem = "it runs elsewhere, so there is nothing to install; it is added to the configuration as it is"
	}
}

// tellEntry writes down an entry, in the one form that all have.
func (o *option) tellEntry(s *messages.ProvisionOption, name string, entry *install.Entry) {
	if o.program != "" && entry.Command == "uvx" && len(entry.Args) > 0 {
		own := *entry
		own.Args = slices.Concat([]string{"--from", entry.Args[0], o.program}, entry.Args[1:])
		entry = &own
	}
	s.Install = ""
	if entry.Command != "" {
		words := append([]string{entry.Command}, entry.Args...)
		for i := range words {
			words[i] = messages.ShellWord(words[i])
		}
		s.Install = strings.Join(words, " ")
	}
	s.Entry, _ = compact(map[string]any{name: entry}) // strings always marshal
}

// addCommand is what a person types to have it in the configuration.
func addCommand(o *option) string {
	pkg := messages.ShellWord(o.candidate.Package)
	switch kind := o.candidate.Kind; {
	case o.candidate.Server != "":
		return "metamcp add --from-registry " + o.candidate.Server
	case kind == registry.NPM:
		return "metamcp add " + pkg
	case kind == registry.PyPI, kind == registry.OCI:
		return "metamcp add " + string(kind) + ":" + pkg
	}
	return ""
}
