package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/tailscale/hujson"

	"github.com/metamcp/metamcp/integration/jsonc"
	"github.com/metamcp/metamcp/integration/spelling"
	"github.com/metamcp/metamcp/messages"
)

// FilesVariable names the files where no --config does, separated as PATH is.
const FilesVariable = "METAMCP_CONFIG"

// Sources says where a configuration comes from. The zero value is what a
// program without flags uses.
type Sources struct {
	// Files are the values of --config; a later one overrides an earlier one.
	// Empty: the variable METAMCP_CONFIG, else ./.mcp.json, else
	// ~/.metamcp/mcp.json.
	Files []string
	// Home and Cwd are the home and working folder; "": the process's.
	Home, Cwd string
	// Environ is the environment as KEY=value; nil: the process's.
	Environ []string
	// Overlay holds the flags; nil: none.
	Overlay *Overlay
	// Guests are servers from elsewhere, for this run: they come last, and one
	// whose name is there already is left out.
	Guests []Guest
	// Once gives every Load of these sources what the first one has read from pipes
	// and devices; nil: each reads them anew, and finds a pipe empty.
	Once *Once
}

// Load reads everything once, and behind it the lock file of provisioned servers
// in the state folder; a broken one is a problem, and nothing that it names is
// there. The error is a *messages.Error with code
// CONFIGURATION_ERROR: a file that cannot be read or is not JSON, a bad
// variable or flag, or a bad value of a [Key] that guards something. All else that is wrong is in the
// result's Problems and Warnings. Where no file is found the result has no
// servers and a warning that says how to make one. Load may be called from any
// goroutine.
//
// A file that was named, by --config or the variable, may be a pipe or a
// device: it is read to its end, however long its writer takes. What is only
// looked for must be a regular file.
func Load(sources Sources) (*Config, error) {
	begun, src := begin(), sources.resolved()
	paths, candidates := src.choose()
	read := readFile
	if len(src.files) > 0 {
		read = src.once.reader(readNamed)
	}
	return src.build(begun, readAll(paths, nil, read), candidates, known{})
}

// Reload is Load for a program that runs with current: what current read from a
// pipe or a device is kept, since it could be read only once, and all else must
// be a regular file, so that the call does not wait for a writer. A setting that
// cannot be read, or that needs a restart, stays what it is in current. Files are
// looked for only where current has none, as a [Watcher] does it; one that is
// gone is an error, so that nothing ends while it is replaced. So is a lock file
// that cannot be used while servers of it are in force; of a store of secrets or a
// keyring that cannot be used the values in force stay, and a warning says so.
func Reload(sources Sources, current *Config) (*Config, error) {
	begun, src := begin(), sources.resolved()
	paths, candidates := current.Files, current.candidates
	if len(paths) == 0 {
		paths, candidates = src.choose()
	}
	return src.build(begun, readAll(paths, current.fixed, readFile), candidates, current.known())
}

// FilesOf returns the absolute paths of the files that [Load] would read, the
// strongest last, and where none was named those that it would look for, the
// first of them that is there being read. It opens none of them.
func FilesOf(sources Sources) (paths, candidates []string) { return sources.resolved().choose() }

// resolvedSources are Sources with nothing left open.
type resolvedSources struct {
	files     []string // absolute
	filesFrom string   // what names them: --config or the variable; "": nothing does
	home, cwd string
	env       *environment
	overlay   *Overlay
	guests    []Guest
	once      *Once
}

func (s Sources) resolved() *resolvedSources {
	r := &resolvedSources{home: s.Home, cwd: s.Cwd, overlay: s.Overlay, guests: s.Guests, once: s.Once}
	environ := s.Environ
	if environ == nil {
		environ = os.Environ()
	}
	r.env = newEnvironment(runtime.GOOS, environ)
	// What the system cannot tell stays empty; whoever needs it says so.
	if r.home == "" {
		r.home, _ = os.UserHomeDir()
	}
	if r.cwd == "" {
		r.cwd, _ = os.Getwd()
	}
	files, from := s.Files, "--config"
	if len(files) == 0 {
		list, _ := r.env.lookup(FilesVariable)
		files, from = filepath.SplitList(list), "the variable "+FilesVariable
	}
	for _, f := range files {
		if f != "" {
			r.files, r.filesFrom = append(r.files, r.absolute(f)), from
		}
	}
	return r
}

func (r *resolvedSources) absolute(p string) string {
	if p = expandHome(p, r.home); !filepath.IsAbs(p) {
		p = filepath.Join(r.cwd, p)
	}
	return filepath.Clean(p)
}

// choose returns the files to read and, where none were named, those that
// would be read if they were there.
func (r *resolvedSources) choose() (paths, candidates []string) {
	if len(r.files) > 0 {
		return r.files, nil
	}
	candidates = []string{filepath.Join(r.cwd, ".mcp.json")}
	if r.home != "" {
		candidates = append(candidates, filepath.Join(r.home, ".metamcp", "mcp.json"))
	}
	for _, c := range candidates {
		if _, err := os.Stat(c); !errors.Is(err, fs.ErrNotExist) {
			return []string{c}, candidates
		}
	}
	return nil, candidates
}

// hashContents covers everything that was read, failures included.
func hashContents(contents ...[]content) [32]byte {
	h := sha256.New()
	for _, c := range slices.Concat(contents...) {
		_, _ = fmt.Fprintf(h, "%d:%s%d:", len(c.path), c.path, len(c.data)) // a hash takes every write
		_, _ = h.Write(c.data)
		if c.err != nil {
			_, _ = fmt.Fprintf(h, "!%s", c.err)
		}
	}
	return [32]byte(h.Sum(nil))
}

func failure(hint, format string, args ...any) error {
	return &messages.Error{Code: messages.CodeConfiguration, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// begins counts the loads that have begun.
var begins atomic.Uint64

// begin is called before the first file of a load is looked at. What was written
// before that is in each load that begins later.
func begin() uint64 { return begins.Add(1) }

// known is what a load knows beforehand. The first one knows nothing.
type known struct {
	// secrets are the values in force, and absent the names that the store did not
	// have; both stay while it cannot say more.
	secrets map[string]string
	absent  map[string]bool
	// servers are those in force.
	servers []*messages.ServerSpec
	// settings are those in force; nil: none are.
	settings *Settings
	// contents are files of the state folder that were read for this load already.
	contents []content
}

// known is what a load after c knows.
func (c *Config) known() known {
	return known{
		settings: &c.Settings, secrets: c.secrets, absent: c.absentSecrets,
		servers: c.Servers,
	}
}

// provisioned says that there are servers of the lock file in force.
func (k *known) provisioned() bool {
	return slices.ContainsFunc(k.servers, func(s *messages.ServerSpec) bool { return s.Provisioned != nil })
}

// servesFrom says that there are servers of a file in force.
func (k *known) servesFrom(file string) bool {
	return slices.ContainsFunc(k.servers, func(s *messages.ServerSpec) bool { return strings.HasPrefix(s.Source, file+":") })
}

// read returns what was read of a file already, or reads it.
func (k *known) read(path string, read func(path string) []content) []content {
	if i := slices.IndexFunc(k.contents, func(c content) bool { return c.path == path }); i >= 0 {
		return k.contents[i : i+1]
	}
	return read(path)
}

// build makes the configuration from what was read since a load began.
func (r *resolvedSources) build(begun uint64, contents []content, candidates []string, before known) (*Config, error) {
	b := r.builder(func() string {
		if before.settings != nil {
			return before.settings.StateDir
		}
		return r.stateDir(contents)
	}, before)
	b.cfg.candidates, b.cfg.begun = candidates, begun
	for _, c := range contents {
		if err := b.file(c); err != nil {
			return nil, err
		}
	}
	cfg := b.cfg
	warnings, err := applyVariables(&cfg.Settings, r.env)
	if err != nil {
		return nil, failure("correct the variable or unset it", "%s", err)
	}
	if err := r.overlay.apply(&cfg.Settings); err != nil {
		return nil, failure("", "%s", err)
	}
	cfg.Warnings = append(cfg.Warnings, warnings...)
	written := cfg.Settings
	clashes := written.resolve(r.home, r.cwd)
	if before.settings == nil {
		cfg.Settings = written
	} else {
		cfg.written = &written
		cfg.Settings.StateDir = before.settings.StateDir // the trust file may be in it
		cfg.Settings.resolve(r.home, r.cwd)
		cfg.Settings.keepRestarts(before.settings)
	}
	for _, c := range clashes {
		if from := r.given(c.keys); from != "" {
			return nil, failure("correct "+from+", or leave it out", "%s", c.Message)
		}
		cfg.Problems = append(cfg.Problems, c.Problem)
	}
	lock, err := b.provisioned()
	if err != nil {
		return nil, err
	}
	b.guests()
	stored := b.ex.secrets
	b.warnings(stored.warnings)
	cfg.ringFailed, cfg.unread = stored.ringFailed, slices.ContainsFunc(slices.Concat(lock, stored.before), content.unread)
	cfg.secrets, cfg.secretUsers, cfg.secretFile, cfg.missingSecrets = stored.found, stored.users, stored.path, stored.missing
	cfg.absentSecrets = stored.absent
	cfg.content = hashContents(contents, lock, stored.before)
	cfg.Warnings = append(cfg.Warnings, strayRules(cfg)...)
	if len(contents) == 0 {
		without := "there are no servers"
		if len(cfg.Servers) > 0 {
			without = "there are only servers that metamcp installed, or that it was given for this run"
		}
		cfg.Warnings = append(cfg.Warnings, Problem{
			Message: "no configuration file was found, so " + without + "; looked for " + strings.Join(candidates, " and "),
			Hint:    `write {"mcpServers": {"name": {"command": "program", "args": []}}} into one of them, or name a file with --config`,
		})
	}
	return cfg, nil
}

// strayRules warns of tool rules for servers that are not configured: what they
// were meant to close may be open.
func strayRules(cfg *Config) []Problem {
	var out []Problem
	for i, rule := range cfg.Settings.ToolRules {
		if rule.Server == "" || cfg.Server(rule.Server) != nil {
			continue
		}
		hint := "without such a server the rule does nothing"
		names := make([]string, len(cfg.Servers))
		for j, s := range cfg.Servers {
			names[j] = s.Name
		}
		if near := suggestion(rule.Server, names); near != "" {
			hint = near
		}
		out = appendBounded(out, Problem{
			Message: fmt.Sprintf("metamcp.toolRules: rule %d is for the server %s, which is not configured", i+1, quote(rule.Server)), Hint: hint,
		})
	}
	return out
}

// builder collects the files into one configuration.
type builder struct {
	src   *resolvedSources
	known known
	cfg   *Config
	ex    *expander
	at    map[string]place // by server name
	// rulesAt is that of the settings' reader, from one file to the next.
	rulesAt string
}

// builder has nothing yet; stateDir is called when the first secret is asked for.
func (r *resolvedSources) builder(stateDir func() string, before known) *builder {
	return &builder{
		src: r, known: before,
		cfg: &Config{Settings: DefaultSettings(), byName: map[string]*messages.ServerSpec{}, fixed: map[string][]byte{}},
		ex:  &expander{lookup: r.env.lookup, secrets: &secretSource{stateDir: stateDir, known: before}},
		at:  map[string]place{},
	}
}

// place is where a server stands in the list and in its file.
type place struct {
	index int
	doc   *document
	line  int
}

func (b *builder) file(c content) error {
	switch {
	case errors.Is(c.err, fs.ErrNotExist):
		hint := "put it back"
		if b.src.filesFrom != "" {
			hint = "check the path, or remove it from " + b.src.filesFrom
		}
		return failure(hint, "the configuration file %s does not exist", c.path)
	case c.err != nil:
		return failure("check the file and its permissions", "the configuration file %s cannot be read: %s", c.path, reason(c.err))
	}
	if !c.regular {
		b.cfg.fixed[c.path] = c.data
	}
	doc, err := parseDocument(c.path, c.data)
	var s *syntaxError
	if errors.As(err, &s) {
		return failure(s.hint, "%s:%d:%d: %s", c.path, s.line, s.column, s.message)
	}
	if err != nil {
		return failure("", "%s: %s", c.path, err)
	}
	root, ok := doc.root.Value.(*hujson.Object)
	if !ok {
		line, column := doc.position(doc.root.StartOffset)
		return failure(`write {"mcpServers": {…}}`, "%s:%d:%d: expected an object, found %s", c.path, line, column, jsonc.Kind(&doc.root))
	}
	b.cfg.Files = append(b.cfg.Files, c.path)
	return b.members(doc, root)
}

// reason is the cause of a file error without the path, which is named already.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// topNames are the members of a file that are ours to read.
var topNames = []string{"mcpServers", "servers", "metamcp"}

func (b *builder) members(doc *document, root *hujson.Object) error {
	found, read := false, false
	var refused *Problem
	for i := range root.Members {
		m := &root.Members[i]
		switch name := memberName(m); name {
		case "mcpServers", "servers":
			found = true
			if p := b.servers(doc, name, &m.Value); p != nil {
				refused = p
			} else {
				read = true
			}
		case "metamcp":
			found = true
			r := settingsReader{doc: doc, ex: b.ex, s: &b.cfg.Settings, rulesAt: b.rulesAt, inForce: b.known.settings}
			r.read(&m.Value)
			b.rulesAt = r.rulesAt
			if r.fatal != nil {
				return failure(r.fatal.Hint, "%s: %s", r.fatal.Position(), r.fatal.Message)
			}
			b.problems(r.problems)
			b.warnings(r.warnings)
		default:
			// Other programs keep their own things beside ours; only what is
			// nearly one of our names is worth a word.
			if misplaced(name, &m.Value) {
				b.warnings([]Problem{doc.problem(&m.Name, shorten(name)+" is ignored here", fmt.Sprintf(`write it as "metamcp": {%q: …}`, name))})
			} else if c := nearest(name, topNames); c != "" && spelling.Distance(strings.ToLower(name), strings.ToLower(c)) <= 2 {
				b.warnings([]Problem{doc.problem(&m.Name, shorten(name)+" is not known and ignored", "did you mean "+c+"?")})
			}
		}
	}
	if refused != nil && !read && b.known.servesFrom(doc.file) {
		// They would all end.
		return failure(refused.Hint, "%s: %s", refused.Position(), refused.Message)
	}
	if !found {
		b.warnings([]Problem{doc.problem(&doc.root, "the file has neither mcpServers nor servers nor metamcp", `write {"mcpServers": {…}}`)})
	}
	return nil
}

func (b *builder) problems(list []Problem) {
	for _, p := range list {
		b.cfg.Problems = appendBounded(b.cfg.Problems, p)
	}
}

func (b *builder) warnings(list []Problem) {
	for _, p := range list {
		b.cfg.Warnings = appendBounded(b.cfg.Warnings, p)
	}
}

// servers reads one object of servers. Anything else holds none, which is returned, and
// a problem unless it is null.
func (b *builder) servers(doc *document, key string, v *hujson.Value) *Problem {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		p := doc.problem(v, fmt.Sprintf("%s: expected an object, found %s", key, jsonc.Kind(v)), `write "`+key+`": {} for none`)
		if v.Value.Kind() != 'n' {
			b.problems([]Problem{p})
		}
		return &p
	}
	if len(b.cfg.Servers) == 0 {
		n := len(obj.Members)
		b.cfg.Servers, b.cfg.byName, b.at = make([]*messages.ServerSpec, 0, n), make(map[string]*messages.ServerSpec, n), make(map[string]place, n)
	}
	for i := range obj.Members {
		m := &obj.Members[i]
		name := memberName(m)
		if !named(m) {
			b.problems([]Problem{doc.problem(&m.Name, fmt.Sprintf("the name of the server %s is not written in UTF-8; the entry is left out", quote(name)), notUTF8)})
			continue
		}
		if what := checkName(name); what != "" {
			b.problems([]Problem{doc.problem(&m.Name, what, "give it a short name; the entry is left out")})
			continue
		}
		b.server(doc, name, m)
	}
	return nil
}

// server reads one entry and puts it in the place of an earlier one of that name.
func (b *builder) server(doc *document, name string, m *hujson.ObjectMember) {
	line := doc.line(m.Name.StartOffset)
	e := entry{
		doc: doc, name: name, env: b.src.env, ex: b.ex, home: b.src.home,
		spec: &messages.ServerSpec{Name: name, Source: doc.file + ":" + strconv.Itoa(line)},
	}
	if obj, ok := m.Value.Value.(*hujson.Object); ok {
		b.ex.used, b.ex.secrets.user = nil, name
		e.read(&m.Value, obj)
		e.spec.Filled = b.ex.used
		b.ex.secrets.user = ""
	} else {
		e.mismatch(doc, "the entry", &m.Value, "an object")
	}
	if len(e.problems) > 0 {
		e.fail(&m.Value)
	}
	if e.spec.Disabled {
		// Nobody waits for a server that is turned off.
		b.warnings(e.problems)
	} else {
		b.problems(e.problems)
	}
	b.warnings(e.warnings)

	earlier, twice := b.at[name]
	if twice {
		old := b.cfg.Servers[earlier.index]
		p := doc.problem(&m.Name, fmt.Sprintf("overrides the server of that name at %s", old.Source), "rename one of them to have both")
		if earlier.doc == doc {
			p.Message = fmt.Sprintf("the file has this server twice, in line %d and in line %d; the last one counts", earlier.line, line)
		}
		p.Server = name
		b.warnings([]Problem{p})
		b.cfg.Servers[earlier.index] = e.spec
	} else {
		earlier.index = len(b.cfg.Servers)
		b.cfg.Servers = append(b.cfg.Servers, e.spec)
	}
	b.at[name] = place{earlier.index, doc, line}
	b.cfg.byName[name] = e.spec
}
