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
	"strings"
	"sync/atomic"

	"github.com/metamcp/metamcp/integration/lineage"
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
// variable or flag, a bad value of a [Key] that guards something, or a state folder that
// is something else than a folder. All else that is wrong is in the
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
	return &messages.Error{Code: messages.CodeConfiguration, Message: fmt.Sprintf(format, args...), Hint: messages.HintSentence(hint)}
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
	chain, _ := r.env.lookup(lineage.Var)
	b.cfg.Chain = lineage.Parse(chain)
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
		if err := r.checkStateDir(written.StateDir); err != nil {
			return nil, err
		}
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
		cfg.Problems = append(cfg.Problems, c.at(cfg.places))
	}
	cfg.rulesFrom = r.given([]string{"toolRules"})
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

// checkStateDir refuses a state folder whose place something else has: each of the files
// in it would fail by itself, and none would say why. One that is not there, or that
// cannot be looked at, is for those who use it.
func (r *resolvedSources) checkStateDir(dir string) error {
	if info, err := os.Stat(dir); dir != "" && err == nil && !info.IsDir() {
		hint := "move it away, or name a folder with --state-dir, the variable METAMCP_STATE_DIR or metamcp.stateDir"
		if from := r.given([]string{"stateDir"}); from != "" {
			hint = "correct " + from + ": it names a folder, which is made where it is not there yet"
		}
		return failure(hint, "the state folder %s is not a folder", dir)
	}
	return nil
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
		p := Problem{}
		if cfg.rulesFrom == "" {
			p = cfg.places[rulePath(i)]
		}
		p.Message, p.Hint = fmt.Sprintf("metamcp.toolRules: rule %d is for the server %s, which is not configured", i+1, quote(rule.Server)), hint
		out = appendBounded(out, p)
	}
	return out
}
