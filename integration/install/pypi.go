package install

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
	"github.com/metamcp/metamcp/integration/provisioned"
	"github.com/metamcp/metamcp/integration/registry"
)

// pypiWay installs a package of PyPI into an environment of its own, by uv, or
// by pipx where that alone is there.
type pypiWay struct {
	name, version string
	hashes        []string // that uv says, like sha256:…
	pipx          bool
}

const pythonHint = "Install uv (https://docs.astral.sh/uv), which also finds versions and checks hashes, or pipx."

func (p *Plan) resolvePyPI(ctx context.Context, pkg *registry.Package, version string) error {
	w := &pypiWay{name: pkg.Identifier, version: version}
	p.way = w
	runner := "uvx"
	switch {
	case find(p.opts.Environ, "uv") != "":
		p.opts.Progress("asking uv for " + pkg.Identifier)
		if err := w.resolve(ctx, p); err != nil {
			return p.newest(ctx, err, pkg, version)
		}
		p.Commands = [][]string{{"uv", "venv"}, {"uv", "pip", "install", "--require-hashes", "--no-build", w.requirement()}}
	case find(p.opts.Environ, "pipx") != "":
		if version == "" {
			return fail(NoTool, pythonHint, "pipx does not tell the newest version of %s", pkg.Identifier)
		}
		w.pipx, runner = true, "pipx"
		p.note("pipx tells no hash of the package; what it installs is recorded")
		p.Commands = [][]string{{"pipx", "install", "--pip-args=--only-binary=:all:", w.requirement()}}
	default:
		p.Source.Version = version
		p.without("it is a package of Python, and there is neither uv nor pipx", pythonHint)
	}
	p.Source.Version = w.version
	p.Source.Integrity = strings.ReplaceAll(strings.Join(w.hashes, " "), "sha256:", "sha256-")
	if len(p.inputs.runtime) > 0 {
		p.note("its arguments for %s are not used, since it is started without: %s", runner, strings.Join(p.inputs.runtime, " "))
	}
	p.Entry = w.entry(p)
	p.Start = append([]string{"python", w.name}, p.inputs.args...)
	return nil
}

// entry is what a person could write.
func (w *pypiWay) entry(p *Plan) Entry {
	if w.pipx {
		return Entry{Command: "pipx", Args: append([]string{"run", "--spec", w.requirement(), w.name}, p.inputs.draftArgs...), Env: orNil(p.inputs.draftEnv)}
	}
	return Entry{Command: "uvx", Args: append([]string{w.requirement()}, p.inputs.draftArgs...), Env: orNil(p.inputs.draftEnv)}
}

func (w *pypiWay) requirement() string {
	if w.version == "" {
		return w.name
	}
	return w.name + "==" + w.version
}

// resolve asks uv for the exact version and its hashes.
func (w *pypiWay) resolve(ctx context.Context, p *Plan) (err error) {
	// uv reads what is wanted from a file only.
	dir, err := os.MkdirTemp("", "metamcp-uv-")
	if err != nil {
		return onDisk("making a folder for uv", err)
	}
	defer func() { err = cmp.Or(err, onDisk("deleting the folder for uv", provisioned.RemoveAll(dir))) }()
	list := filepath.Join(dir, "requirements.in")
	if err := os.WriteFile(list, []byte(w.requirement()+"\n"), 0o600); err != nil {
		return onDisk("writing for uv", err)
	}
	out, err := p.run(ctx, &command{
		tool: "uv", limit: p.opts.QueryTimeout,
		args: []string{"pip", "compile", list, "--no-deps", "--generate-hashes", "--no-header", "--no-annotate", "--no-build", "--quiet"},
	})
	if err != nil {
		return pythonFailure(err, w.requirement())
	}
	version, hashes, ok := readRequirements(out.Stdout, w.name)
	switch {
	case !ok || registry.CheckPackage(registry.PyPI, w.name, version) != nil:
		return &Error{Reason: NotFound, Message: fmt.Sprintf("uv knows no version of %s", w.requirement()), Output: tail(out.Stdout)}
	case w.version != "" && !SameVersion(registry.PyPI, version, w.version):
		return fail(BadIntegrity, "", "uv was asked for version %s of %s and answered with %s", w.version, w.name, version)
	}
	w.version, w.hashes = version, hashes
	return nil
}

func pythonFailure(err error, what string) error {
	var e *Error
	if !errors.As(err, &e) || e.Reason != Failed {
		return err
	}
	said := strings.ToLower(e.Output)
	const absent = "was not found in the package registry"
	for _, phrase := range []string{"no solution found", absent, "no matching distribution", "no version of"} {
		if strings.Contains(said, phrase) {
			return &Error{Reason: NotFound, Message: "there is no " + what + " that can be installed here: " + lastLine(e.Output), Output: e.Output, Cause: err, Absent: strings.Contains(said, absent),
				Hint: "Check name and version. Packages without a wheel for this machine are not installed, since building one runs their code."}
		}
	}
	return err
}

// SameVersion says whether two versions of a package of that kind are the same.
func SameVersion(kind registry.Kind, a, b string) bool {
	return a == b || kind == registry.PyPI && normalVersion(a) == normalVersion(b)
}

// normalVersion makes 1.0 and 1.0.0 the same, as PyPI does.
func normalVersion(v string) string {
	for strings.HasSuffix(v, ".0") {
		v = strings.TrimSuffix(v, ".0")
	}
	return strings.ToLower(v)
}

var separators = lazyregexp.New(`[-_.]+`)

// pythonName spells a name as PyPI does.
func pythonName(name string) string {
	return separators().ReplaceAllString(strings.ToLower(name), "-")
}

// readRequirements finds version and hashes of a package in what uv compiled.
func readRequirements(text []byte, name string) (version string, hashes []string, ok bool) {
	mine := false
	for line := range strings.Lines(string(text)) {
		word := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), `\`))
		if hash, is := strings.CutPrefix(word, "--hash="); is {
			if mine {
				hashes = append(hashes, hash)
			}
			continue
		}
		word, _, _ = strings.Cut(word, ";")
		is, v, found := strings.Cut(strings.TrimSpace(word), "==")
		is, _, _ = strings.Cut(is, "[")
		if mine = found && pythonName(is) == pythonName(name); mine {
			version, ok = strings.TrimSpace(v), true
		}
	}
	slices.Sort(hashes)
	return version, hashes, ok
}

func (w *pypiWay) install(ctx context.Context, p *Plan, claim *provisioned.Claim) (*started, error) {
	if w.pipx {
		return w.byPipx(ctx, p, claim)
	}
	dir := claim.Dir()
	venv := filepath.Join(dir, "venv")
	wanted, list := filepath.Join(dir, "requirements.in"), filepath.Join(dir, "requirements.txt")
	if err := os.WriteFile(wanted, []byte(w.requirement()+"\n"), 0o600); err != nil {
		return nil, onDisk("writing into "+dir, err)
	}
	python := filepath.Join(venv, pythonFile("python"))
	for _, args := range [][]string{
		{"venv", venv, "--no-project", "--quiet"},
		{"pip", "compile", wanted, "--output-file", list, "--python", python, "--generate-hashes", "--no-header", "--no-annotate", "--no-build", "--quiet"},
	} {
		if _, err := p.run(ctx, &command{tool: "uv", args: args, limit: p.opts.Timeout}); err != nil {
			return nil, pythonFailure(err, w.requirement())
		}
	}
	text, err := readBounded(list, maxOutput)
	if err != nil {
		return nil, fail(Failed, "", "uv left no list of what it would install: %v", err)
	}
	if _, hashes, ok := readRequirements(text, w.name); !ok || len(w.hashes) == 0 || !slices.Equal(hashes, w.hashes) {
		return nil, fail(BadIntegrity, "Somebody changed the package between the question and the download, or the index is not in order.",
			"%s has other hashes now than before", w.requirement())
	}
	if _, err := p.run(ctx, &command{tool: "uv", limit: p.opts.Timeout, args: []string{
		"pip", "install", "--python", python, "--require-hashes", "--no-build", "--link-mode=copy", "--quiet", "--requirements", list,
	}}); err != nil {
		return nil, pythonFailure(err, w.requirement())
	}
	return w.start(claim, venv)
}

func (w *pypiWay) byPipx(ctx context.Context, p *Plan, claim *provisioned.Claim) (*started, error) {
	home := filepath.Join(claim.Dir(), "pipx")
	_, err := p.run(ctx, &command{
		tool: "pipx", limit: p.opts.Timeout, args: []string{"install", "--pip-args=--only-binary=:all:", w.requirement()},
		env: []string{"PIPX_HOME=" + home, "PIPX_BIN_DIR=" + filepath.Join(home, "bin"), "PIPX_MAN_DIR=" + filepath.Join(home, "man")},
	})
	if err != nil {
		return nil, pythonFailure(err, w.requirement())
	}
	return w.start(claim, filepath.Join(home, "venvs", pythonName(w.name)))
}

// pythonFile is where an environment has a program.
func pythonFile(name string) string {
	if runtime.GOOS == "windows" {
		return filepath.Join("Scripts", name+".exe")
	}
	return filepath.Join("bin", name)
}

// start finds the program of the package. The environment's own Python runs it:
// the script names that of the folder in which it was made.
func (w *pypiWay) start(claim *provisioned.Claim, venv string) (*started, error) {
	infos, err := filepath.Glob(filepath.Join(venv, "lib", "python*", "site-packages", "*.dist-info"))
	if err == nil && len(infos) == 0 {
		infos, err = filepath.Glob(filepath.Join(venv, "Lib", "site-packages", "*.dist-info"))
	}
	if err != nil {
		return nil, err
	}
	var scripts []string
	for _, info := range infos {
		name, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(info), ".dist-info"), "-")
		if pythonName(name) != pythonName(w.name) {
			continue
		}
		text, err := readBounded(filepath.Join(info, "entry_points.txt"), maxManifest)
		if err == nil {
			scripts = consoleScripts(text)
		}
	}
	var script string
	switch i := slices.IndexFunc(scripts, func(s string) bool { return pythonName(s) == pythonName(w.name) }); {
	case i >= 0:
		script = scripts[i]
	case len(scripts) == 1:
		script = scripts[0]
	case len(scripts) == 0:
		return nil, fail(NoProgram, "It may be a library; look at its documentation for how the server is started.",
			"the package %s has no program (no console script), so there is nothing to start", w.name)
	default:
		return nil, fail(NoProgram, "Configure the one that is the server by hand: uvx --from "+w.requirement()+" PROGRAM.",
			"the package %s has several programs and none of its own name: %s", w.name, strings.Join(scripts, ", "))
	}
	file, err := inside(venv, filepath.ToSlash(pythonFile(script)))
	if err != nil {
		return nil, fail(NoProgram, "", "the program of %s is %q: %v", w.name, script, err)
	}
	there := func(file string) (string, error) {
		rel, err := filepath.Rel(claim.Dir(), file)
		return literal(filepath.Join(claim.Final(), rel)), err
	}
	program, err := there(file)
	if err != nil {
		return nil, err
	}
	python, err := there(filepath.Join(venv, pythonFile("python")))
	if err != nil {
		return nil, err
	}
	return &started{entry: Entry{Command: python, Args: []string{program}}}, nil
}

// consoleScripts are the programs that an entry_points.txt names.
func consoleScripts(text []byte) []string {
	var scripts []string
	in := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			in = line == "[console_scripts]"
			continue
		}
		if name, _, ok := strings.Cut(line, "="); ok && in {
			if name = strings.TrimSpace(name); name != "" {
				scripts = append(scripts, name)
			}
		}
	}
	slices.Sort(scripts)
	return scripts
}
