package clients

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/metamcp/metamcp/integration/lazyregexp"
)

// Setup is who changes files, and where.
type Setup struct {
	System
	// Executable is the absolute path that entries start.
	Executable string
	// Config are the absolute paths of the configuration files that an entry
	// names; empty: metamcp looks for its files where it is started.
	Config []string
	// OwnFiles are the files that metamcp would read without Config.
	OwnFiles []string
	// Backups is the folder of what was there before.
	Backups string
}

// InitOptions say what [Setup.PlanInit] is to do.
type InitOptions struct {
	Clients []*Client // empty: those that are installed
	Project bool      // the working folder's files, and not the user's
	Entry   string    // the name of the entry; "": metamcp
}

// entryName is what every client takes for a name.
var entryName = lazyregexp.New(`^[A-Za-z0-9_-]{1,64}$`)

// PlanInit says what has to be done so that the clients start metamcp. Where no
// clients are named and none is installed, there are no changes.
func (s *Setup) PlanInit(o InitOptions) ([]*Change, error) {
	if o.Entry == "" {
		o.Entry = "metamcp"
	}
	if !entryName().MatchString(o.Entry) {
		return nil, fmt.Errorf("%q is no name for an entry: use letters, digits, _ and -, at most 64", o.Entry)
	}
	var changes []*Change
	for _, p := range s.chosen(o.Clients, o.Project) {
		changes = append(changes, s.initOne(p, o.Entry))
	}
	return changes, nil
}

// chosen are the files of the clients that are meant. A client that is named
// and has no such file gets a place without a path.
func (s *Setup) chosen(named []*Client, project bool) []Place {
	list := named
	if len(list) == 0 {
		list = slices.DeleteFunc(All(), func(c *Client) bool { return !s.Installed(c) })
	}
	var places []Place
	for _, c := range list {
		all := s.Places(c)
		i := slices.IndexFunc(all, func(p Place) bool { return p.Project == project })
		switch {
		case i >= 0:
			places = append(places, all[i])
		case len(named) > 0:
			places = append(places, Place{Client: c, Project: project})
		}
	}
	return places
}

// open begins a change with what is in the file.
func (s *Setup) open(p Place) *Change {
	c := &Change{Client: p.Client.ID, Name: p.Name(), File: p.Path, client: p.Client}
	if p.Path == "" {
		c.fail("this client has no file of its own for a project")
		return c
	}
	var err error
	if c.found, err = readFile(p.Path); err != nil {
		c.fail("%v", err)
	}
	return c
}

func (s *Setup) initOne(p Place, name string) *Change {
	c := s.open(p)
	if c.Status == StatusFailed {
		return c
	}
	entries, path, err := p.Client.entries(c.found.data)
	if err != nil {
		c.fail("%v; correct it by hand, nothing was changed", err)
		return c
	}
	read := s.Config
	if len(read) == 0 {
		read = s.OwnFiles
	}
	if slices.ContainsFunc(read, func(f string) bool { return SameFile(f, p.Path) }) {
		c.fail("metamcp reads this file as its own configuration and would start itself; give it another one with --config")
		return c
	}
	var want object
	update := false
	for i := range entries {
		e := &entries[i]
		ours := isMetamcp(e.Command, s.Executable) && Serves(e.Args)
		switch {
		case ours && s.starts(p.Client, e):
			c.Status, c.Looks = StatusPresent, e.looks()
			if e.Off {
				c.note("its entry %q is turned off", e.Name)
			}
			return c
		case e.Name == name && !ours:
			c.fail("its entry %q starts something else; choose another name with --name", name)
			return c
		case e.Name == name:
			update = true
			want = s.command(p.Client, e.Args)
			c.Looks = len(s.Config) == 0 && e.looks()
		case ours:
			c.Status, c.Looks = StatusPresent, e.looks()
			c.note("its entry %q starts metamcp in another way; to change it: --name %s", e.Name, e.Name)
			return c
		}
	}
	status := StatusUpdate
	if !update {
		status, want = StatusAdd, s.newEntry(p.Client, len(path) > 1)
		c.Looks = len(s.Config) == 0
	}
	var after []byte
	if p.Client.format == formatTOML {
		after, err = setTOML(c.found.data, p.Client.Key, name, want)
	} else {
		after, err = setJSON(c.found.data, path, name, want)
	}
	if err != nil {
		c.fail("%v", err)
		return c
	}
	c.propose(after, status)
	return c
}

// starts reports whether an entry starts this program with the configuration
// that is wanted.
func (s *Setup) starts(c *Client, e *Entry) bool {
	file := e.Command
	if filepath.Base(file) == file {
		if c.Menu {
			return false // it has another PATH than this terminal
		}
		file, _ = exec.LookPath(file)
	}
	return SameFile(file, s.Executable) && (len(s.Config) == 0 || slices.Equal(configFiles(e.Args), s.Config))
}

// configFiles are the values of --config.
func configFiles(args []string) []string {
	var files []string
	for i, a := range args {
		switch value, ok := strings.CutPrefix(a, "--config="); {
		case ok:
			files = append(files, value)
		case (a == "--config" || a == "-c") && i+1 < len(args):
			files = append(files, args[i+1])
		}
	}
	return files
}

// arguments are those of an entry; was is what it has, where it is there.
func (s *Setup) arguments(was []string) []string {
	args := []string{}
	for _, f := range s.Config {
		args = append(args, "--config", f)
	}
	if len(s.Config) == 0 {
		return append(args, was...)
	}
	// Its other flags stay.
	for i := 0; i < len(was); i++ {
		switch a := was[i]; {
		case strings.HasPrefix(a, "--config="):
		case a == "--config" || a == "-c":
			i++
		default:
			args = append(args, a)
		}
	}
	return args
}

// command are the members that say what is started.
func (s *Setup) command(c *Client, was []string) object {
	args := s.arguments(was)
	if c.format == formatOpenCode {
		return object{{"command", append([]string{s.Executable}, args...)}}
	}
	return object{{"command", s.Executable}, {"args", args}}
}

// newEntry is a whole entry as the client's documentation writes it.
func (s *Setup) newEntry(c *Client, secondOpenCode bool) object {
	entry := slices.Concat(c.extra, s.command(c, nil))
	if c.format == formatOpenCode {
		entry = slices.Concat(object{{"type", "local"}}, entry)
		if !secondOpenCode {
			entry = append(entry, member{"enabled", true})
		}
	}
	return entry
}
