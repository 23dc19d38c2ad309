package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/messages"
)

func (p *Patient) commandChecks() []Check {
	var checks []Check
	uses := map[string]*use{}
	for _, spec := range p.servers() {
		if spec.Transport != messages.TransportStdio {
			continue
		}
		checks = append(checks, Check{ID: "command.found", Group: GroupCommands, Subject: spec.Name, Run: func(context.Context) []Result {
			return p.command(spec)
		}})
		collectRuntime(uses, spec)
	}
	if checks == nil {
		return []Check{{ID: "command.found", Group: GroupCommands, Run: func(context.Context) []Result {
			return []Result{{Status: Skipped, Found: "there is no local server to look at"}}
		}}}
	}
	keys := make([]string, 0, len(uses))
	for k := range uses {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		u := uses[k]
		checks = append(checks, Check{ID: "command.runtime", Group: GroupCommands, Subject: u.program, Run: u.check})
	}
	return checks
}

// command looks at one entry's working folder, command and interpreter.
func (p *Patient) command(spec *messages.ServerSpec) []Result {
	var results []Result
	if spec.Cwd != "" {
		if missing := new(lookupError); errors.As(workingFolder(spec, p.absolute(spec.Cwd)), &missing) {
			return []Result{missing.result()}
		}
		if !filepath.IsAbs(spec.Cwd) && !p.ofProject(spec.Source) {
			results = append(results, Result{
				ID: "command.cwd", Status: Warn, Found: fmt.Sprintf("its working folder %s is relative to the folder in which metamcp is started", spec.Cwd),
				Why: "Clients start metamcp in folders of their own, where that folder is not found, or is another one.",
				Fix: fmt.Sprintf("Write the full path as \"cwd\" at %s: %s", spec.Source, p.absolute(spec.Cwd)),
			})
		}
	}
	return append(results, p.program(spec))
}

// ofProject reports whether an entry's "file:line" is in a file of the working folder.
func (p *Patient) ofProject(source string) bool {
	return p.system().OfProject(source[:max(strings.LastIndexByte(source, ':'), 0)])
}

// program looks at one entry's command and interpreter.
func (p *Patient) program(spec *messages.ServerSpec) Result {
	file, err := lookup(spec)
	var missing *lookupError
	if errors.As(err, &missing) {
		return missing.result()
	}
	if program, viaEnv := interpreter(file); program != "" {
		with := &messages.ServerSpec{Command: program, Env: spec.Env, Cwd: spec.Cwd, Source: spec.Source}
		if !viaEnv && !filepath.IsAbs(program) {
			with.Command = under(spec.Cwd, program)
		}
		if _, err := lookup(with); err != nil {
			fix := fmt.Sprintf("Install %q, or correct the first line of %s.", program, file)
			if how := howToInstall[base(program)]; how != "" {
				fix = how + ", or correct the first line of " + file + "."
			}
			return Result{
				ID: "command.interpreter", Status: Fail, Found: fmt.Sprintf("%s is a script, and its interpreter %q is not there", file, program),
				Why: "The server cannot be started; the system says that the script itself does not exist.", Fix: fix,
			}
		}
	}
	r := Result{Status: OK, Found: file}
	if !filepath.IsAbs(file) && spec.Cwd == "" {
		r.Status, r.Found = Warn, fmt.Sprintf("%s is relative to the folder in which metamcp is started", file)
		r.Why = "Clients start metamcp in folders of their own, where the command is not found."
		r.Fix = fmt.Sprintf("Write the full path as \"command\" at %s: %s", spec.Source, p.absolute(file))
	}
	return r
}

// use is a runtime that servers need.
type use struct {
	program string // the file to ask for its version
	kind    string // node, uv, python or docker
	servers []string
	spec    *messages.ServerSpec // the first one that uses it
}

// runtimeOf is the program to ask about a command.
var runtimeOf = map[string]struct{ kind, program string }{
	"npx": {"node", "node"}, "npm": {"node", "node"}, "node": {"node", "node"}, "pnpm": {"node", "node"}, "yarn": {"node", "node"},
	"uvx": {"uv", "uvx"}, "uv": {"uv", "uv"},
	"python": {"python", "python"}, "python3": {"python", "python3"},
	"docker": {"docker", "docker"},
}

func collectRuntime(uses map[string]*use, spec *messages.ServerSpec) {
	ask, ok := runtimeOf[base(spec.Command)]
	if !ok {
		return
	}
	program := ask.program
	if filepath.Dir(spec.Command) != "." {
		// A runtime that was named by its path is that one.
		program = filepath.Join(filepath.Dir(spec.Command), program)
	}
	key := ask.kind + "\x00" + program + "\x00" + environ(spec.Env, "PATH")
	u := uses[key]
	if u == nil {
		u = &use{program: program, kind: ask.kind, spec: spec}
		uses[key] = u
	}
	u.servers = append(u.servers, spec.Name)
}

// usedBy names the servers that need a runtime.
func (u *use) usedBy() string {
	const most = 5
	if len(u.servers) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(u.servers[:most], ", "), len(u.servers)-most)
	}
	return strings.Join(u.servers, ", ")
}
