package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/child"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
)

// npmWay installs a package of npm.
type npmWay struct{ name, version, integrity string }

// npmView is what npm says of one version.
type npmView struct {
	Name       string          `json:"name"`
	Version    string          `json:"version"`
	Integrity  string          `json:"dist.integrity"`
	Bin        json.RawMessage `json:"bin"`
	Deprecated json.RawMessage `json:"deprecated"`
	Error      *npmError       `json:"error"`
}

type npmError struct {
	Code    string `json:"code"`
	Summary string `json:"summary"`
}

// resolveNPM asks npm, as it is set up on this machine.
func (p *Plan) resolveNPM(ctx context.Context, pkg *registry.Package, version string) error {
	want := version
	if want == "" {
		want = "latest"
	}
	if find(p.opts.Environ, "npm") == "" {
		p.Source.Version = version
		p.without("it is a package of npm, and there is no npm", toolHint["npm"])
		p.npmEntry(pkg.Identifier, version)
		return nil
	}
	p.opts.Progress("asking npm for " + pkg.Identifier)
	out, err := p.run(ctx, &command{
		tool: "npm", limit: p.opts.QueryTimeout,
		args: []string{"view", pkg.Identifier + "@" + want, "name", "version", "dist.integrity", "bin", "deprecated", "--json", "--logs-max=0", "--no-update-notifier"},
	})
	var v npmView
	if err != nil {
		return p.newest(ctx, npmFailure(out, err, pkg.Identifier, version), pkg, version)
	}
	if err := json.Unmarshal(out.Stdout, &v); err != nil || v.Version == "" {
		err := &Error{Reason: NotFound, Message: fmt.Sprintf("npm knows no version %s of %s", want, pkg.Identifier), Output: tail(out.Stdout), Cause: err}
		return p.newest(ctx, err, pkg, version)
	}
	switch {
	case v.Name != pkg.Identifier:
		return fail(BadIntegrity, "", "npm was asked for %s and answered with %s", pkg.Identifier, v.Name)
	case registry.CheckPackage(registry.NPM, v.Name, v.Version) != nil, version != "" && v.Version != version:
		return fail(BadIntegrity, "", "npm was asked for version %s of %s and answered with %q", want, pkg.Identifier, v.Version)
	}
	program, err := chooseBin(v.Name, v.Bin)
	if err != nil {
		return err
	}
	p.Source.Version, p.Source.Integrity = v.Version, v.Integrity
	if v.Integrity == "" {
		p.note("npm says no hash for this version; that of what comes is recorded")
	}
	var why string
	if json.Unmarshal(v.Deprecated, &why) == nil && why != "" {
		p.note("its authors call this version deprecated: %s", oneLine(why))
	}
	if extra := slices.DeleteFunc(slices.Clone(p.inputs.runtime), func(a string) bool { return a == "-y" || a == "--yes" }); len(extra) > 0 {
		p.note("its arguments for npx are not used, since it is started without: %s", strings.Join(extra, " "))
	}
	w := &npmWay{v.Name, v.Version, v.Integrity}
	p.way = w
	p.Commands = [][]string{w.command(p).words()}
	p.Start = append([]string{"node", path.Join("node_modules", v.Name, path.Clean(program))}, p.inputs.args...)
	p.npmEntry(v.Name, v.Version)
	return nil
}

// newest adds to the error about a version that is not there which one is the
// newest.
func (p *Plan) newest(ctx context.Context, err error, pkg *registry.Package, version string) error {
	var e *Error
	if version == "" || !errors.As(err, &e) || e.Reason != NotFound {
		return err
	}
	newest := Plan{opts: p.opts, runner: p.runner}
	var lookErr error
	if pkg.Kind == registry.NPM {
		lookErr = newest.resolveNPM(ctx, pkg, "")
	} else {
		w := &pypiWay{name: pkg.Identifier}
		lookErr = w.resolve(ctx, &newest)
		newest.Source.Version = w.version
	}
	if gone := (*Error)(nil); errors.As(lookErr, &gone) && gone.Absent {
		e.Absent = true
	}
	if lookErr != nil || newest.Source.Version == "" {
		return err // there is no such package at all, or nobody tells
	}
	known := *e
	known.Message = fmt.Sprintf("there is no version %s of %s; the newest is %s", version, pkg.Identifier, newest.Source.Version)
	known.Hint = fmt.Sprintf("Name %s without a version for the newest, or with one that is there.", pkg.Identifier)
	return &known
}

func (p *Plan) npmEntry(name, version string) {
	if version != "" {
		name += "@" + version
	}
	p.Entry = Entry{Command: "npx", Args: append([]string{"-y", name}, p.inputs.draftArgs...), Env: orNil(p.inputs.draftEnv)}
}

// npmFailure reads what npm said with --json, which it also does where it fails.
func npmFailure(out *child.Outcome, err error, name, version string) error {
	if out == nil {
		return err
	}
	var v npmView
	if json.Unmarshal(out.Stdout, &v) != nil || v.Error == nil {
		return err
	}
	switch v.Error.Code {
	case "E404", "ETARGET":
		return &Error{
			Reason: NotFound, Message: fmt.Sprintf("npm has no %s%s: %s", name, inVersion(version), oneLine(v.Error.Summary)),
			Hint: "Check the name, and that npm on this machine asks the right registry (npm config get registry).", Cause: err,
			Absent: version == "" && v.Error.Code == "E404",
		}
	}
	return &Error{Reason: Failed, Message: fmt.Sprintf("npm failed (%s): %s", v.Error.Code, oneLine(v.Error.Summary)), Cause: err}
}

func inVersion(version string) string {
	if version == "" {
		return ""
	}
	return " in version " + version
}

func (w *npmWay) command(p *Plan) *command {
	args := []string{
		"install", w.name + "@" + w.version, "--save-exact", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress",
		"--loglevel=error", "--logs-max=0", "--package-lock=true", "--lockfile-version=3", "--json", "--omit=dev", "--global=false", "--dry-run=false",
	}
	if p.opts.Scripts {
		args = append(args, "--ignore-scripts=false")
	} else {
		args = append(args, "--ignore-scripts")
	}
	return &command{tool: "npm", args: args, limit: p.opts.Timeout}
}

func (w *npmWay) install(ctx context.Context, p *Plan, claim *provisioned.Claim) (*started, error) {
	dir := claim.Dir()
	if find(p.opts.Environ, "node") == "" {
		return nil, fail(NoTool, toolHint["node"], "node is not in PATH")
	}
	// With it npm takes this folder, and none above it, for the project.
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{\"name\": \"server\", \"private\": true}\n"), 0o600); err != nil {
		return nil, onDisk("writing into "+dir, err)
	}
	c := w.command(p)
	c.dir = dir
	c.args = append(c.args, "--prefix="+dir)
	if out, err := p.run(ctx, c); err != nil {
		return nil, npmFailure(out, err, w.name, w.version)
	}
	scripts, integrity, err := w.check(dir)
	if err != nil {
		return nil, err
	}
	p.Source.Integrity = integrity
	s, err := w.start(dir, claim.Final())
	if err != nil {
		return nil, err
	}
	if len(scripts) > 0 && !p.opts.Scripts {
		const most = 10
		more := ""
		if len(scripts) > most {
			more = fmt.Sprintf(" and %d more", len(scripts)-most)
			scripts = scripts[:most]
		}
		s.notes = append(s.notes, "install scripts were not run, though these packages have some: "+strings.Join(scripts, ", ")+more+
			"; if the server does not start, it may need them")
	}
	return s, nil
}

// npmLock is npm's own lock file.
type npmLock struct {
	Packages map[string]struct {
		Version          string `json:"version"`
		Integrity        string `json:"integrity"`
		HasInstallScript bool   `json:"hasInstallScript"`
	} `json:"packages"`
}

// check compares what npm installed with what it said before, and lists the
// packages that have install scripts.
func (w *npmWay) check(dir string) (scripts []string, integrity string, err error) {
	text, err := readBounded(filepath.Join(dir, "package-lock.json"), 64<<20)
	if err != nil {
		return nil, "", fail(Failed, "", "npm said that it installed %s, but left no package-lock.json: %v", w.name, err)
	}
	var lock npmLock
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, "", fail(Failed, "", "npm left a package-lock.json that cannot be read: %v", err)
	}
	got, ok := lock.Packages["node_modules/"+w.name]
	switch {
	case !ok:
		return nil, "", fail(Failed, "", "npm said that it installed %s, but its package-lock.json does not name it", w.name)
	case got.Version != w.version:
		return nil, "", fail(BadIntegrity, "", "npm installed version %s of %s and not %s", got.Version, w.name, w.version)
	case w.integrity != "" && !sameIntegrity(w.integrity, got.Integrity):
		return nil, "", fail(BadIntegrity, "Somebody changed the package between the question and the download, or the registry is not in order. Do not use it.",
			"what npm installed of %s has another hash than the registry said: %s, not %s", w.name, got.Integrity, w.integrity)
	}
	for _, at := range slices.Sorted(maps.Keys(lock.Packages)) {
		if lock.Packages[at].HasInstallScript {
			scripts = append(scripts, at[strings.LastIndex("/"+at, "node_modules/")+len("node_modules/")-1:])
		}
	}
	return scripts, got.Integrity, nil
}

// sameIntegrity wants one hash of the strongest kind in both.
func sameIntegrity(a, b string) bool {
	for _, kind := range []string{"sha512-", "sha384-", "sha256-", "sha1-"} {
		of := func(text string) (list []string) {
			for word := range strings.FieldsSeq(text) {
				if strings.HasPrefix(word, kind) {
					list = append(list, word)
				}
			}
			return list
		}
		in, out := of(a), of(b)
		if len(in) > 0 || len(out) > 0 {
			return slices.ContainsFunc(in, func(h string) bool { return slices.Contains(out, h) })
		}
	}
	return false
}

func readBounded(file string, most int64) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("there is none")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > most:
		return nil, errors.New("it is no file, or far too large")
	}
	return os.ReadFile(file)
}

func oneLine(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if registry.HiddenAlone(r) {
			return ' '
		}
		return r
	}, text)), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func orNil(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
