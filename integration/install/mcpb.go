package install

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
)

// bundleWay installs a bundle (MCPB): a zip archive with a manifest.
type bundleWay struct{ url, sha256 string }

func (p *Plan) resolveBundle(pkg *registry.Package) error {
	if len(pkg.SHA256) != 64 {
		return fail(Invalid, "", "the bundle %s has no SHA-256, so nobody could tell whether it is the right one", pkg.Identifier)
	}
	p.Source.Version, p.Source.Integrity, p.Source.URL = pkg.Version, "sha256-"+strings.ToLower(pkg.SHA256), pkg.Identifier
	p.way = &bundleWay{pkg.Identifier, strings.ToLower(pkg.SHA256)}
	p.Commands = [][]string{{"download", pkg.Identifier}, {"unzip"}}
	p.note("what the bundle needs to know, and how it is started, is in it; that is seen once it was downloaded")
	return nil
}

func (w *bundleWay) install(ctx context.Context, p *Plan, claim *provisioned.Claim) (*started, error) {
	dir := claim.Dir()
	archive := filepath.Join(dir, "bundle.mcpb")
	net := p.opts.network
	if net == nil {
		net = publicNetwork()
	}
	if err := net.download(ctx, w.url, archive, p.opts.MaxBundle, w.sha256); err != nil {
		return nil, err
	}
	const folder = "bundle"
	into := filepath.Join(dir, folder)
	if err := os.Mkdir(into, 0o700); err != nil {
		return nil, onDisk("making a folder for the bundle", err)
	}
	if err := unzip(ctx, archive, into, p.opts.MaxUnpacked); err != nil {
		return nil, err
	}
	if err := os.Remove(archive); err != nil {
		return nil, onDisk("deleting the archive of the bundle", err)
	}
	text, err := readBounded(filepath.Join(into, "manifest.json"), maxManifest)
	if err != nil {
		return nil, fail(BadBundle, "", "the bundle has no manifest.json that can be read: %v", err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, fail(BadBundle, "", "the manifest.json of the bundle %v", err)
	}
	return m.start(p, into, filepath.Join(claim.Final(), folder))
}

const maxManifest = 1 << 20

// manifest is what a bundle says of itself, as far as it matters here.
type manifest struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Server  struct {
		Type       string        `json:"type"`
		EntryPoint string        `json:"entry_point"`
		Config     commandConfig `json:"mcp_config"`
	} `json:"server"`
	UserConfig    map[string]userOption `json:"user_config"`
	Compatibility struct {
		Platforms []string `json:"platforms"`
	} `json:"compatibility"`
}

// commandConfig is how a bundle is started.
type commandConfig struct {
	Command   string                   `json:"command"`
	Args      []string                 `json:"args"`
	Env       map[string]string        `json:"env"`
	Platforms map[string]commandConfig `json:"platform_overrides"`
}

// userOption is what a bundle wants to know.
type userOption struct {
	Type        string          `json:"type"` // string, number, boolean, directory, file
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Required    bool            `json:"required"`
	Sensitive   bool            `json:"sensitive"`
	Multiple    bool            `json:"multiple"`
	Default     json.RawMessage `json:"default"`
}

// platform is this system as bundles call it.
func platform() string {
	if runtime.GOOS == "windows" {
		return "win32"
	}
	return runtime.GOOS
}

const (
	maxOptions = 200
	// maxFilled bounds a command line and its variables together, once the
	// variables of the manifest are filled in: a short text can name a long one
	// very often. Systems pass about as much to a process.
	maxFilled = 2 << 20
)

var (
	optionName   = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.-]{0,99}$`)
	variableText = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// parseManifest reads a manifest.json. The error completes a sentence that
// begins with the file.
func parseManifest(text []byte) (*manifest, error) {
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("is not what it should be: %w", err)
	}
	if n := platform(); len(m.Compatibility.Platforms) > 0 && !slices.Contains(m.Compatibility.Platforms, n) {
		return nil, fmt.Errorf("says that it runs on %s and not on %s", strings.Join(m.Compatibility.Platforms, ", "), n)
	}
	c := m.Server.Config
	if over, ok := c.Platforms[platform()]; ok {
		c.Command = cmp.Or(over.Command, c.Command)
		if over.Args != nil {
			c.Args = over.Args
		}
		c.Env = merge(over.Env, c.Env)
		for k, v := range over.Env {
			c.Env[k] = v
		}
	}
	if c.Command == "" {
		at := "${__dirname}/" + m.Server.EntryPoint
		switch {
		case m.Server.EntryPoint == "":
			return nil, fmt.Errorf("names neither a command nor an entry point")
		case m.Server.Type == "node":
			c.Command, c.Args = "node", []string{at}
		case m.Server.Type == "python":
			c.Command, c.Args = "python3", []string{at}
		case m.Server.Type == "binary":
			c.Command = at
		default:
			return nil, fmt.Errorf("says no command, and a server type %q that is not known", shorten(m.Server.Type))
		}
	}
	m.Server.Config = c
	texts := slices.Concat([]string{c.Command}, c.Args, slices.Collect(maps.Values(c.Env)))
	for _, t := range texts {
		if len(t) > maxValue || strings.ContainsFunc(t, unicode.IsControl) {
			return nil, fmt.Errorf("has a command line or variables with control characters, or too long ones")
		}
	}
	if len(m.UserConfig) > maxOptions || len(c.Args) > maxOptions || len(c.Env) > maxOptions {
		return nil, fmt.Errorf("has more than %d options, arguments or variables", maxOptions)
	}
	for name, o := range m.UserConfig {
		if !optionName().MatchString(name) {
			return nil, fmt.Errorf("has an option %q, which is no name", shorten(name))
		}
		words := o.defaults()
		if len(words) > maxOptions || len(o.defaultText()) > maxValue || slices.ContainsFunc(words, func(w string) bool { return len(w) > maxValue }) {
			return nil, fmt.Errorf("has an option %q whose default is too long", shorten(name))
		}
	}
	for name := range c.Env {
		if !variableText().MatchString(name) {
			return nil, fmt.Errorf("has a variable %q, which is no name", shorten(name))
		}
	}
	return &m, nil
}

// need is an option as a need.
func (o *userOption) need(name string) Need {
	n := Need{
		Name: name, Place: provisioned.InArguments, Description: oneLine(cmp.Or(o.Description, o.Title)),
		Required: o.Required, Secret: o.Sensitive, Default: o.defaultText(),
	}
	switch o.Type {
	case "number", "boolean":
		n.Format = o.Type
	case "directory", "file":
		n.Format = "filepath"
	}
	return n
}

// defaultText is the default as text, "" where there is none or a list.
func (o *userOption) defaultText() string {
	var text string
	if json.Unmarshal(o.Default, &text) == nil {
		return text
	}
	var number float64
	if json.Unmarshal(o.Default, &number) == nil && len(o.Default) > 0 && string(o.Default) != "null" {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	var truth bool
	if json.Unmarshal(o.Default, &truth) == nil && len(o.Default) > 0 && string(o.Default) != "null" {
		return strconv.FormatBool(truth)
	}
	return ""
}

// defaults are the words of a default that is a list.
func (o *userOption) defaults() []string {
	var list []string
	if json.Unmarshal(o.Default, &list) != nil {
		return nil
	}
	return list
}

// filling replaces the variables of a manifest.
type filling struct {
	m      *manifest
	given  map[string]string
	folder string
	bytes  int // of all texts so far
}

var manifestVariable = lazyregexp.New(`\$\{([^{}]*)\}`)

// text returns a string of the manifest in the words of a configuration file; it is
// of no use where that is too much.
func (f *filling) text(s string) string {
	var parts []string
	for !f.tooMuch() {
		at := manifestVariable().FindStringSubmatchIndex(s)
		if at == nil {
			f.bytes += len(s)
			return join(append(parts, literal(s))...)
		}
		value := f.variable(s[at[2]:at[3]])
		parts = append(parts, literal(s[:at[0]]), value)
		f.bytes += at[0] + len(value)
		s = s[at[1]:]
	}
	return ""
}

func (f *filling) tooMuch() bool { return f.bytes > maxFilled }

func (f *filling) variable(name string) string {
	home := "${HOME}"
	if runtime.GOOS == "windows" {
		home = "${USERPROFILE}"
	}
	switch name {
	case "__dirname":
		return literal(f.folder)
	case "pathSeparator", "/":
		return string(filepath.Separator)
	case "HOME":
		return home
	case "DESKTOP", "DOCUMENTS", "DOWNLOADS":
		return home + string(filepath.Separator) + name[:1] + strings.ToLower(name[1:])
	}
	if option, ok := strings.CutPrefix(name, "user_config."); ok {
		o := f.m.UserConfig[option]
		if value, ok := f.given[option]; ok {
			return value
		}
		// A default names no other option, and itself least of all.
		plain := filling{m: &manifest{}, folder: f.folder}
		return plain.text(o.defaultText())
	}
	return literal("${" + name + "}")
}

// words returns the arguments: an option that takes several values, alone in an
// argument, becomes several, and one without a value none.
func (f *filling) words(args []string) []string {
	var out []string
	for _, a := range args {
		if f.tooMuch() {
			break
		}
		match := manifestVariable().FindStringSubmatch(a)
		option := ""
		if len(match) == 2 && match[0] == a {
			option, _ = strings.CutPrefix(match[1], "user_config.")
		}
		o, known := f.m.UserConfig[option]
		if _, given := f.given[option]; known && o.Multiple && !given {
			for _, word := range o.defaults() {
				out = append(out, f.text(word))
			}
			continue
		}
		if text := f.text(a); text != "" || !known {
			out = append(out, text)
		}
	}
	return out
}

// start says how the bundle is started, once everything is known that it asks
// for.
func (m *manifest) start(p *Plan, into, final string) (*started, error) {
	r := inputReader{values: p.opts.Values, needs: p.Needs}
	given := map[string]string{}
	var lacking []Need
	for _, name := range slices.Sorted(maps.Keys(m.UserConfig)) {
		o := m.UserConfig[name]
		n := o.need(name)
		r.add(&n, false)
		value, ok := p.opts.Values[name]
		switch {
		case ok:
			if err := checkValue(&n, value); err != nil {
				return nil, err
			}
			given[name] = value
		case n.Required && n.Default == "" && len(o.defaults()) == 0:
			lacking = append(lacking, n)
		}
	}
	if err := r.unknown(); err != nil {
		return nil, err
	}
	if len(lacking) > 0 {
		return nil, missing(p.Name, lacking)
	}
	p.Needs = r.needs
	f := filling{m: m, given: given, folder: final}
	c := m.Server.Config
	command := f.text(c.Command)
	if err := m.command(into, final, command); err != nil {
		return nil, err
	}
	env := map[string]string{}
	for name, value := range c.Env {
		if text := f.text(value); text != "" {
			env[name] = text
		}
	}
	s := &started{entry: Entry{Command: command, Args: f.words(c.Args), Env: orNil(env)}}
	if f.tooMuch() {
		return nil, fail(BadBundle, "", "the command line and the variables of the bundle are longer than %d bytes", maxFilled)
	}
	if find(p.opts.Environ, command) == "" && !filepath.IsAbs(command) {
		s.notes = append(s.notes, fmt.Sprintf("%s, which starts it, is not in PATH", command))
	}
	return s, nil
}

// command wants a program by its bare name, or one of the bundle, which it makes
// executable.
func (m *manifest) command(into, final, command string) error {
	if strings.TrimSpace(command) == "" {
		return fail(BadBundle, "", "the bundle is started by a command that is empty")
	}
	if !strings.ContainsAny(command, `/\`) {
		return nil
	}
	rel, err := filepath.Rel(final, strings.ReplaceAll(command, "$${", "${"))
	if err != nil || !filepath.IsLocal(rel) {
		return fail(BadBundle, "", "the bundle is started by %q, which is neither in it nor the name of a program", shorten(command))
	}
	file, err := inside(into, path.Clean(filepath.ToSlash(rel)))
	if err != nil {
		return fail(BadBundle, "", "the bundle is started by its file %q: %v", shorten(rel), err)
	}
	return onDisk("making "+rel+" executable", os.Chmod(file, 0o700)) //nolint:gosec // G302: it is a program
}
