package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/clients"
	"github.com/metamcp/metamcp/integration/config"
	"github.com/metamcp/metamcp/messages"
)

// system is the machine whose clients are looked at.
func (p *Patient) system() *clients.System {
	return &clients.System{GOOS: p.GOOS, Home: p.Home, Cwd: p.Cwd, Getenv: p.Getenv}
}

// places are where the known clients keep their configuration.
func (p *Patient) places() []clients.Place {
	sys := p.system()
	var all []clients.Place
	for _, c := range clients.All() {
		all = append(all, sys.Places(c)...)
	}
	return all
}

func (p *Patient) clientChecks() []Check {
	places := p.places()
	checks := []Check{{ID: "client.files", Group: GroupClients, Run: func(context.Context) []Result { return clientFiles(places) }}}
	for _, at := range places {
		checks = append(checks, Check{ID: "client.metamcp", Group: GroupClients, Subject: at.Name(), Run: func(context.Context) []Result {
			return p.client(at)
		}})
	}
	return checks
}

// clientFiles says which clients have a file at all.
func clientFiles(places []clients.Place) []Result {
	var there, missing []string
	for _, at := range places {
		if _, err := os.Stat(at.Path); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, at.Name()+": "+at.Path)
		} else {
			there = append(there, at.Name())
		}
	}
	if len(there) == 0 {
		return []Result{{
			Status: Skipped, Found: "no configuration file of a known client is there", Details: missing,
			Fix: "Other clients are configured by hand; docs/DOCTOR.md lists the known ones.",
		}}
	}
	return []Result{{Status: OK, Found: "configured here: " + strings.Join(there, ", ")}}
}

// client looks into the file of one client. No results: it has no such file.
func (p *Patient) client(at clients.Place) []Result {
	servers, err := at.Read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return []Result{{
			ID: "client.file", Status: Warn, Found: fmt.Sprintf("%s cannot be read: %v", at.Path, cause(err)),
			Why: "The client most likely cannot read it either, and then starts no server.", Fix: "Correct the file by hand.",
		}}
	}
	var ours, others []clients.Entry
	for _, s := range servers {
		switch {
		case s.Off:
		case s.Command != "" && p.isMetamcp(s.Command, p.clientCommand(s.Command)) && clients.Serves(s.Args):
			ours = append(ours, s)
		default:
			others = append(others, s)
		}
	}
	if len(ours) == 0 {
		if p.isOwn(at.Path) {
			return []Result{{Status: Skipped, Found: at.Path + " is metamcp's own configuration"}}
		}
		return []Result{{
			Status: Skipped, Found: fmt.Sprintf("%s does not list metamcp (%s)", at.Path, count(len(others), "other server")),
			Fix: p.howToAdd(at),
		}}
	}
	var results []Result
	for _, s := range ours {
		results = append(results, p.ourEntry(at, s))
	}
	return append(results, p.doubled(at, ours, others))
}

// isOwn reports whether a file is one that metamcp itself reads.
func (p *Patient) isOwn(path string) bool {
	return slices.ContainsFunc(p.Config.Files, func(f string) bool { return clients.SameFile(f, path) })
}

// howToAdd is the command that adds metamcp to a client's file.
func (p *Patient) howToAdd(at clients.Place) string {
	command := fmt.Sprintf("%s init %s", messages.ShellWord(p.Executable), at.Client.ID)
	if at.Project {
		command += " --project"
	}
	return "To use metamcp there: " + command
}

// clientCommand is the file that a command of a client starts; "": it is not
// found. The PATH is that of this program, which is the best that is known.
func (p *Patient) clientCommand(command string) string {
	spec := &messages.ServerSpec{Command: command, Cwd: p.Cwd, Env: []string{"PATH=" + p.Getenv("PATH"), "PATHEXT=" + p.Getenv("PATHEXT")}}
	if strings.HasPrefix(command, "~/") {
		spec.Command = p.absolute(command)
	}
	file, err := lookup(spec)
	if err != nil {
		return ""
	}
	return file
}

// ourEntry looks at an entry that starts metamcp.
func (p *Patient) ourEntry(at clients.Place, s clients.Entry) Result {
	r := Result{Status: OK}
	file := p.clientCommand(s.Command)
	in := at.Path
	if s.Where != "" {
		in += ", project " + s.Where
	}
	switch {
	case file == "":
		r.ID, r.Status = "client.command", Fail
		r.Found = fmt.Sprintf("%s: the command %s of the entry %q is not there or not executable", in, s.Command, s.Name)
		r.Why = "The client cannot start metamcp, so it sees none of the servers behind it."
		r.Fix = fmt.Sprintf("Write %q as its command.", p.Executable)
	case isBare(s.Command) && at.Client.Menu:
		r.ID, r.Status = "client.command", Warn
		r.Found = fmt.Sprintf("%s: the entry %q names %s without its folder", in, s.Name, s.Command)
		r.Why = "A client that is started from a menu often has a shorter PATH than this terminal, and does not find it."
		r.Fix = fmt.Sprintf("Write %q as its command.", file)
	case !p.isSelf(file):
		r.ID, r.Status = "client.command", Warn
		r.Found = fmt.Sprintf("%s: the entry %q starts %s, and this program is %s", in, s.Name, file, p.Executable)
		r.Why = "What is found here may not hold for the program that the client starts."
		r.Fix = fmt.Sprintf("Write %q as its command, or run that program's doctor: %s doctor", p.Executable, messages.ShellWord(file))
	default:
		r.Found = fmt.Sprintf("%s: the entry %q starts this program", in, s.Name)
		if err := p.entryConfig(s.Args); err != nil {
			r.ID, r.Status = "client.config", Fail
			r.Found = fmt.Sprintf("%s: the entry %q names a configuration with which this program does not start: %v", in, s.Name, cause(err))
			r.Why = "The client sees none of the servers behind metamcp."
			r.Fix = "Mend that file, or name another in the entry's args."
		}
	}
	return r
}

// entryConfig is why metamcp does not start with the files that an entry's arguments
// name. What depends on the client's own folder is not looked at, and neither are pipes.
func (p *Patient) entryConfig(args []string) error {
	files := clients.ConfigFiles(args)
	for i, f := range files {
		if !filepath.IsAbs(f) && !strings.HasPrefix(f, "~/") {
			return nil
		}
		files[i] = p.absolute(f)
		if info, err := os.Stat(files[i]); err == nil && !info.Mode().IsRegular() {
			return nil
		}
	}
	if len(files) == 0 {
		return nil
	}
	_, err := config.Load(config.Sources{Files: files, Home: p.Home, Cwd: p.Cwd, Environ: []string{}})
	return err
}

// doubled finds servers that a client starts itself though metamcp has them.
func (p *Patient) doubled(at clients.Place, ours, others []clients.Entry) Result {
	r := Result{ID: "client.doubled", Status: OK, Found: "no server that stands behind metamcp is listed beside it"}
	var names, commands []string
	for _, o := range others {
		// A list of one project counts where metamcp is listed too.
		if !slices.ContainsFunc(ours, func(s clients.Entry) bool { return s.Where == "" || o.Where == "" || s.Where == o.Where }) {
			continue
		}
		for _, spec := range p.Config.Servers {
			if spec.Disabled || spec.Err != nil || !sameServer(o, spec) {
				continue
			}
			name := o.Name
			if spec.Name != o.Name {
				name += " (behind metamcp: " + spec.Name + ")"
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			if c := p.howToTake(at, o.Where); !slices.Contains(commands, c) {
				commands = append(commands, c)
			}
			break
		}
	}
	if len(names) == 0 {
		return r
	}
	r.Status, r.Found = Warn, fmt.Sprintf("%s: listed beside metamcp and behind it: %s", at.Path, strings.Join(names, ", "))
	r.Why = "They run twice, and the client's model sees all their tools at once, which metamcp is there to avoid."
	r.Fix = fmt.Sprintf("Take them out of the client's file with %s, which shows what it changes and can be undone; or remove them from metamcp's configuration.", strings.Join(commands, " and "))
	if p.isOwn(at.Path) {
		r.Fix = fmt.Sprintf("The client and metamcp read one file. %s moves them into one of metamcp's own; the entry %q then needs --config %s in its args.", commands[0], ours[0].Name, ownFile)
	}
	return r
}

// ownFile is where metamcp's own configuration is unless others are named.
const ownFile = "~/.metamcp/mcp.json"

// howToTake is the command that takes servers out of a client's file, or out of its part
// for one folder, into the configuration.
func (p *Patient) howToTake(at clients.Place, folder string) string {
	command := "metamcp import " + at.Client.ID + " --remove"
	if at.Project || folder != "" {
		command += " --project"
	}
	files := p.Config.Files
	switch {
	case p.isOwn(at.Path):
		command += " --config " + ownFile
	case len(files) > 0 && !clients.SameFile(files[len(files)-1], p.absolute(ownFile)):
		command += " --config " + messages.ShellWord(files[len(files)-1])
	}
	command = "`" + command + "`"
	if folder != "" && folder != p.Cwd {
		command += " in " + folder
	}
	return command
}

// sameServer reports whether an entry of a client and one of ours start the
// same: by name and command, or by command and arguments.
func sameServer(o clients.Entry, spec *messages.ServerSpec) bool {
	if o.Command == "" || spec.Transport != messages.TransportStdio {
		return o.Name == spec.Name && o.Command == "" && spec.Transport != messages.TransportStdio
	}
	if base(o.Command) != base(spec.Command) {
		return false
	}
	return o.Name == spec.Name || slices.Equal(o.Args, spec.Args)
}

// isBare reports whether a command has no folder.
func isBare(command string) bool { return filepath.Base(command) == command && !isPath(command) }
